//! Observations: facts about one incarnation. They are hints: before one of them ends a run, the engine is asked
//! about exactly that incarnation (L4), and one that speaks of another run changes nothing (L3).

use std::time::Duration;

use openshell_core::journal::Verdict;
use openshell_core::{Condition, EngineId, Incarnation, Phase, Reason, Run};

use super::exit::{self, gave_up, ungoverned};
use super::{
    Course, End, Facts, Halt, Stage, Supervisor, Timer, Turn, Work, classify, drive, prove, settle,
};
use crate::driver::{EngineEvent, EngineEventKind, EngineExit, Role, Sighting, WaitOutcome};
use crate::restart::Cause;
use crate::time::back_off;

/// What rests is asked about so often, before the engine is taken for being away.
const LOOKS_AT_REST: u32 = 3;
/// How soon an engine that is on its way is asked again.
const IN_TRANSITION: Duration = Duration::from_millis(250);

pub(super) fn incarnation(run: Option<&Run>, role: Role) -> Option<Incarnation> {
    match role {
        Role::Workload => run?.workload_incarnation(),
        Role::Supervisor => run?.supervisor_incarnation(),
    }
}

pub(super) fn on_waited(
    turn: &mut Turn<'_>,
    role: Role,
    waited: &Incarnation,
    outcome: &WaitOutcome,
) {
    turn.s.watching.remove(waited);
    let present = incarnation(turn.run(), role);
    if present.as_ref() != Some(waited) {
        let note = if present.is_some() {
            "it speaks of an earlier run"
        } else {
            "that run is over"
        };
        turn.say(Verdict::Stale, note);
        return;
    }
    match (outcome, &turn.s.course) {
        // The engine's own word about this very incarnation is the confirmation that the stop waits for (L6).
        (WaitOutcome::Exited(ended, exit), Course::Halt(halt))
            if role == Role::Workload && ended == waited && !halt.scrub =>
        {
            let stopping = turn.s.activity.is_none_or(|a| a.work == Work::Stop);
            if stopping {
                settle::halted(turn, Some(exit));
            }
        }
        (_, Course::Halt(_) | Course::Remove) => {
            turn.say(Verdict::Superseded, "an operation is in flight");
        }
        (_, Course::Rest) => turn.say(Verdict::Stale, "that run is over"),
        (WaitOutcome::Lost(why), _) => {
            turn.say(Verdict::Unknown, why.clone());
            look_again(turn, role);
        }
        (WaitOutcome::Exited(..) | WaitOutcome::Superseded, _) => needs_a_look(turn, role),
    }
}

fn needs_a_look(turn: &mut Turn<'_>, role: Role) {
    if role == Role::Supervisor && turn.s.reported.is_some() {
        turn.say(Verdict::Superseded, "expected: the main process has ended");
        return;
    }
    drive::look(turn, role);
    turn.say(Verdict::NeedsALook, "the engine is asked");
}

fn look_again(turn: &mut Turn<'_>, role: Role) {
    turn.s.unseen.insert(role);
    let wait = back_off(turn.s.tries);
    turn.s.tries = turn.s.tries.saturating_add(1);
    turn.set_timer(Timer::Look, wait);
    if turn.s.course == Course::Run && !turn.s.timers.contains_key(&Timer::Outage) && !turn.s.frozen
    {
        turn.set_timer(Timer::Outage, turn.context.config.engine_outage_limit);
    }
}

pub(super) fn on_event(turn: &mut Turn<'_>, event: &EngineEvent) {
    let run = turn.run();
    let recorded = match event.role {
        Role::Workload => run.and_then(|r| r.workload.clone()),
        Role::Supervisor => run.and_then(|r| r.supervisor.clone()),
    };
    if turn.s.record.life.retired.contains(&event.container)
        || turn.s.retiring.contains(&event.container)
    {
        return;
    }
    if recorded.as_ref() != Some(&event.container) {
        // A copy of our labels has no authority (L14); neither has an earlier run's supervisor (L3), whose removal
        // is our own doing.
        if !matches!(
            event.kind,
            EngineEventKind::Started | EngineEventKind::Removed
        ) {
            turn.say(Verdict::Stale, "not a container of the present run");
        }
        return;
    }
    let started = incarnation(run, event.role).map(|i| i.started_at);
    match (&event.kind, &turn.s.course) {
        (EngineEventKind::Started, Course::Rest) if event.role == Role::Workload => {
            started_at_rest(turn, event);
        }
        (EngineEventKind::Started, _) => {}
        (EngineEventKind::OutOfMemory, _) => {
            turn.note = "the kernel ended a process in it for its memory".to_owned();
        }
        (EngineEventKind::Died { .. }, _) if started.is_some_and(|s| event.time < s) => {
            turn.say(Verdict::Stale, "it precedes the present run");
        }
        (_, Course::Halt(_) | Course::Remove) => {
            turn.say(Verdict::Superseded, "an operation is in flight");
        }
        (EngineEventKind::Removed, Course::Rest) => drive::look(turn, event.role),
        (_, Course::Rest) => turn.say(Verdict::Stale, "that run is over"),
        // The start's own answer, or the wait that follows it, tells.
        (_, Course::Bring(stage)) if *stage < Stage::Session => {}
        _ => needs_a_look(turn, event.role),
    }
}

/// Somebody may have started what rests; or this is the late word of the last run's own start.
fn started_at_rest(turn: &mut Turn<'_>, event: &EngineEvent) {
    let life = &turn.s.record.life;
    let last = life.last_exit.as_ref();
    // Of what is held every word is looked into, whatever the clock says.
    if life.hold.is_none() && last.is_some_and(|last| event.time <= last.at) {
        turn.say(Verdict::Stale, "that run is over");
        return;
    }
    drive::look(turn, Role::Workload);
    turn.say(Verdict::NeedsALook, "the engine is asked");
}

pub(super) fn on_connected(turn: &mut Turn<'_>, _engine: &EngineId) {
    let now = turn.now();
    if let Some(outage) = &mut turn.s.outage {
        outage.over = Some(now);
    }
    turn.clear_timer(Timer::Retry);
    turn.clear_timer(Timer::Retire);
    turn.clear_timer(Timer::Look);
    turn.s.tries = 0;
    if let Course::Run | Course::Bring(Stage::Session) = turn.s.course {
        // What happened meanwhile may have been missed.
        for role in [Role::Workload, Role::Supervisor] {
            turn.s.unseen.insert(role);
            drive::look(turn, role);
        }
    }
    if turn.s.course == Course::Rest {
        // Somebody may have started it, or removed it.
        drive::look(turn, Role::Workload);
    }
}

pub(super) fn on_lost(turn: &mut Turn<'_>, why: &str) {
    if turn.s.course != Course::Run {
        return;
    }
    turn.s.unseen.insert(Role::Supervisor);
    look_again(turn, Role::Workload);
    tell_out_of_sight(turn, why);
}

/// Whatever was the first sign of it: a stream that broke, or a question without an answer.
fn tell_out_of_sight(turn: &mut Turn<'_>, why: &str) {
    let cause = turn.out_of_sight(why);
    if turn.phase() != Phase::Unknown {
        turn.explain(
            turn.s.record.life.condition.reason,
            format!("the engine is out of sight ({cause}); it is looked for"),
        );
    }
    turn.say(Verdict::Unknown, why.to_owned());
}

pub(super) fn on_looked(
    turn: &mut Turn<'_>,
    role: Role,
    serial: u64,
    answer: &Result<Sighting, String>,
) {
    if turn.s.looking.get(&role) != Some(&serial) {
        turn.say(Verdict::Stale, "the question is no longer open");
        return;
    }
    turn.s.looking.remove(&role);
    match turn.s.course {
        Course::Prove(_) => prove::on_answer(turn, role, answer),
        Course::Halt(Halt { scrub: false, .. }) if role == Role::Workload => {
            halt_answer(turn, answer);
        }
        Course::Run | Course::Bring(Stage::Session) => live_answer(turn, role, answer),
        Course::Rest if role == Role::Workload => rest_answer(turn, answer),
        _ => turn.say(Verdict::Superseded, "it is no longer asked for"),
    }
}

/// What rests does not run; if it does, somebody else has started it.
fn rest_answer(turn: &mut Turn<'_>, answer: &Result<Sighting, String>) {
    if missing(turn, answer) {
        forget_workload(turn);
        turn.note = "the workload's container no longer exists".to_owned();
        if turn.phase() == Phase::Error {
            let Condition {
                reason, message, ..
            } = turn.s.record.life.condition.clone();
            turn.explain(
                reason,
                format!("{message}; its container no longer exists, a start makes a new one"),
            );
        }
        return;
    }
    match answer {
        Ok(Sighting::Running(_)) => settle::started_outside(turn),
        Ok(Sighting::Exited(..) | Sighting::Created) => {
            turn.s.idle = true;
            turn.s.tries = 0;
        }
        Ok(Sighting::InTransition) => turn.set_timer(Timer::Look, IN_TRANSITION),
        Ok(Sighting::Missing(_)) => turn.say(
            Verdict::Unknown,
            "the engine that answers is not the one that holds it",
        ),
        Err(why) => {
            turn.say(Verdict::Unknown, why.clone());
            // An engine that stays away is asked when it is back.
            if turn.s.tries < LOOKS_AT_REST {
                let wait = back_off(turn.s.tries);
                turn.s.tries += 1;
                turn.set_timer(Timer::Look, wait);
            }
        }
    }
}

/// Confirmed missing: by the engine that held it (L18).
pub(super) fn missing(turn: &Turn<'_>, answer: &Result<Sighting, String>) -> bool {
    let recorded = turn.s.record.life.engine.as_ref();
    matches!(answer, Ok(Sighting::Missing(engine)) if recorded.is_none_or(|r| r == engine))
}

pub(super) fn forget_workload(turn: &mut Turn<'_>) {
    turn.s.idle = true;
    if let Some(run) = turn.life().run.as_mut() {
        run.workload = None;
        run.workload_started = None;
    }
}

fn halt_answer(turn: &mut Turn<'_>, answer: &Result<Sighting, String>) {
    if missing(turn, answer) {
        forget_workload(turn);
        settle::halted(turn, None);
        return;
    }
    match answer {
        Ok(Sighting::Exited(_, exit)) => settle::halted(turn, Some(exit)),
        Ok(Sighting::Created) => settle::halted(turn, None),
        _ => turn.say(Verdict::Unknown, "not confirmed; it is tried again"),
    }
}

fn live_answer(turn: &mut Turn<'_>, role: Role, answer: &Result<Sighting, String>) {
    let current = incarnation(turn.run(), role);
    if missing(turn, answer) {
        return match role {
            Role::Workload => workload_missing(turn),
            Role::Supervisor => supervisor_lost(turn, None),
        };
    }
    match answer {
        Ok(Sighting::Running(seen)) if current.as_ref() == Some(seen) => {
            alive(turn, role, seen.clone());
        }
        Ok(Sighting::Running(_)) => match role {
            Role::Workload if turn.s.reported.is_some() => {
                let end = exit::end_in_sight(turn);
                settle::contain(turn, end);
            }
            Role::Workload => settle::contain(
                turn,
                End {
                    cause: Cause::Main { success: false },
                    exit: None,
                    reason: Reason::ContainerExited,
                    message: "the workload's container was restarted by somebody else".to_owned(),
                },
            ),
            Role::Supervisor => supervisor_lost(turn, None),
        },
        Ok(Sighting::Exited(seen, exit)) => match role {
            Role::Workload if current.as_ref() == Some(seen) => workload_ended(turn, exit),
            Role::Workload => workload_replaced(turn),
            Role::Supervisor => supervisor_lost(turn, Some(exit)),
        },
        Ok(Sighting::InTransition) => {
            turn.s.unseen.insert(role);
            turn.set_timer(Timer::Look, IN_TRANSITION);
        }
        Ok(Sighting::Created | Sighting::Missing(_)) => {
            turn.say(
                Verdict::Unknown,
                "this engine is not the one that holds it, or does not know yet",
            );
            look_again(turn, role);
        }
        Err(why) => {
            look_again(turn, role);
            if turn.s.course == Course::Run {
                tell_out_of_sight(turn, why);
            } else {
                turn.say(Verdict::Unknown, why.clone());
            }
        }
    }
}

fn alive(turn: &mut Turn<'_>, role: Role, seen: Incarnation) {
    turn.s.watching.insert(seen, role);
    turn.s.unseen.remove(&role);
    let unreported = role == Role::Supervisor
        && turn.s.ended.is_some()
        && !turn.s.timers.contains_key(&Timer::ExitReport);
    if unreported {
        conclude_exit(turn, Supervisor::Alive);
        return;
    }
    let overdue = role == Role::Workload
        && turn.s.reported.is_some()
        && !turn.s.timers.contains_key(&Timer::ExitConfirmation);
    if overdue {
        let end = exit::end_in_sight(turn);
        settle::contain(turn, end);
        return;
    }
    turn.note = format!("the {role} is alive");
    if turn.s.unseen.is_empty() {
        turn.s.tries = 0;
        turn.s.outage = None;
        turn.clear_timer(Timer::Outage);
        if turn.phase() == Phase::Ready {
            turn.explain(turn.s.record.life.condition.reason, "running");
        }
    }
}

fn workload_missing(turn: &mut Turn<'_>) {
    forget_workload(turn);
    settle::settle(
        turn,
        End {
            cause: Cause::RuntimeMissing,
            exit: None,
            reason: Reason::RuntimeMissing,
            message: "the workload's container no longer exists; a start makes a new one from its image, with the workspace kept".to_owned(),
        },
    );
}

/// Our incarnation has ended, somebody started another, and that has ended too: nothing says how ours did.
fn workload_replaced(turn: &mut Turn<'_>) {
    turn.s.idle = true;
    let end = exit::end_in_sight(turn);
    settle::settle(turn, end);
}

fn workload_ended(turn: &mut Turn<'_>, exit: &EngineExit) {
    turn.s.idle = true;
    turn.s.ended = Some(exit.clone());
    turn.clear_timer(Timer::ExitConfirmation);
    if turn.s.reported.is_some() {
        both_known(turn);
    } else {
        turn.set_timer(Timer::ExitReport, turn.context.config.exit_report);
        turn.note = format!(
            "the workload ended with {}; its supervisor's report is awaited",
            exit.code
        );
    }
}

/// The workload's end is confirmed and reported. One that was told to end may be the first sign of an engine that
/// goes down: then it is not its own, and is relaunched (L9).
pub(super) fn both_known(turn: &mut Turn<'_>) {
    let told = turn.s.reported.as_ref().is_some_and(|end| end.told);
    let watched = !turn.s.adopting && turn.s.unseen.is_empty();
    if !told || !watched || turn.s.course != Course::Run {
        conclude_exit(turn, Supervisor::Alive);
        return;
    }
    turn.set_timer(Timer::ExitReport, turn.context.config.exit_confirmation);
    turn.enter(
        Phase::Stopping,
        Reason::ContainerStopped,
        "its container was told to end, and not by the gateway; whether the engine goes down is awaited",
    );
}

/// No report has come in time. What became of the other half decides.
pub(super) fn report_overdue(turn: &mut Turn<'_>) {
    if turn.s.session.is_some() {
        conclude_exit(turn, Supervisor::Alive);
        return;
    }
    drive::look(turn, Role::Supervisor);
    if !turn.s.looking.contains_key(&Role::Supervisor) {
        conclude_exit(turn, Supervisor::Unknown);
    }
}

/// The workload has ended by itself, confirmed: says how, and what follows.
pub(super) fn conclude_exit(turn: &mut Turn<'_>, supervisor: Supervisor) {
    let started = turn.run().is_some_and(|r| r.main_started.is_some());
    let ended = turn.s.ended.clone();
    // A supervisor that lives and does not come has never met its workload.
    let alone = turn.s.adopting && turn.s.session.is_none() && supervisor == Supervisor::Alive;
    let unbegun = !started && turn.s.reported.is_none();
    if unbegun && (alone || matches!(turn.s.course, Course::Bring(_))) {
        let code = ended.map_or_else(String::new, |e| format!(" with {}", e.code));
        let message = format!(
            "the workload's container ended{code} before its main process was started; see the sandbox's log"
        );
        settle::launch_failed(turn, Reason::StartFailed, message);
        return;
    }
    let end = classify(Facts {
        report: turn.s.reported.as_ref(),
        engine: ended.as_ref(),
        unwatched: turn.s.adopting || !turn.s.unseen.is_empty(),
        supervisor,
    });
    let not_startable = turn
        .s
        .reported
        .as_ref()
        .is_some_and(|r| !r.error.is_empty());
    if not_startable && !started {
        settle::never_ran(turn, end);
    } else {
        settle::settle(turn, end);
    }
}

pub(super) fn supervisor_lost(turn: &mut Turn<'_>, exit: Option<&EngineExit>) {
    turn.s.supervisor_ended = exit.cloned();
    if let Some(workload) = &turn.s.ended {
        let other = exit.map_or(Supervisor::Unknown, |e| Supervisor::compare(e, workload));
        conclude_exit(turn, other);
        return;
    }
    if turn.s.reported.is_some() {
        turn.say(Verdict::Superseded, "expected: the main process has ended");
        return;
    }
    let code = exit.map_or_else(String::new, |e| format!(" with {}", e.code));
    if turn.s.course != Course::Run {
        let message = format!("the supervisor ended{code} before it came into session");
        settle::session_failed(turn, message);
    } else if turn.s.unseen.contains(&Role::Workload) {
        // The engine was out of sight: what became of the other half decides what this means.
        prove::enter(turn);
    } else if exit.is_some_and(gave_up) {
        settle::contain(turn, ungoverned());
    } else {
        settle::contain(
            turn,
            End {
                cause: Cause::SupervisorLost,
                exit: None,
                reason: Reason::ControlSupervisorExited,
                message: format!("the supervisor ended{code}"),
            },
        );
    }
}
