//! What can happen next, and how it is told.

use std::fmt;

use openshell_lifecycle::driver::Role;
use openshell_lifecycle::machine::{Command, Timer};

/// What goes wrong with a call to the engine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Trouble {
    /// The engine refuses.
    Refused,
    /// Nothing is done, and nothing is known.
    Unreachable,
    /// It is done, and the answer is lost.
    Lost,
}

/// What goes wrong with a question to the engine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Odd {
    Unknown,
    InTransition,
    Foreign,
}

/// What an engine that goes down does with what runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Restore {
    /// It survives.
    Live,
    /// It ends.
    Lost,
}

/// What of an earlier run comes late.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Stale {
    Exit(Role),
    Died(Role),
    Hello,
    MainEnded,
    Closed,
    Answer,
    Look(Role),
}

impl Stale {
    pub(super) const ALL: [Self; 10] = [
        Self::Exit(Role::Workload),
        Self::Exit(Role::Supervisor),
        Self::Died(Role::Workload),
        Self::Died(Role::Supervisor),
        Self::Hello,
        Self::MainEnded,
        Self::Closed,
        Self::Answer,
        Self::Look(Role::Workload),
        Self::Look(Role::Supervisor),
    ];
}

/// One thing that happens.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Action {
    Command(Command),
    Hold,
    Release,
    Park,
    Crash,
    Return,
    /// The engine does what a call asks, wholly.
    Do(u8),
    /// It starts one half of a launch.
    Half(u8, Role),
    /// Its answer arrives.
    Answer(u8),
    Trouble(u8, Trouble),
    See(u8),
    SeeOdd(u8, Odd),
    Saw(u8),
    Retire(u8),
    RetireFails(u8),
    EngineDown(Restore),
    EngineUp,
    Connected,
    MonitorLost,
    Kill(Role),
    Vanish,
    Meddle,
    Waited(Role),
    WaitBroken(Role),
    Died(Role),
    Started,
    Removed,
    MainStarts,
    MainEnds(u8),
    WorkloadEnds,
    LivesLong,
    Hello,
    HelloUnenforced,
    TellStarted,
    TellEnded,
    TellLink,
    LinkLost,
    LinkBack,
    Break,
    Closed,
    GivesUp,
    Leaves,
    Stray(u8),
    Timer(Timer),
    /// Something of an earlier run comes late; only with a planted fault is it more than nothing.
    Stale(Stale),
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Command(command) => write!(f, "the user asks: {}", command.as_str()),
            Self::Hold => f.write_str("the user asks: stop and hold"),
            Self::Release => f.write_str("the user asks: release"),
            Self::Park => f.write_str("the gateway is told to end, and runs with it"),
            Self::Crash => f.write_str("the gateway is killed"),
            Self::Return => f.write_str("the gateway starts"),
            Self::Do(_) => f.write_str("the engine does it"),
            Self::Half(_, role) => write!(f, "the engine starts the {role} first"),
            Self::Answer(_) => f.write_str("the engine's answer arrives"),
            Self::Trouble(_, Trouble::Refused) => f.write_str("the engine refuses"),
            Self::Trouble(_, Trouble::Unreachable) => {
                f.write_str("the call does not reach the engine")
            }
            Self::Trouble(_, Trouble::Lost) => {
                f.write_str("the engine does it, and its answer is lost")
            }
            Self::See(_) => f.write_str("the engine is asked, and answers"),
            Self::SeeOdd(_, odd) => write!(f, "the engine is asked, and the answer is {odd:?}"),
            Self::Saw(_) => f.write_str("what the engine answered arrives"),
            Self::Retire(run) => write!(f, "run {run}'s supervisor is removed"),
            Self::RetireFails(run) => write!(f, "run {run}'s supervisor cannot be removed"),
            Self::EngineDown(Restore::Live) => f.write_str("the engine goes; containers survive"),
            Self::EngineDown(Restore::Lost) => f.write_str("the engine goes, containers with it"),
            Self::EngineUp => f.write_str("the engine is back"),
            Self::Connected => f.write_str("the event stream is up"),
            Self::MonitorLost => f.write_str("the event stream breaks"),
            Self::Kill(role) => write!(f, "somebody kills the {role}"),
            Self::Vanish => f.write_str("somebody removes the workload's container"),
            Self::Meddle => f.write_str("somebody starts the workload's container"),
            Self::Waited(role) => write!(f, "the wait for the {role} comes out"),
            Self::WaitBroken(role) => write!(f, "the wait for the {role} breaks"),
            Self::Died(role) => write!(f, "event: the {role} died"),
            Self::Started => f.write_str("event: the workload's container was started"),
            Self::Removed => f.write_str("event: the workload's container was removed"),
            Self::MainStarts => f.write_str("main starts"),
            Self::MainEnds(code) => write!(f, "main ends by itself with {code}"),
            Self::WorkloadEnds => f.write_str("the workload ends itself, without its supervisor"),
            Self::LivesLong => f.write_str("it runs for a long time"),
            Self::Hello => f.write_str("the supervisor opens a session"),
            Self::HelloUnenforced => f.write_str("the supervisor says it cannot enforce"),
            Self::TellStarted => f.write_str("the supervisor says that main was started"),
            Self::TellEnded => f.write_str("the supervisor reports main's end"),
            Self::TellLink => f.write_str("the supervisor says how the link stands"),
            Self::LinkLost => f.write_str("the link between the halves breaks"),
            Self::LinkBack => f.write_str("the link between the halves is back"),
            Self::Break => f.write_str("the supervisor's connection breaks"),
            Self::Closed => f.write_str("the gateway hears that a session has ended"),
            Self::GivesUp => f.write_str("the supervisor gives the run up"),
            Self::Leaves => f.write_str("the supervisor has nothing left to do, and ends"),
            Self::Stray(run) => write!(f, "run {run}'s supervisor is found unrecorded"),
            Self::Timer(timer) => write!(f, "the {} is due", timer.as_str()),
            Self::Stale(stale) => write!(f, "late, of an earlier run: {stale:?}"),
        }
    }
}
