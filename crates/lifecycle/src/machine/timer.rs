//! What falls due: nothing waits for ever (L16).

use jiff::SignedDuration;
use openshell_core::journal::Verdict;
use openshell_core::{OperationKind, Phase, Reason, Timestamp};

use super::{Course, Halt, Stage, Then, Timer, Turn, Work};
use super::{drive, observe, settle};
use crate::driver::Role;
use crate::machine::Effect;

pub(super) fn on_timer(turn: &mut Turn<'_>, timer: Timer) {
    match turn.s.timers.get(&timer) {
        Some(due) if *due <= turn.now() => {}
        _ => return,
    }
    turn.clear_timer(timer);
    match timer {
        Timer::Deadline => deadline(turn),
        Timer::Retry | Timer::Retire => {}
        Timer::Restart => restart_due(turn),
        Timer::SessionGrace => session_grace(turn),
        Timer::Adoption => adoption(turn),
        Timer::ExitConfirmation => drive::look(turn, Role::Workload),
        Timer::ExitReport => observe::report_overdue(turn),
        Timer::Look => {
            if matches!(turn.s.course, Course::Run | Course::Bring(Stage::Session)) {
                for role in turn.s.unseen.clone() {
                    drive::look(turn, role);
                }
            } else if turn.s.course == Course::Rest {
                drive::look(turn, Role::Workload);
            }
        }
        Timer::Outage => outage(turn),
    }
}

fn restart_due(turn: &mut Turn<'_>) {
    if turn.s.course != Course::Rest || turn.s.parking {
        return;
    }
    let message = turn.s.record.life.condition.message.clone();
    let count = turn.s.record.life.restart.count;
    turn.begin_run(OperationKind::Restart, &message);
    turn.note = format!("restart {count}");
}

/// What is due is due after a time, not at an hour of the clock.
pub(super) fn on_clock_moved(turn: &mut Turn<'_>, by: SignedDuration) {
    let moved = |time: Timestamp| time.saturating_add(by).unwrap_or(time);
    for due in turn.s.timers.values_mut() {
        *due = moved(*due);
    }
    let life = turn.life();
    if let Some(operation) = &mut life.operation {
        operation.deadline = moved(operation.deadline);
    }
    life.restart.next = life.restart.next.map(moved);
    turn.note = "what is due moves with it".to_owned();
}

fn deadline(turn: &mut Turn<'_>) {
    match turn.s.course.clone() {
        Course::Bring(Stage::Session) => {
            let seconds = turn.context.config.session_window.as_secs();
            let message = format!(
                "it was not ready within {seconds} s: its supervisor did not come into session, or its main process was not started"
            );
            settle::session_failed(turn, message);
        }
        Course::Bring(_) | Course::Prove(_) => {
            let seconds = turn.context.config.provisioning.as_secs();
            let message = format!(
                "no progress within {seconds} s; last: {}",
                turn.s.record.life.condition.message
            );
            if let Course::Prove(_) = turn.s.course {
                turn.s.idle = false;
            }
            settle::start_failed(turn, false, Reason::ProvisioningTimedOut, message);
        }
        // A call that cannot be given up comes out within a bound of its own; the stop begins only then.
        Course::Halt(_) if turn.s.activity.is_some_and(|a| !a.work.cancellable()) => {
            turn.set_timer(Timer::Deadline, turn.context.config.engine_call);
        }
        Course::Halt(_) => {
            let condition = &turn.s.record.life.condition;
            let why = match &turn.s.outage {
                Some(outage) => outage.cause.clone(),
                None => condition.message.clone(),
            };
            halt_failed(turn, &why);
        }
        Course::Remove => {
            let message = turn.s.record.life.condition.message.clone();
            turn.explain(
                Reason::DeleteFailed,
                format!("{message}; it is still tried"),
            );
        }
        Course::Rest | Course::Run => {}
    }
}

/// The workload could not be stopped in time. It stays stoppable (L6), and containment goes on (L11).
pub(super) fn halt_failed(turn: &mut Turn<'_>, why: &str) {
    let Course::Halt(Halt { then, .. }) = turn.s.course.clone() else {
        return;
    };
    match then {
        Then::Settle(end) => {
            let message = format!(
                "{}; its workload could not be stopped yet: {why}",
                end.message
            );
            turn.end_operation("failed");
            turn.enter(Phase::Error, end.reason, message);
            turn.set_timer(Timer::Retry, crate::time::back_off(5));
        }
        Then::Rest => {
            turn.note = format!("it could not be stopped yet: {why}");
            turn.set_timer(Timer::Retry, crate::time::back_off(5));
        }
        Then::Park(_) => {
            // The next start of the gateway asks what became of it.
            turn.cancel_activity();
            turn.clear_timer(Timer::Retry);
            turn.end_operation("failed");
            turn.s.course = Course::Rest;
            turn.enter(
                Phase::Provisioning,
                Reason::ContainerRuntimeRestart,
                format!("it could not be stopped together with the gateway: {why}"),
            );
        }
        Then::Stopped | Then::NewRun(_) => {
            turn.cancel_activity();
            turn.clear_timer(Timer::Retry);
            turn.clear_timer(Timer::Deadline);
            turn.end_operation("failed");
            turn.s.course = Course::Rest;
            let name = turn.s.record.meta.name.clone();
            turn.enter(
                Phase::Error,
                Reason::StopFailed,
                format!(
                    "the engine did not stop it: {why}; try `openshell sandbox stop {name}` again"
                ),
            );
        }
    }
}

fn session_grace(turn: &mut Turn<'_>) {
    let linked = turn.s.session.is_some_and(|s| s.linked);
    if turn.s.course != Course::Run || linked {
        return;
    }
    if turn.s.reported.is_some() || turn.s.ended.is_some() {
        return;
    }
    let what = match turn.s.session {
        Some(_) => {
            "the link between the sandbox and its supervisor is lost, and the workload is frozen"
        }
        None => "the supervisor's session ended",
    };
    turn.enter(
        Phase::Provisioning,
        Reason::SupervisorNotConnected,
        format!("{what}; it is awaited back"),
    );
    turn.set_timer(Timer::Adoption, turn.context.config.adoption_window);
}

fn adoption(turn: &mut Turn<'_>) {
    if turn.s.course != Course::Run || turn.s.reported.is_some() || turn.s.ended.is_some() {
        return;
    }
    let seconds = turn.context.config.adoption_window.as_secs();
    let message = format!("the supervisor did not come back within {seconds} s");
    settle::supervisor_gone(turn, message);
}

/// Without the engine nothing can be stopped; but it can be frozen (L11).
fn outage(turn: &mut Turn<'_>) {
    if turn.s.course != Course::Run || turn.s.unseen.is_empty() {
        return;
    }
    turn.s.frozen = true;
    turn.effects.push(Effect::Freeze(true));
    let seconds = turn.context.config.engine_outage_limit.as_secs();
    let cause = turn.out_of_sight("it does not answer");
    turn.enter(
        Phase::Unknown,
        Reason::EngineUnreachable,
        format!(
            "the engine has not answered for {seconds} s ({cause}); the workload is frozen until it does"
        ),
    );
    turn.say(Verdict::Applied, "the workload is frozen");
    debug_assert!(turn.s.activity.is_none_or(|a| a.work != Work::Launch));
}
