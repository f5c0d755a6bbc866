//! How a run's end becomes what follows: the one place where the restart policy is asked (L8), and where a
//! confirmed stop is concluded (L6).

use openshell_core::journal::Verdict;
use openshell_core::{ExitCause, ExitRecord, Intent, OperationKind, Phase, Reason};

use super::command::STOP_MARGIN;
use super::exit::KILLED;
use super::{Course, End, Facts, Halt, Supervisor, Then, Timer, Turn, classify};
use crate::driver::EngineExit;
use crate::restart::{Cause, Decision, History, Policy, decide};
use crate::time::between;

/// Begins to stop the workload; what is in flight and may be given up is.
pub(super) fn halt(turn: &mut Turn<'_>, halt: Halt) {
    turn.cancel_activity();
    turn.clear_timer(Timer::Retry);
    turn.s.tries = 0;
    turn.s.course = Course::Halt(halt);
}

/// Stops what cannot be governed, or has failed, and has the policy decide (L11).
pub(super) fn contain(turn: &mut Turn<'_>, end: End) {
    let live =
        matches!(turn.phase(), Phase::Ready | Phase::Unknown) || turn.s.course == Course::Run;
    if live {
        let message = format!("{}; the workload is being stopped", end.message);
        turn.enter(Phase::Stopping, end.reason, message);
    }
    for timer in [
        Timer::SessionGrace,
        Timer::Adoption,
        Timer::ExitConfirmation,
        Timer::ExitReport,
        Timer::Outage,
        Timer::Look,
    ] {
        turn.clear_timer(timer);
    }
    turn.set_timer(Timer::Deadline, turn.context.config.containment);
    halt(
        turn,
        Halt {
            grace: std::time::Duration::ZERO,
            scrub: false,
            then: Then::Settle(end),
        },
    );
}

/// Somebody else has started what rests: nothing governs it, so it is stopped again (L11), and rests as before. Of
/// what is meant to be stopped (held, perhaps) that is a stop like any other.
pub(super) fn started_outside(turn: &mut Turn<'_>) {
    turn.s.idle = false;
    let then = if turn.s.record.life.intent == Intent::Stopped {
        turn.begin_operation(OperationKind::Stop, STOP_MARGIN);
        turn.enter(
            Phase::Stopping,
            Reason::StopRequested,
            "its container runs although it is stopped; it is stopped again",
        );
        Then::Stopped
    } else {
        turn.clear_timer(Timer::Restart);
        turn.set_timer(Timer::Deadline, turn.context.config.containment);
        Then::Rest
    };
    halt(
        turn,
        Halt {
            grace: std::time::Duration::ZERO,
            scrub: false,
            then,
        },
    );
    turn.say(
        Verdict::Applied,
        "its container was started from outside the gateway; it is stopped again",
    );
}

/// A run that could not be started.
pub(super) fn start_failed(turn: &mut Turn<'_>, permanent: bool, reason: Reason, message: String) {
    never_ran(
        turn,
        End {
            cause: Cause::StartFailed { permanent },
            exit: None,
            reason,
            message,
        },
    );
}

/// A run that was launched, and whose main process was not started. Where an earlier gateway process may have died in
/// the middle of the launch, that is no fault of the run's: it is made anew.
pub(super) fn launch_failed(turn: &mut Turn<'_>, reason: Reason, message: String) {
    if turn.s.adopting {
        contain(
            turn,
            End {
                cause: Cause::Infrastructure,
                exit: None,
                reason,
                message,
            },
        );
    } else {
        start_failed(turn, false, reason, message);
    }
}

/// A supervisor that is gone, or does not come back, from a run that was Ready. While an earlier gateway process was
/// away that counts as the infrastructure's doing, and the run is relaunched; else it goes to the policy.
pub(super) fn supervisor_gone(turn: &mut Turn<'_>, message: String) {
    let cause = if turn.s.adopting {
        Cause::Infrastructure
    } else {
        Cause::SupervisorLost
    };
    contain(
        turn,
        End {
            cause,
            exit: None,
            reason: Reason::ControlSupervisorExited,
            message,
        },
    );
}

/// A supervisor that did not come into session. Of a run that was found rather than made, that is a loss, which
/// is relaunched as a new run.
pub(super) fn session_failed(turn: &mut Turn<'_>, message: String) {
    if turn.s.adopting {
        supervisor_gone(turn, message);
    } else {
        start_failed(turn, false, Reason::ControlSupervisorStartFailed, message);
    }
}

/// A run whose main process never ran. What a failed create has made is removed again (L13).
pub(super) fn never_ran(turn: &mut Turn<'_>, end: End) {
    let life = &turn.s.record.life;
    let creating = life
        .operation
        .as_ref()
        .is_some_and(|o| o.kind == OperationKind::Create);
    let first = life
        .last_exit
        .as_ref()
        .is_none_or(|e| e.generation == life.generation);
    let nothing = life.run.as_ref().is_none_or(|r| r.main_started.is_none());
    contain(turn, end);
    if let Course::Halt(halt) = &mut turn.s.course {
        halt.scrub = creating && first && nothing;
    }
}

/// The workload is confirmed not to run: concludes the halt.
pub(super) fn halted(turn: &mut Turn<'_>, exit: Option<&EngineExit>) {
    let Course::Halt(halt) = turn.s.course.clone() else {
        return;
    };
    turn.s.idle = true;
    turn.clear_timer(Timer::Retry);
    match halt.then {
        Then::Stopped => {
            record_exit(turn, ExitCause::StopRequested, exit);
            rest_stopped(turn);
        }
        Then::NewRun(kind) => {
            record_exit(turn, ExitCause::StopRequested, exit);
            turn.begin_run(
                kind,
                "the earlier run has ended; a new one is being started",
            );
        }
        Then::Settle(mut end) => {
            if went_down_together(turn, &end, exit) {
                end.cause = Cause::Infrastructure;
                end.reason = Reason::ContainerRuntimeRestart;
                end.message = "the engine or the host went down under it".to_owned();
            }
            if let Some(own) = ended_before(turn, &end, exit) {
                end = own;
            }
            if end.exit.is_none()
                && ran(turn)
                && let Some(exit) = exit
            {
                end.exit = Some((ExitCause::Contained, exit.code, exit.finished_at));
            }
            settle(turn, end);
        }
        Then::Rest => {
            record_exit(turn, ExitCause::Contained, exit);
            turn.run_over();
            turn.s.course = Course::Rest;
            if let Some(due) = turn.s.record.life.restart.next {
                turn.s.timers.insert(Timer::Restart, due);
            }
            if turn.s.record.life.condition.reason == Reason::StopFailed {
                turn.explain(
                    Reason::StopFailed,
                    "the engine did not stop it in time; it has been stopped since",
                );
            }
        }
        Then::Park(since) => {
            // What ended by itself just before was not ended by the gateway (L9).
            if turn.s.ended.is_none() {
                turn.s.ended = exit.filter(|exit| exit.finished_at < since).cloned();
            }
            record_exit(turn, ExitCause::Infrastructure, exit);
            turn.run_over();
            turn.end_operation("parked");
            turn.s.course = Course::Rest;
            turn.enter(
                Phase::Starting,
                Reason::ContainerRuntimeRestart,
                "stopped together with the gateway; it runs again when the gateway does",
            );
        }
    }
}

/// Rests in Stopped, because its user asked for that.
pub(super) fn rest_stopped(turn: &mut Turn<'_>) {
    turn.run_over();
    turn.end_operation("done");
    turn.life().restart = openshell_core::Restart::default();
    turn.s.course = Course::Rest;
    match turn.s.record.life.hold.clone() {
        Some(hold) => {
            let name = &turn.s.record.meta.name;
            let message = format!("{hold}; `openshell sandbox release {name}` lets it run again");
            turn.enter(Phase::Stopped, Reason::Held, message);
        }
        None => turn.enter(Phase::Stopped, Reason::StoppedByUser, "stopped on request"),
    }
}

/// A supervisor's end that turns out to have been the engine's: the engine was out of sight meanwhile, and both
/// halves had ended together before it was back.
fn went_down_together(turn: &Turn<'_>, end: &End, workload: Option<&EngineExit>) -> bool {
    let back = turn.s.outage.as_ref().and_then(|outage| outage.over);
    let (Some(back), Some(supervisor), Some(workload)) = (back, &turn.s.supervisor_ended, workload)
    else {
        return false;
    };
    end.cause == Cause::SupervisorLost
        && workload.finished_at < back
        && Supervisor::compare(supervisor, workload) == Supervisor::EndedTogether
}

/// Main's own end, if what was lost is found not to have been killed by its containment: it had ended before, and
/// nobody watched (L9).
fn ended_before(turn: &Turn<'_>, end: &End, exit: Option<&EngineExit>) -> Option<End> {
    let exit = exit.filter(|exit| exit.code != KILLED && ran(turn))?;
    let lost = matches!(end.cause, Cause::Infrastructure | Cause::SupervisorLost);
    let unknown = end.exit.is_none() && lost;
    let otherwise = match turn.s.session {
        Some(_) => Supervisor::Alive,
        None => Supervisor::Unknown,
    };
    let by = turn.s.supervisor_ended.as_ref();
    let own = classify(Facts {
        report: None,
        engine: Some(exit),
        unwatched: turn.s.adopting || !turn.s.unseen.is_empty() || turn.s.outage.is_some(),
        supervisor: by.map_or(otherwise, |by| Supervisor::compare(by, exit)),
    });
    (unknown && matches!(own.exit, Some((ExitCause::Main, ..)))).then_some(own)
}

/// Whether anything of the present run was ever started.
fn ran(turn: &Turn<'_>) -> bool {
    turn.run().is_some_and(|run| run.workload_started.is_some())
}

fn record_exit(turn: &mut Turn<'_>, cause: ExitCause, exit: Option<&EngineExit>) {
    let already = turn.s.record.life.last_exit.as_ref().map(|e| e.generation);
    let generation = turn.s.record.life.generation;
    // Main's own end, reported before the stop took effect, stays what it was.
    if !ran(turn) || already == Some(generation) {
        return;
    }
    let exit = match (&turn.s.ended, exit) {
        // It had ended by itself before.
        (Some(ended), _) => {
            classify(Facts {
                report: None,
                engine: Some(ended),
                unwatched: false,
                supervisor: Supervisor::Unknown,
            })
            .exit
        }
        (None, Some(exit)) => Some((cause, exit.code, exit.finished_at)),
        (None, None) => None,
    };
    if let Some((cause, code, at)) = exit {
        turn.life().last_exit = Some(ExitRecord {
            generation,
            code,
            cause,
            at,
            error: String::new(),
        });
    }
}

/// The run is over by itself or by our hand: asks the restart policy what follows.
pub(super) fn settle(turn: &mut Turn<'_>, end: End) {
    let now = turn.now();
    let generation = turn.s.record.life.generation;
    if let Some((cause, code, at)) = end.exit {
        turn.life().last_exit = Some(ExitRecord {
            generation,
            code,
            cause,
            at,
            error: String::new(),
        });
    }
    if turn.s.record.life.intent == Intent::Stopped {
        // However it ended: its user wants it so, and no policy brings it back.
        rest_stopped(turn);
        turn.say(Verdict::Applied, end.message);
        return;
    }
    let lived = turn.run().and_then(|run| {
        let since = run.ready_at.or(run.main_started)?;
        Some(between(since, end.exit.map_or(now, |(_, _, at)| at)))
    });
    turn.run_over();
    let history = History {
        count: turn.s.record.life.restart.count,
        lived,
    };
    let policy = Policy {
        restart: turn.s.record.spec.restart_policy,
        restore: turn.context.config.restore,
    };
    conclude(turn, &end, decide(policy, end.cause, history, now));
}

fn conclude(turn: &mut Turn<'_>, end: &End, decision: Decision) {
    turn.s.course = Course::Rest;
    match decision {
        // Its containment took too long and was published as a failure: an end is published once (L17).
        Decision::Complete if turn.phase() == Phase::Error => {
            turn.end_operation("completed");
            let message = format!("{}; its workload could not be stopped in time", end.message);
            turn.explain(end.reason, message);
        }
        Decision::Complete => {
            turn.end_operation("completed");
            turn.enter(Phase::Completed, end.reason, end.message.clone());
        }
        Decision::Fail => {
            turn.end_operation("failed");
            turn.life().restart.next = None;
            turn.enter(Phase::Error, end.reason, end.message.clone());
        }
        Decision::Restart { at, count } => {
            turn.end_operation("restarted");
            let kind = match end.cause {
                Cause::Infrastructure | Cause::Parked => OperationKind::Restore,
                _ => OperationKind::Restart,
            };
            if at <= turn.now() && !turn.s.parking {
                let message = if count == 0 || end.cause == Cause::Parked {
                    format!("{}; it is being brought back", end.message)
                } else {
                    format!("{}; restart {count}", end.message)
                };
                turn.begin_run(kind, &message);
            } else {
                let message = format!("{}; restart {count} is due at {at}", end.message);
                turn.enter(Phase::Starting, Reason::RestartBackOff, message);
                turn.life().restart.next = Some(at);
                turn.s.timers.insert(Timer::Restart, at);
            }
            turn.life().restart.count = count;
        }
    }
    if turn.note.is_empty() {
        turn.say(Verdict::Applied, end.message.clone());
    }
}
