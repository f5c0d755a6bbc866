//! What the simulated engine holds, and what is scripted to go wrong.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use openshell_core::{ContainerId, EngineId, Generation, Incarnation, SandboxId, Timestamp};
use tokio::sync::mpsc;

use super::gate::Gate;
use crate::driver::{DriverError, EngineExit, EngineSignal, Role, Sighting};

/// The driver's methods, for scripts and for the log.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[expect(missing_docs, reason = "they are the methods of ComputeDriver")]
pub enum Method {
    Info,
    PrepareImage,
    PrepareRun,
    Launch,
    Stop,
    RemoveSupervisor,
    Remove,
    Inspect,
    Wait,
    ListOwned,
    ReadArchive,
    WriteArchive,
}

/// What goes wrong with one call.
#[derive(Clone, Debug)]
pub enum Fault {
    /// It takes so long, and then goes on.
    Delay(Duration),
    /// It goes on once the gate is opened.
    Hold(Gate),
    /// It is not done.
    Fail(DriverError),
    /// It is done, and its answer lost.
    Lose(DriverError),
    /// It never answers.
    Hang,
    /// The driver panics.
    Panic,
}

/// One call that was made.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Call {
    /// Which.
    pub method: Method,
    /// For whom; none where a call is not for a sandbox.
    pub sandbox: Option<SandboxId>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Status {
    Created,
    Running(Timestamp),
    Exited(Timestamp, EngineExit),
}

#[derive(Clone, Debug)]
pub(super) struct Container {
    pub(super) sandbox: SandboxId,
    pub(super) role: Role,
    pub(super) generation: Generation,
    pub(super) status: Status,
    /// Ignores TERM: a stop takes the whole grace.
    pub(super) stubborn: bool,
}

/// An engine that another has taken the place of.
#[derive(Debug)]
pub struct Replaced {
    pub(super) engine: EngineId,
    pub(super) containers: BTreeMap<ContainerId, Container>,
}

pub(super) struct World {
    pub(super) engine: EngineId,
    pub(super) containers: BTreeMap<ContainerId, Container>,
    pub(super) faults: BTreeMap<(Method, Option<SandboxId>), VecDeque<Fault>>,
    pub(super) calls: Vec<Call>,
    pub(super) watchers: Vec<mpsc::Sender<EngineSignal>>,
    pub(super) launches: Vec<mpsc::Sender<(SandboxId, Generation)>>,
    pub(super) stubborn: bool,
    next: u64,
}

impl World {
    pub(super) const fn new(engine: EngineId) -> Self {
        Self {
            engine,
            containers: BTreeMap::new(),
            faults: BTreeMap::new(),
            calls: Vec::new(),
            watchers: Vec::new(),
            launches: Vec::new(),
            stubborn: false,
            next: 0,
        }
    }

    pub(super) fn make(
        &mut self,
        sandbox: SandboxId,
        role: Role,
        generation: Generation,
    ) -> ContainerId {
        self.next += 1;
        let id = ContainerId(format!("{:012x}-{role}", self.next));
        let stubborn = self.stubborn;
        self.containers.insert(
            id.clone(),
            Container {
                sandbox,
                role,
                generation,
                status: Status::Created,
                stubborn,
            },
        );
        id
    }

    pub(super) fn start(&mut self, id: &ContainerId, now: Timestamp) -> Option<Incarnation> {
        let container = self.containers.get_mut(id)?;
        let started_at = match container.status {
            Status::Running(at) => at,
            _ => now,
        };
        container.status = Status::Running(started_at);
        Some(Incarnation {
            container: id.clone(),
            started_at,
        })
    }

    /// Ends a running container; answers whether it ran.
    pub(super) fn end(&mut self, id: &ContainerId, code: i32, oom: bool, now: Timestamp) -> bool {
        let Some(container) = self.containers.get_mut(id) else {
            return false;
        };
        let Status::Running(started) = container.status else {
            return false;
        };
        container.status = Status::Exited(
            started,
            EngineExit {
                code,
                oom_killed: oom,
                finished_at: now,
            },
        );
        true
    }

    pub(super) fn sighting(&self, id: &ContainerId) -> Sighting {
        let incarnation = |started_at| Incarnation {
            container: id.clone(),
            started_at,
        };
        match self.containers.get(id).map(|c| c.status.clone()) {
            None => Sighting::Missing(self.engine.clone()),
            Some(Status::Created) => Sighting::Created,
            Some(Status::Running(at)) => Sighting::Running(incarnation(at)),
            Some(Status::Exited(at, exit)) => Sighting::Exited(incarnation(at), exit),
        }
    }

    pub(super) fn find(&self, sandbox: SandboxId, role: Role) -> Option<ContainerId> {
        self.containers
            .iter()
            .filter(|(_, c)| c.sandbox == sandbox && c.role == role)
            .max_by_key(|(_, c)| c.generation)
            .map(|(id, _)| id.clone())
    }
}
