//! What the simulated engine holds, and what is scripted to go wrong.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use openshell_core::{ContainerId, EngineId, Generation, Incarnation, SandboxId, Timestamp};
use tokio::sync::mpsc;

use super::gate::Gate;
use crate::driver::{DriverError, EngineExit, EngineSignal, Role, Sighting};
use crate::time::after;

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

/// Something that happened in the engine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Happening {
    /// Whose, by label.
    pub sandbox: SandboxId,
    /// Which half.
    pub role: Role,
    /// Of which run, by label; a workload's is that of the run it was made for.
    pub generation: Generation,
    /// The container.
    pub container: ContainerId,
    /// It only carries a copy of our labels (L14).
    pub foreign: bool,
    /// By the engine's clock.
    pub at: Timestamp,
    /// What.
    pub kind: HappeningKind,
}

/// What can happen to a container.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum HappeningKind {
    /// It was made.
    Made,
    /// It runs; the generation is that of the launch, none if it was not the fence's.
    Started(Option<Generation>),
    /// It does not run any more.
    Ended(EngineExit),
    /// It is gone; true if it ran until then.
    Removed(bool),
}

/// Sees everything that happens in a simulated engine, as it happens.
pub trait Observer: Send + Sync + 'static {
    /// Called outside of every lock, in order.
    fn happened(&self, happening: &Happening);
}

#[derive(Clone, Debug)]
pub(super) struct Container {
    /// The storage that holds it.
    pub(super) engine: EngineId,
    /// It only carries a copy of our labels (L14).
    pub(super) foreign: bool,
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
    /// Nothing answers.
    pub(super) down: bool,
    pub(super) happenings: Vec<Happening>,
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
            down: false,
            happenings: Vec::new(),
            next: 0,
        }
    }

    /// The engine's clock: no two lives of a container begin at once, and none ends before it began.
    fn stamp(&self, id: &ContainerId, now: Timestamp) -> Timestamp {
        match self.containers.get(id).map(|c| &c.status) {
            Some(Status::Running(since)) => now.max(*since),
            Some(Status::Exited(since, exit)) => {
                now.max(after(exit.finished_at.max(*since), Duration::from_nanos(1)))
            }
            Some(Status::Created) | None => now,
        }
    }

    fn note(&mut self, id: &ContainerId, at: Timestamp, kind: HappeningKind) {
        if let Some(container) = self.containers.get(id) {
            self.happenings.push(Happening {
                sandbox: container.sandbox,
                role: container.role,
                generation: container.generation,
                container: id.clone(),
                foreign: container.foreign,
                at,
                kind,
            });
        }
    }

    /// Whether this engine, as it presents itself now, has it.
    pub(super) fn holds(&self, id: &ContainerId) -> bool {
        self.containers
            .get(id)
            .is_some_and(|c| c.engine == self.engine)
    }

    /// Those of a sandbox that are ours, on this engine.
    pub(super) fn ours(
        &self,
        sandbox: SandboxId,
    ) -> impl Iterator<Item = (&ContainerId, &Container)> {
        self.containers
            .iter()
            .filter(move |(_, c)| c.sandbox == sandbox && !c.foreign && c.engine == self.engine)
    }

    pub(super) fn make(
        &mut self,
        sandbox: SandboxId,
        role: Role,
        generation: Generation,
        now: Timestamp,
    ) -> ContainerId {
        self.make_for(sandbox, role, generation, false, now)
    }

    /// Ours, or with a copy of our labels.
    pub(super) fn make_for(
        &mut self,
        sandbox: SandboxId,
        role: Role,
        generation: Generation,
        foreign: bool,
        now: Timestamp,
    ) -> ContainerId {
        self.next += 1;
        let id = ContainerId(format!("{:012x}-{role}", self.next));
        let container = Container {
            engine: self.engine.clone(),
            foreign,
            sandbox,
            role,
            generation,
            status: Status::Created,
            stubborn: self.stubborn,
        };
        self.containers.insert(id.clone(), container);
        self.note(&id, now, HappeningKind::Made);
        id
    }

    /// Starts one that does not run; by the fence for a run, or by somebody else.
    pub(super) fn start(
        &mut self,
        id: &ContainerId,
        run: Option<Generation>,
        now: Timestamp,
    ) -> Option<Incarnation> {
        let status = self.containers.get(id)?.status.clone();
        let started_at = match status {
            Status::Running(at) => at,
            _ => {
                let at = self.stamp(id, now);
                self.note(id, at, HappeningKind::Started(run));
                at
            }
        };
        self.containers.get_mut(id)?.status = Status::Running(started_at);
        Some(Incarnation {
            container: id.clone(),
            started_at,
        })
    }

    /// Ends a running container; answers whether it ran.
    pub(super) fn end(&mut self, id: &ContainerId, code: i32, oom: bool, now: Timestamp) -> bool {
        let Some(Status::Running(started)) = self.containers.get(id).map(|c| c.status.clone())
        else {
            return false;
        };
        let exit = EngineExit {
            code,
            oom_killed: oom,
            finished_at: self.stamp(id, now),
        };
        self.note(id, exit.finished_at, HappeningKind::Ended(exit.clone()));
        if let Some(container) = self.containers.get_mut(id) {
            container.status = Status::Exited(started, exit);
        }
        true
    }

    /// Removes a container, running or not.
    pub(super) fn remove(&mut self, id: &ContainerId, now: Timestamp) {
        let at = self.stamp(id, now);
        let ran = self
            .containers
            .get(id)
            .is_some_and(|c| matches!(c.status, Status::Running(_)));
        self.note(id, at, HappeningKind::Removed(ran));
        self.containers.remove(id);
    }

    /// As this engine answers.
    pub(super) fn sighting(&self, id: &ContainerId) -> Sighting {
        if !self.holds(id) {
            return Sighting::Missing(self.engine.clone());
        }
        self.truth(id)
    }

    /// As it is, whatever engine answers.
    pub(super) fn truth(&self, id: &ContainerId) -> Sighting {
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
            .filter(|(_, c)| c.sandbox == sandbox && c.role == role && !c.foreign)
            .max_by_key(|(_, c)| c.generation)
            .map(|(id, _)| id.clone())
    }
}
