//! What a machine is told, and how the journal names it.

use jiff::SignedDuration;
use openshell_core::{
    ContainerId, EngineId, Generation, Incarnation, OperationId, SupervisorInstance, Timestamp,
};

use super::state::Timer;
use crate::driver::{
    DriverError, EngineEvent, EngineEventKind, EngineExit, Launched, Prepared, Role, Sighting,
    StopOutcome, WaitOutcome,
};
use crate::ports::{MainReport, SessionEvent};

/// What a user asks of a sandbox that exists.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Command {
    /// Run.
    Start,
    /// Do not run.
    Stop,
    /// End the present run and begin another.
    Restart,
    /// Do not exist.
    Delete,
}

impl Command {
    /// Every command.
    pub const ALL: [Self; 4] = [Self::Start, Self::Stop, Self::Restart, Self::Delete];

    /// The word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Stop => "stop",
            Self::Restart => "restart",
            Self::Delete => "delete",
        }
    }
}

/// Which effect an outcome belongs to.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Ticket {
    /// Grows with every effect of this cell.
    pub serial: u64,
    /// The run.
    pub generation: Generation,
    /// The operation, if one was in flight.
    pub operation: Option<OperationId>,
}

/// How an engine call came out.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Outcome {
    /// The image is there, or not.
    Image(Result<(), DriverError>),
    /// Both containers exist.
    Prepared(Result<Prepared, DriverError>),
    /// Both containers were started.
    Launched(Result<Launched, DriverError>),
    /// The workload does not run.
    Stopped(Result<StopOutcome, DriverError>),
    /// Nothing is left.
    Removed(Result<(), DriverError>),
}

/// A supervisor's session, as far as a decision needs it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Opened {
    /// Which run, by token.
    pub generation: Generation,
    /// Which supervisor process.
    pub instance: SupervisorInstance,
    /// Whether the measured posture confirms every property.
    pub enforced: bool,
    /// What main is doing.
    pub main: MainReport,
}

/// Everything that can happen to a sandbox.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Input {
    /// A user's command.
    Command(Command),
    /// A user's command: do not run, and be startable by nobody before a release.
    Hold {
        /// Who asks.
        by: String,
        /// Why; may be empty.
        reason: String,
    },
    /// A user's command: be startable again.
    Release,
    /// The wall clock was set: everything that is due is due so much later (or earlier) by it.
    ClockMoved(SignedDuration),
    /// The gateway has started; the record is all that is known.
    Restore,
    /// The gateway ends, and runs are to end with it.
    Park,
    /// An effect has come out.
    Outcome(Ticket, Outcome),
    /// An effect makes progress.
    Progress(Ticket, String),
    /// A retired supervisor is gone, or would not go.
    Retired(ContainerId, Result<(), DriverError>),
    /// A supervisor of this sandbox that no record names, and that does not run: left by a start that was
    /// interrupted before its containers were recorded.
    Stray(ContainerId, Generation),
    /// The engine's answer about one container (L4). An error means that nothing is known.
    Looked {
        /// Which half was asked about.
        role: Role,
        /// Which question is answered.
        serial: u64,
        /// The answer.
        answer: Result<Sighting, String>,
    },
    /// A wait for one incarnation has come out.
    Waited(Role, Incarnation, WaitOutcome),
    /// A fact from the engine's event stream.
    Event(EngineEvent),
    /// The engine's event stream is up (again).
    EngineConnected(EngineId),
    /// The engine's event stream is broken.
    EngineLost(String),
    /// A session asks to be accepted.
    SessionOpened(Opened),
    /// A later word of a session.
    SessionEvent(Generation, SupervisorInstance, SessionEvent),
    /// A timer's time has come.
    Timer(Timer),
}

impl Input {
    /// As the journal names it.
    pub fn describe(&self) -> String {
        match self {
            Self::Command(command) => format!("command {}", command.as_str()),
            Self::Restore => "gateway started".to_owned(),
            Self::Hold { .. } => "command hold".to_owned(),
            Self::Release => "command release".to_owned(),
            Self::ClockMoved(by) => format!("clock moved by {} s", by.as_secs()),
            Self::Park => "gateway ends".to_owned(),
            Self::Outcome(_, outcome) => format!("outcome {}", describe_outcome(outcome)),
            Self::Progress(..) => "progress".to_owned(),
            Self::Retired(id, result) => {
                let word = if result.is_ok() {
                    "removed"
                } else {
                    "not removed"
                };
                format!("outcome supervisor {} {word}", id.short())
            }
            Self::Stray(id, _) => {
                format!("found supervisor {} of an interrupted start", id.short())
            }
            Self::Looked { role, answer, .. } => {
                format!("looked at {role}: {}", describe_sighting(answer))
            }
            Self::Waited(role, incarnation, outcome) => match outcome {
                WaitOutcome::Exited(_, exit) => {
                    format!("observed {role} {incarnation} {}", describe_exit(exit))
                }
                WaitOutcome::Superseded => format!("observed {role} {incarnation} superseded"),
                WaitOutcome::Lost(_) => format!("lost sight of {role} {incarnation}"),
            },
            Self::Event(event) => {
                let what = match &event.kind {
                    EngineEventKind::Died { code } => format!("died({code})"),
                    EngineEventKind::Started => "started".to_owned(),
                    EngineEventKind::Removed => "removed".to_owned(),
                    EngineEventKind::OutOfMemory => "out of memory".to_owned(),
                };
                format!("event {} {} {what}", event.role, event.container.short())
            }
            Self::EngineConnected(_) => "engine connected".to_owned(),
            Self::EngineLost(_) => "engine lost".to_owned(),
            Self::SessionOpened(_) => "session opened".to_owned(),
            Self::SessionEvent(_, _, event) => format!("session {}", describe_event(event)),
            Self::Timer(timer) => format!("timer {}", timer.as_str()),
        }
    }

    /// The run that it speaks of, where it says so itself.
    pub(crate) const fn generation(&self) -> Option<Generation> {
        match self {
            Self::Outcome(ticket, _) | Self::Progress(ticket, _) => Some(ticket.generation),
            Self::SessionOpened(opened) => Some(opened.generation),
            Self::SessionEvent(generation, ..) => Some(*generation),
            _ => None,
        }
    }
}

fn describe_outcome(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Image(Ok(())) => "image ready",
        Outcome::Image(Err(_)) => "image failed",
        Outcome::Prepared(Ok(_)) => "prepared",
        Outcome::Prepared(Err(_)) => "prepare failed",
        Outcome::Launched(Ok(_)) => "launched",
        Outcome::Launched(Err(_)) => "launch failed",
        Outcome::Stopped(Ok(_)) => "not running",
        Outcome::Stopped(Err(_)) => "stop failed",
        Outcome::Removed(Ok(())) => "removed",
        Outcome::Removed(Err(_)) => "remove failed",
    }
}

fn describe_sighting(answer: &Result<Sighting, String>) -> String {
    match answer {
        Ok(Sighting::Running(_)) => "running".to_owned(),
        Ok(Sighting::Created) => "never started".to_owned(),
        Ok(Sighting::Exited(_, exit)) => describe_exit(exit),
        Ok(Sighting::InTransition) => "in transition".to_owned(),
        Ok(Sighting::Missing(_)) => "missing".to_owned(),
        Err(_) => "unknown".to_owned(),
    }
}

fn describe_exit(exit: &EngineExit) -> String {
    let memory = if exit.oom_killed {
        ", out of memory"
    } else {
        ""
    };
    format!("exited({}{memory})", exit.code)
}

fn describe_event(event: &SessionEvent) -> String {
    match event {
        SessionEvent::MainStarted(_) => "main started".to_owned(),
        SessionEvent::MainExited(code, _, _) => format!("main exited({code})"),
        SessionEvent::MainStopped(code, _) => format!("main stopped({code})"),
        SessionEvent::Link(true) => "link attached".to_owned(),
        SessionEvent::Link(false) => "link lost".to_owned(),
        SessionEvent::Failed(reason, _) => format!("run failed ({reason})"),
        SessionEvent::Closed(_) => "closed".to_owned(),
    }
}

/// What a supervisor reported of main's end.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct MainEnd {
    /// 128+n for a signal.
    pub code: i32,
    /// When.
    pub at: Timestamp,
    /// Why it could not start; empty if it ran.
    pub error: String,
    /// Everything in its container was told to end: by somebody, or by an engine that goes down.
    pub told: bool,
}
