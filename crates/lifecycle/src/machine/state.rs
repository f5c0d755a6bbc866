//! What a machine knows: the durable record, and what this gateway process knows beyond it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use openshell_core::{
    ContainerId, ExitCause, Incarnation, OperationKind, Phase, Reason, SandboxRecord,
    SupervisorInstance, Timestamp,
};

use super::input::{MainEnd, Ticket};
use crate::driver::{EngineExit, Role, Sighting};
use crate::restart::Cause;

/// A sandbox's life as the machine sees it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct State {
    /// What is durable, and published.
    pub record: SandboxRecord,
    /// What is being brought about.
    pub course: Course,
    /// The one engine call in flight that changes something.
    pub activity: Option<Activity>,
    /// The current run's accepted session.
    pub session: Option<Session>,
    /// Main's end by the supervisor's report, until the engine confirms it.
    pub reported: Option<MainEnd>,
    /// The workload's confirmed end, while the supervisor's report of it is awaited.
    pub ended: Option<EngineExit>,
    /// The engine has confirmed that the workload does not run, and nothing has started it since.
    pub idle: bool,
    /// The incarnations whose end is waited for: one wait each.
    pub watching: BTreeMap<Incarnation, Role>,
    /// Questions in flight, by their serial.
    pub looking: BTreeMap<Role, u64>,
    /// Halves that have not been seen alive since the engine was out of sight.
    pub unseen: BTreeSet<Role>,
    /// Retired supervisors being removed.
    pub retiring: BTreeSet<ContainerId>,
    /// What is due when.
    pub timers: BTreeMap<Timer, Timestamp>,
    /// Whether this run was found, not made, by this gateway process.
    pub adopting: bool,
    /// Whether the workload was ordered frozen because the engine is out of sight.
    pub frozen: bool,
    /// Whether the gateway ends, and runs with it: no restart is begun any more.
    pub parking: bool,
    /// The engine's being out of sight, from its first sign until what it holds has been seen again.
    pub outage: Option<Outage>,
    /// The supervisor's confirmed end.
    pub supervisor_ended: Option<EngineExit>,
    /// Launches in a row whose answer was lost and that had not happened.
    pub lost_launches: u32,
    /// Failed tries of the present step in a row.
    pub tries: u32,
    /// The last serial given.
    pub serial: u64,
}

impl State {
    /// What is known of a record that was just read or made.
    pub fn new(record: SandboxRecord) -> Self {
        let idle = matches!(record.life.phase, Phase::Stopped | Phase::Completed);
        Self {
            record,
            course: Course::Rest,
            activity: None,
            session: None,
            reported: None,
            ended: None,
            idle,
            watching: BTreeMap::new(),
            looking: BTreeMap::new(),
            unseen: BTreeSet::new(),
            retiring: BTreeSet::new(),
            timers: BTreeMap::new(),
            adopting: false,
            frozen: false,
            parking: false,
            outage: None,
            supervisor_ended: None,
            lost_launches: 0,
            tries: 0,
            serial: 0,
        }
    }
}

/// What is being brought about. `machine` draws how they follow each other.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Course {
    /// Nothing: it is stopped, ended, failed, or waits for a restart's time.
    Rest,
    /// A run.
    Bring(Stage),
    /// It runs, or a supervisor that was in session is awaited back.
    Run,
    /// The workload is being stopped.
    Halt(Halt),
    /// The engine is asked what became of a run.
    Prove(Proof),
    /// Everything is being removed.
    Remove,
}

/// The steps of a start, in order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Stage {
    /// Its image is being fetched.
    Image,
    /// Its containers are being made.
    Prepare,
    /// Its containers are being started.
    Launch,
    /// Its supervisor's session, and main, are awaited.
    Session,
}

/// A workload being stopped.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Halt {
    /// TERM, then KILL after this.
    pub grace: Duration,
    /// Remove what a failed create has made instead of only stopping it (L13).
    pub scrub: bool,
    /// What follows its confirmation.
    pub then: Then,
}

/// What follows a confirmed stop.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Then {
    /// It rests: its user asked for that.
    Stopped,
    /// A new run: its user asked for that, or an interrupted operation goes on.
    NewRun(OperationKind),
    /// The restart policy decides about this end.
    Settle(End),
    /// It rests until the gateway returns; since when it is being ended for that.
    Park(Timestamp),
    /// It rests as it did: somebody else had started it.
    Rest,
}

/// A time in which the engine could not be asked.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Outage {
    /// Its first sign.
    pub cause: String,
    /// When the engine was in sight again, if it is.
    pub over: Option<Timestamp>,
}

/// How a run ended, for people and for the restart policy.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct End {
    /// For the restart policy.
    pub cause: Cause,
    /// By whose will, with which code, when; none if nothing of it ran.
    pub exit: Option<(ExitCause, i32, Timestamp)>,
    /// The stable word.
    pub reason: Reason,
    /// What happened.
    pub message: String,
}

/// What the engine has said so far about the two halves of a run.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Proof {
    /// About the workload.
    pub workload: Option<Sighting>,
    /// About the supervisor.
    pub supervisor: Option<Sighting>,
    /// A start was asked for meanwhile: if this run turns out to be over, another begins, whatever the policy.
    pub asked: Option<OperationKind>,
}

/// An engine call in flight that changes something.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Activity {
    /// Its outcome comes back with this.
    pub ticket: Ticket,
    /// What it does.
    pub work: Work,
}

/// The engine calls that change something.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Work {
    /// Fetching an image.
    Image,
    /// Making containers.
    Prepare,
    /// Starting containers.
    Launch,
    /// Stopping the workload.
    Stop,
    /// Removing everything.
    Remove,
}

impl Work {
    /// Whether dropping the call half-way leaves nothing that the next call does not take up.
    pub const fn cancellable(self) -> bool {
        matches!(self, Self::Image | Self::Stop)
    }
}

/// An accepted session.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Session {
    /// Which supervisor process.
    pub instance: SupervisorInstance,
    /// Whether the link between the halves stands.
    pub linked: bool,
}

/// What can fall due.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Timer {
    /// What is in flight ends, whatever happens (L16).
    Deadline,
    /// An engine call is tried again.
    Retry,
    /// A restart is due.
    Restart,
    /// A closed session should have come back.
    SessionGrace,
    /// A live supervisor should have come back.
    Adoption,
    /// The engine should have confirmed a reported exit.
    ExitConfirmation,
    /// The supervisor should have reported a confirmed exit.
    ExitReport,
    /// The engine is asked again.
    Look,
    /// A retired supervisor's removal is tried again.
    Retire,
    /// The engine has been out of sight for too long.
    Outage,
}

impl Timer {
    /// Every timer, from the soonest to the latest by their usual waits.
    pub const ALL: [Self; 10] = [
        Self::Retry,
        Self::Look,
        Self::Retire,
        Self::ExitReport,
        Self::Restart,
        Self::SessionGrace,
        Self::ExitConfirmation,
        Self::Adoption,
        Self::Outage,
        Self::Deadline,
    ];

    /// The word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Deadline => "deadline",
            Self::Retry => "retry",
            Self::Restart => "restart",
            Self::SessionGrace => "session-grace",
            Self::Adoption => "adoption",
            Self::ExitConfirmation => "exit-confirmation",
            Self::ExitReport => "exit-report",
            Self::Look => "look",
            Self::Retire => "retire",
            Self::Outage => "outage",
        }
    }
}
