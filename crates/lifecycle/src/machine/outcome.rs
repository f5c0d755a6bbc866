//! How engine calls came out. An outcome whose ticket is not the present one's changes nothing.

use openshell_core::journal::Verdict;
use openshell_core::{ContainerId, Generation, OperationKind, Reason};

use super::{
    Course, Effect, Halt, Outcome, Stage, Then, Ticket, Timer, Turn, drive, prove, settle,
};
use crate::driver::{DriverError, DriverErrorKind, Launched, Prepared, Role, StopOutcome};
use crate::time::back_off;

/// A step that fails in a way that another try might mend is tried this often.
const TRIES: u32 = 3;

pub(super) fn on_outcome(turn: &mut Turn<'_>, ticket: Ticket, outcome: &Outcome) {
    if turn.s.activity.map(|a| a.ticket) != Some(ticket) {
        turn.say(Verdict::Stale, "it belongs to a call that was given up");
        return;
    }
    turn.s.activity = None;
    match outcome {
        Outcome::Image(Ok(())) => advance(turn, Stage::Image, Stage::Prepare),
        Outcome::Prepared(Ok(prepared)) => match nonsense_prepared(prepared) {
            None => prepared_ok(turn, prepared),
            Some(error) => bring_failed(turn, &error),
        },
        Outcome::Launched(Ok(launched)) => match nonsense_launched(turn, launched) {
            None => launched_ok(turn, launched),
            Some(error) => launch_failed(turn, &error),
        },
        Outcome::Launched(Err(error)) => launch_failed(turn, error),
        Outcome::Image(Err(error)) | Outcome::Prepared(Err(error)) => {
            if let Course::Bring(_) = turn.s.course {
                bring_failed(turn, error);
            }
        }
        Outcome::Stopped(Ok(outcome)) => stopped_ok(turn, outcome),
        Outcome::Stopped(Err(error)) => stop_failed(turn, error),
        Outcome::Removed(Ok(())) => removed_ok(turn),
        Outcome::Removed(Err(error)) => remove_failed(turn, error),
    }
}

/// A container without an id, or one for both halves, cannot be recorded.
fn nonsense_prepared(prepared: &Prepared) -> Option<DriverError> {
    let (workload, supervisor) = (&prepared.workload.0, &prepared.supervisor.0);
    let nonsense = workload.is_empty() || supervisor.is_empty() || workload == supervisor;
    nonsense.then(|| {
        DriverError::new(
            DriverErrorKind::Engine,
            format!("the driver's answer makes no sense: it made the containers {workload:?} and {supervisor:?}"),
        )
    })
}

/// What runs is not what was to be started: then what was launched is not known.
fn nonsense_launched(turn: &Turn<'_>, launched: &Launched) -> Option<DriverError> {
    let run = turn.run()?;
    let same = run.workload.as_ref() == Some(&launched.workload.container)
        && run.supervisor.as_ref() == Some(&launched.supervisor.container);
    (!same).then(|| {
        DriverError::new(
            DriverErrorKind::Unreachable,
            "the driver's answer makes no sense: it speaks of other containers than those to be started",
        )
    })
}

fn advance(turn: &mut Turn<'_>, from: Stage, to: Stage) {
    if turn.s.course == Course::Bring(from) {
        turn.s.course = Course::Bring(to);
        turn.s.outage = None;
        turn.s.tries = 0;
        turn.set_timer(Timer::Deadline, turn.context.config.provisioning);
    }
}

fn prepared_ok(turn: &mut Turn<'_>, prepared: &Prepared) {
    let life = turn.life();
    life.engine = Some(prepared.engine.clone());
    if let Some(run) = life.run.as_mut() {
        run.workload = Some(prepared.workload.clone());
        run.supervisor = Some(prepared.supervisor.clone());
    }
    advance(turn, Stage::Prepare, Stage::Launch);
    if let Course::Bring(_) = turn.s.course {
        turn.explain(
            Reason::CreatingContainers,
            "its containers are being started",
        );
    }
    turn.note = "both containers are made".to_owned();
}

fn launched_ok(turn: &mut Turn<'_>, launched: &Launched) {
    turn.s.idle = false;
    if let Some(run) = turn.life().run.as_mut() {
        run.workload_started = Some(launched.workload.started_at);
        run.supervisor_started = Some(launched.supervisor.started_at);
    }
    let config = turn.context.config;
    if turn.s.course == Course::Bring(Stage::Launch) {
        watch(turn);
        advance(turn, Stage::Launch, Stage::Session);
        turn.set_timer(Timer::Deadline, config.session_window);
        if turn.s.reported.is_some() {
            turn.set_timer(Timer::ExitConfirmation, config.exit_confirmation);
        }
        turn.explain(
            Reason::SupervisorNotConnected,
            "its containers run; its supervisor's session is awaited",
        );
    }
    turn.note = "both containers run".to_owned();
}

/// Has the end of both present incarnations waited for: one wait each.
pub(super) fn watch(turn: &mut Turn<'_>) {
    let Some(run) = turn.run() else { return };
    let workload = run.workload_incarnation().map(|i| (i, Role::Workload));
    let supervisor = run.supervisor_incarnation().map(|i| (i, Role::Supervisor));
    for (incarnation, role) in workload.into_iter().chain(supervisor) {
        turn.s.watching.insert(incarnation, role);
    }
}

fn launch_failed(turn: &mut Turn<'_>, error: &DriverError) {
    let unknown = error.kind == DriverErrorKind::Unreachable;
    // Unless the answer was lost, neither is left running.
    turn.s.idle = !unknown;
    if let Course::Bring(_) = turn.s.course {
        if unknown {
            // Whether it runs is settled by asking, not by starting again (L10).
            let cause = turn.out_of_sight(&error.message);
            turn.explain(Reason::EngineUnreachable, cause);
            turn.say(Verdict::Unknown, error.message.clone());
            prove::enter(turn);
        } else {
            bring_failed(turn, error);
        }
    }
}

fn bring_failed(turn: &mut Turn<'_>, error: &DriverError) {
    let message = error.message.clone();
    let create = turn
        .s
        .record
        .life
        .operation
        .as_ref()
        .is_some_and(|o| o.kind == OperationKind::Create);
    match error.kind {
        DriverErrorKind::Unreachable => {
            retry(turn);
            let cause = turn.out_of_sight(&message);
            turn.explain(
                Reason::EngineUnreachable,
                format!("{cause}; it is tried again"),
            );
        }
        DriverErrorKind::RuntimeMissing => {
            // Gone only if the engine that held it says so itself (L18).
            turn.say(Verdict::NeedsALook, message);
            prove::enter(turn);
        }
        DriverErrorKind::ImagePull => {
            settle::start_failed(turn, create, Reason::ImagePullFailed, message);
        }
        DriverErrorKind::ImageUnusable
        | DriverErrorKind::NameTaken
        | DriverErrorKind::Invalid
        | DriverErrorKind::PathMissing => {
            settle::start_failed(turn, true, Reason::StartFailed, message);
        }
        DriverErrorKind::Engine => {
            settle::start_failed(turn, false, Reason::StartFailed, message);
        }
    }
}

fn retry(turn: &mut Turn<'_>) {
    let wait = back_off(turn.s.tries);
    turn.s.tries = turn.s.tries.saturating_add(1);
    turn.set_timer(Timer::Retry, wait);
}

fn stopped_ok(turn: &mut Turn<'_>, outcome: &StopOutcome) {
    if !matches!(turn.s.course, Course::Halt(_)) {
        return;
    }
    match outcome {
        StopOutcome::NotRunning(exit) => settle::halted(turn, Some(exit)),
        StopOutcome::NeverStarted => settle::halted(turn, None),
        StopOutcome::Missing => {
            // Gone only if the engine that held it says so itself (L18).
            retry(turn);
            drive::look(turn, Role::Workload);
            turn.say(
                Verdict::NeedsALook,
                "the engine knows no such container; it is asked which engine it is",
            );
        }
    }
}

fn stop_failed(turn: &mut Turn<'_>, error: &DriverError) {
    if !matches!(turn.s.course, Course::Halt(_)) {
        return;
    }
    if error.kind == DriverErrorKind::Unreachable || turn.s.tries < TRIES {
        retry(turn);
        let cause = match error.kind {
            DriverErrorKind::Unreachable => turn.out_of_sight(&error.message),
            _ => error.message.clone(),
        };
        let message = format!("{cause}; it is tried again");
        // Nothing is changed in what rests but for the other hand that started it.
        let rests = matches!(&turn.s.course, Course::Halt(halt) if halt.then == Then::Rest);
        if !rests {
            turn.explain(turn.s.record.life.condition.reason, message.clone());
        }
        turn.say(Verdict::Unknown, message);
    } else {
        super::timer::halt_failed(turn, &error.message);
    }
}

fn removed_ok(turn: &mut Turn<'_>) {
    match turn.s.course {
        Course::Remove => {
            turn.life().run = None;
            turn.life().retired.clear();
            turn.end_operation("done");
            turn.effects
                .push(Effect::CloseSession("the sandbox is deleted"));
            turn.effects.push(Effect::Forget);
            turn.note = "nothing of it is left".to_owned();
        }
        Course::Halt(Halt { scrub: true, .. }) => {
            turn.life().run = None;
            turn.life().retired.clear();
            settle::halted(turn, None);
        }
        _ => {}
    }
}

fn remove_failed(turn: &mut Turn<'_>, error: &DriverError) {
    match &mut turn.s.course {
        Course::Remove => {
            retry(turn);
            let message = format!("{}; it is tried again", error.message);
            turn.explain(Reason::DeleteFailed, message.clone());
            turn.say(Verdict::Unknown, message);
        }
        Course::Halt(halt) if turn.s.tries >= TRIES => {
            // It stays recorded; a delete or a start takes it up.
            halt.scrub = false;
            turn.s.tries = 0;
        }
        Course::Halt(_) => retry(turn),
        _ => {}
    }
}

pub(super) fn on_progress(turn: &mut Turn<'_>, ticket: Ticket, text: &str) {
    let Course::Bring(stage) = turn.s.course else {
        return;
    };
    if turn.s.activity.map(|a| a.ticket) != Some(ticket) {
        return;
    }
    turn.set_timer(Timer::Deadline, turn.context.config.provisioning);
    let reason = match stage {
        Stage::Image => Reason::PullingImage,
        _ => Reason::CreatingContainers,
    };
    turn.explain(reason, text);
}

pub(super) fn on_retired(
    turn: &mut Turn<'_>,
    container: &ContainerId,
    result: &Result<(), DriverError>,
) {
    turn.s.retiring.remove(container);
    match result {
        Ok(()) => {
            turn.life().retired.retain(|c| c != container);
            turn.note = "the ended run's supervisor is removed".to_owned();
        }
        Err(error) => {
            let wait = back_off(5);
            turn.set_timer(Timer::Retire, wait);
            turn.say(Verdict::Unknown, error.message.clone());
        }
    }
}

/// An interrupted start has left a supervisor that no record names: it is removed like a retired one (L13).
pub(super) fn on_stray(turn: &mut Turn<'_>, container: &ContainerId, generation: Generation) {
    let life = &turn.s.record.life;
    let known = life.retired.contains(container)
        || turn.s.retiring.contains(container)
        || turn.run().and_then(|r| r.supervisor.as_ref()) == Some(container);
    // A start in flight may be just making it; of an earlier run nothing is made any more.
    let making = generation > life.generation
        || (generation == life.generation && turn.s.activity.is_some());
    if !known && !making && turn.s.course != Course::Remove {
        turn.life().retired.push(container.clone());
        turn.note = "it is removed".to_owned();
    }
}
