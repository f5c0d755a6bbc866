//! The one classification of an end: by intent and by facts, never by an exit code alone.

use std::time::Duration;

use openshell_core::bootstrap::GATEWAY_UNREACHABLE_EXIT;
use openshell_core::{ExitCause, Reason, Timestamp};

use super::Turn;
use super::input::MainEnd;
use super::state::End;
use crate::driver::EngineExit;
use crate::restart::Cause;
use crate::time::between;

/// What is known of a workload that ended without having been told to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Facts<'a> {
    /// Main's end, by its supervisor's report.
    pub report: Option<&'a MainEnd>,
    /// The container's end, by the engine.
    pub engine: Option<&'a EngineExit>,
    /// Nobody watched when it ended: the gateway was away, or the engine was out of sight.
    pub unwatched: bool,
    /// What is known of the other half.
    pub supervisor: Supervisor,
}

/// What had become of the supervisor when its workload ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Supervisor {
    /// Nobody has asked yet, or it is gone without a trace.
    Unknown,
    /// It lives.
    Alive,
    /// It ended well before: the workload was not governed any more.
    EndedBefore,
    /// Both ended in the same moment, as when an engine or a host goes down.
    EndedTogether,
    /// It ended well after.
    EndedAfter,
    /// It ended the run, for want of a gateway.
    GaveUp,
}

impl Supervisor {
    /// From the engine's word about both ends.
    pub fn compare(supervisor: &EngineExit, workload: &EngineExit) -> Self {
        let (by, it) = (supervisor.finished_at, workload.finished_at);
        let apart = between(by, it).max(between(it, by));
        if gave_up(supervisor) && (it > by || apart < PARTING) {
            Self::GaveUp
        } else if by > it && apart >= MOMENT {
            Self::EndedAfter
        } else if apart < MOMENT {
            Self::EndedTogether
        } else if matches!(supervisor.code, 0 | TERMINATED) {
            // It was told to end, as an engine does that goes down; the workload took its time.
            Self::EndedTogether
        } else {
            Self::EndedBefore
        }
    }
}

/// Whether a supervisor has ended its run because no gateway could be reached for too long.
pub(super) fn gave_up(supervisor: &EngineExit) -> bool {
    supervisor.code == i32::from(GATEWAY_UNREACHABLE_EXIT)
}

/// Without a gateway nobody governed it: that is no fault of its own.
pub(super) fn ungoverned() -> End {
    End {
        cause: Cause::Infrastructure,
        exit: None,
        reason: Reason::GatewayUnreachable,
        message: "its supervisor ended the run: it had reached no gateway for longer than gateway_outage_limit".to_owned(),
    }
}

/// What was made of [`Facts`].
pub type Classified = End;

/// 128 + SIGKILL, as engines report a container that was killed.
pub(super) const KILLED: i32 = 137;
/// 128 + SIGTERM, as engines report a container that was told to end.
const TERMINATED: i32 = 143;
/// What Docker writes for a container whose end it has missed.
const MISSED: i32 = 255;
/// Ends that lie less than this apart are of the same moment.
const MOMENT: Duration = Duration::from_secs(1);
/// A supervisor that gives up ends the workload first, and itself within this.
const PARTING: Duration = Duration::from_secs(5);

/// Says how it ended.
pub fn classify(facts: Facts<'_>) -> Classified {
    let Facts { report, engine, .. } = facts;
    if let Some(exit) = engine
        && exit.oom_killed
        && (exit.code == KILLED || report.is_some_and(|r| r.code == KILLED))
    {
        return End {
            cause: Cause::Main { success: false },
            exit: Some((ExitCause::OutOfMemory, KILLED, exit.finished_at)),
            reason: Reason::OutOfMemory,
            message: "the kernel ended the main process because the sandbox reached its memory limit; give it more memory".to_owned(),
        };
    }
    match (report, engine) {
        (Some(end), _) if end.told => told(end, facts.unwatched),
        (Some(end), _) => reported(end),
        (None, Some(exit)) => by_engine(exit, facts.unwatched, facts.supervisor),
        (None, None) => End {
            cause: Cause::Infrastructure,
            exit: None,
            reason: Reason::ContainerExited,
            message: "the workload's container ended, and nothing says how".to_owned(),
        },
    }
}

fn reported(end: &MainEnd) -> End {
    let exit = Some((ExitCause::Main, end.code, end.at));
    if end.code == 0 && end.error.is_empty() {
        return End {
            cause: Cause::Main { success: true },
            exit,
            reason: Reason::MainProcessCompleted,
            message: "the main process ended with 0".to_owned(),
        };
    }
    let message = if end.error.is_empty() {
        format!("the main process ended with {}", describe_code(end.code))
    } else {
        format!("the main process could not start: {}", end.error)
    };
    End {
        cause: Cause::Main { success: false },
        exit,
        reason: Reason::MainProcessFailed,
        message,
    }
}

/// Told to end, and not by us: by an engine or a host that went down, or else by somebody.
fn told(end: &MainEnd, unwatched: bool) -> End {
    if unwatched {
        return went_down(end.code, end.at);
    }
    End {
        cause: Cause::Main { success: false },
        exit: Some((ExitCause::Unknown, end.code, end.at)),
        reason: Reason::ContainerStopped,
        message: format!(
            "the workload's container was told to end, and not by the gateway; its main process ended with {}",
            describe_code(end.code)
        ),
    }
}

fn went_down(code: i32, at: Timestamp) -> End {
    End {
        cause: Cause::Infrastructure,
        exit: Some((ExitCause::Infrastructure, code, at)),
        reason: Reason::ContainerRuntimeRestart,
        message: "the engine or the host went down under it".to_owned(),
    }
}

fn by_engine(exit: &EngineExit, unwatched: bool, supervisor: Supervisor) -> End {
    let signalled = matches!(exit.code, KILLED | TERMINATED | MISSED);
    let at = exit.finished_at;
    if supervisor == Supervisor::EndedBefore {
        return End {
            cause: Cause::SupervisorLost,
            exit: Some((ExitCause::Contained, exit.code, at)),
            reason: Reason::ControlSupervisorExited,
            message: "the supervisor ended, and the workload with it".to_owned(),
        };
    }
    if supervisor == Supervisor::GaveUp {
        return End {
            exit: Some((ExitCause::Contained, exit.code, at)),
            ..ungoverned()
        };
    }
    // A 0 that nobody saw and nobody reported is the engine's own word for an end that it missed, unless the
    // other half outlived it: then neither the engine nor the host went down.
    let outlived = matches!(supervisor, Supervisor::Alive | Supervisor::EndedAfter);
    if unwatched && (signalled || (exit.code == 0 && !outlived)) {
        return went_down(exit.code, at);
    }
    if signalled {
        return End {
            cause: Cause::Main { success: false },
            exit: Some((ExitCause::Unknown, exit.code, at)),
            reason: Reason::ContainerExited,
            message: format!(
                "the workload's container ended with {}, and not by the main process or by the gateway",
                describe_code(exit.code)
            ),
        };
    }
    // PID 1 of the workload ends with its main process's status.
    reported(&MainEnd {
        code: exit.code,
        at,
        error: String::new(),
        told: false,
    })
}

/// By main's own report alone, of a run that has to be proven.
pub(super) fn own_end(turn: &Turn<'_>) -> End {
    reported_end(turn, true)
}

/// By main's own report alone, of a run that was in sight, unless the engine was away meanwhile.
pub(super) fn end_in_sight(turn: &Turn<'_>) -> End {
    reported_end(
        turn,
        turn.s.adopting || !turn.s.unseen.is_empty() || turn.s.outage.is_some(),
    )
}

fn reported_end(turn: &Turn<'_>, unwatched: bool) -> End {
    classify(Facts {
        report: turn.s.reported.as_ref(),
        engine: None,
        unwatched,
        supervisor: Supervisor::Unknown,
    })
}

/// An exit code for people: with the signal's number where a shell would see one.
fn describe_code(code: i32) -> String {
    match code {
        129..=192 => format!("{code} (signal {})", code - 128),
        _ => code.to_string(),
    }
}

#[cfg(test)]
mod tests;
