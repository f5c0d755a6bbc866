//! The small world: one sandbox; what the engine holds of it; its supervisors; what is in flight in between.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use openshell_core::{ContainerId, Incarnation, SandboxRecord, SupervisorInstance};
use openshell_lifecycle::driver::{EngineExit, Role, Sighting};
use openshell_lifecycle::machine::{State, Ticket, Work};
use uuid::Uuid;

use super::time::{Tick, Ticks, moment};

/// The identity of the engine that holds the sandbox.
pub(super) const ENGINE: &str = "e1";
/// Another engine's, with nothing in it.
pub(super) const FOREIGN: &str = "e2";

/// What the engine says of a container's process.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Status {
    Created,
    Running(Tick),
    Exited {
        started: Tick,
        code: u8,
        finished: Tick,
    },
}

impl Status {
    pub(super) const fn runs(self) -> bool {
        matches!(self, Self::Running(_))
    }

    /// Ends it, if it runs.
    pub(super) fn end(&mut self, code: u8, now: Tick) {
        if let Self::Running(started) = *self {
            *self = Self::Exited {
                started,
                code,
                finished: now,
            };
        }
    }
}

/// The main process of one run.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Main {
    NotStarted,
    Running,
    Ended(u8),
}

/// The workload's container.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Workload {
    /// Its id.
    pub(super) number: u8,
    pub(super) status: Status,
    /// The run whose secrets it holds.
    pub(super) run: u8,
    pub(super) main: Main,
    /// Ordered frozen by way of its supervisor.
    pub(super) frozen: bool,
    /// Somebody else started it.
    pub(super) meddled: bool,
}

/// The link between the halves, as the supervisor sees it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Link {
    Awaited,
    Up,
    Lost,
}

/// A supervisor's container and process.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Supervisor {
    /// Its run, and its id.
    pub(super) run: u8,
    pub(super) status: Status,
    pub(super) link: Link,
    /// What it knows of main.
    pub(super) main: Main,
    /// The gateway has told it what main is.
    pub(super) planned: bool,
    /// It is in session, as it sees it.
    pub(super) session: bool,
    /// In this session it has said that main was started.
    pub(super) told_started: bool,
    /// In this session it has said this about its link.
    pub(super) told_linked: bool,
    /// The gateway has confirmed main's end.
    pub(super) acknowledged: bool,
    /// The end of an earlier session is on its way to the gateway.
    pub(super) closed: bool,
}

impl Supervisor {
    pub(super) const fn new(run: u8) -> Self {
        Self {
            run,
            status: Status::Created,
            link: Link::Awaited,
            main: Main::NotStarted,
            planned: false,
            session: false,
            told_started: false,
            told_linked: false,
            acknowledged: false,
            closed: false,
        }
    }

    /// What counts of one whose run is over.
    pub(super) const fn bare(&self) -> Self {
        Self {
            status: match self.status {
                Status::Created => Status::Created,
                Status::Running(_) => Status::Running(0),
                Status::Exited { .. } => Status::Exited {
                    started: 0,
                    code: 0,
                    finished: 0,
                },
            },
            ..Self::new(self.run)
        }
    }
}

/// An engine call that changes something.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Call {
    pub(super) ticket: Ticket,
    pub(super) work: Work,
    /// The recorded workload that it speaks of.
    pub(super) workload: Option<u8>,
    /// It lets the workload end by itself first.
    pub(super) graceful: bool,
    pub(super) stage: Stage,
}

/// How far a call has come.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Stage {
    Begun,
    /// One half has been started.
    Half(Role),
    /// The engine has answered.
    Answered(Reply),
}

/// The engine's answer to a call.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Reply {
    Done,
    Prepared { workload: u8 },
    Launched { workload: Tick, supervisor: Tick },
    NotRunning { code: u8, finished: Tick },
    NeverStarted,
    NoSuchContainer,
    RuntimeMissing,
    Refused,
    Unreachable,
}

/// A question about one container.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Look {
    pub(super) role: Role,
    /// Which container.
    pub(super) number: u8,
    pub(super) serial: u64,
    pub(super) seen: Option<Seen>,
}

/// What a question was answered with.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Seen {
    Status(Status),
    Missing,
    InTransition,
    /// Another engine has answered.
    Foreign,
    Unknown,
}

/// What the gateway process holds.
#[derive(Clone, Debug)]
pub(super) struct Cell {
    pub(super) machine: Arc<Machine>,
    /// The session's handle: whose, and whether its connection stands.
    pub(super) handle: Option<(u8, bool)>,
    /// The engine's event stream is up.
    pub(super) connected: bool,
    pub(super) draining: bool,
    /// What the store holds, where a planted fault has it lag behind.
    pub(super) stored: Option<Arc<Machine>>,
}

/// The gateway.
#[derive(Clone, Debug)]
pub(super) enum Gateway {
    Up(Cell),
    /// Only the store is left.
    Down(Arc<Machine>),
    /// The record is gone: so is all that follows from it.
    Gone,
}

/// A machine's state, with what is derived from it.
#[derive(Clone, Debug)]
pub(super) struct Machine {
    pub(super) state: State,
    pub(super) ticks: Ticks,
    pub(super) hash: u64,
}

/// What is remembered in order to judge, and nobody in the world knows.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Oracle {
    /// Runs whose workload was launched, by bit.
    pub(super) launched: u8,
    /// Runs whose main was started, by bit.
    pub(super) mains: u8,
    /// What the last accepted command asked.
    pub(super) asked: Asked,
    /// It is held.
    pub(super) held: bool,
    /// Another run was asked for while nobody knew what had become of the present one.
    pub(super) another: bool,
    /// Main of the present run has ended by itself, with this.
    pub(super) ended: Option<u8>,
    /// In the present run something happened that excuses a relaunch: outage, crash, a lost answer.
    pub(super) disturbed: bool,
}

/// What the last accepted command asked.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Asked {
    Run,
    Rest,
    Vanish,
}

/// Everything.
#[derive(Clone, Debug)]
pub(super) struct World {
    pub(super) gateway: Gateway,
    /// The engine answers.
    pub(super) engine: bool,
    pub(super) workload: Option<Workload>,
    pub(super) supervisors: Vec<Supervisor>,
    pub(super) calls: Vec<Call>,
    pub(super) looks: Vec<Look>,
    /// Retired supervisors whose removal is under way.
    pub(super) retiring: Vec<u8>,
    /// So much may still go wrong.
    pub(super) luck: u8,
    pub(super) oracle: Oracle,
    /// Later than everything that is remembered.
    pub(super) now: Tick,
}

impl World {
    pub(super) fn cell(&self) -> Option<&Cell> {
        match &self.gateway {
            Gateway::Up(cell) => Some(cell),
            _ => None,
        }
    }

    pub(super) fn cell_mut(&mut self) -> Option<&mut Cell> {
        match &mut self.gateway {
            Gateway::Up(cell) => Some(cell),
            _ => None,
        }
    }

    pub(super) fn state(&self) -> Option<&State> {
        self.cell().map(|cell| &cell.machine.state)
    }

    /// What would be found after a crash.
    pub(super) fn stored(&self) -> Option<&SandboxRecord> {
        match &self.gateway {
            Gateway::Up(cell) => Some(&cell.stored.as_ref().unwrap_or(&cell.machine).state.record),
            Gateway::Down(machine) => Some(&machine.state.record),
            Gateway::Gone => None,
        }
    }

    pub(super) fn supervisor(&self, run: u8) -> Option<&Supervisor> {
        self.supervisors.iter().find(|s| s.run == run)
    }

    pub(super) fn supervisor_mut(&mut self, run: u8) -> Option<&mut Supervisor> {
        self.supervisors.iter_mut().find(|s| s.run == run)
    }

    /// What the engine holds of a container.
    pub(super) fn status(&self, role: Role, number: u8) -> Option<Status> {
        match role {
            Role::Workload => self
                .workload
                .filter(|w| w.number == number)
                .map(|w| w.status),
            Role::Supervisor => self.supervisor(number).map(|s| s.status),
        }
    }

    /// The run that the record speaks of.
    pub(super) fn present(&self) -> u8 {
        self.stored()
            .map_or(0, |record| small(record.life.generation.0))
    }
}

pub(super) fn small(number: u64) -> u8 {
    u8::try_from(number).unwrap_or(u8::MAX)
}

pub(super) fn id(role: Role, number: u8) -> ContainerId {
    let letter = match role {
        Role::Workload => 'w',
        Role::Supervisor => 's',
    };
    ContainerId(format!("{letter}{number}"))
}

/// The number in a container's id.
pub(super) fn number(id: &ContainerId) -> u8 {
    id.0.get(1..).and_then(|n| n.parse().ok()).unwrap_or(0)
}

pub(super) fn instance(run: u8) -> SupervisorInstance {
    SupervisorInstance::from_uuid(Uuid::from_u128(1000 + u128::from(run)))
}

pub(super) fn incarnation(role: Role, number: u8, started: Tick) -> Incarnation {
    Incarnation {
        container: id(role, number),
        started_at: moment(started),
    }
}

pub(super) fn exit(code: u8, finished: Tick) -> EngineExit {
    EngineExit {
        code: i32::from(code),
        oom_killed: false,
        finished_at: moment(finished),
    }
}

pub(super) fn sighting(role: Role, number: u8, status: Status) -> Sighting {
    match status {
        Status::Created => Sighting::Created,
        Status::Running(started) => Sighting::Running(incarnation(role, number, started)),
        Status::Exited {
            started,
            code,
            finished,
        } => Sighting::Exited(incarnation(role, number, started), exit(code, finished)),
    }
}

impl Hash for Cell {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.machine.hash.hash(state);
        self.handle.hash(state);
        self.connected.hash(state);
        self.draining.hash(state);
        self.stored.as_ref().map(|m| m.hash).hash(state);
    }
}

impl Hash for World {
    fn hash<H: Hasher>(&self, state: &mut H) {
        match &self.gateway {
            Gateway::Up(cell) => (0_u8, cell).hash(state),
            Gateway::Down(machine) => (1_u8, machine.hash).hash(state),
            Gateway::Gone => 2_u8.hash(state),
        }
        self.engine.hash(state);
        self.workload.hash(state);
        self.supervisors.hash(state);
        self.calls.hash(state);
        self.looks.hash(state);
        self.retiring.hash(state);
        self.luck.hash(state);
        self.oracle.hash(state);
        self.now.hash(state);
    }
}
