//! What became of a recorded run: asked when the gateway starts, when an answer was lost, and when the engine
//! comes back. In this order: what was the intent; did the workload end by itself; else adopt, or relaunch (L9).

use std::time::Duration;

use openshell_core::journal::Verdict;
use openshell_core::{
    ExitCause, Incarnation, Intent, OperationKind, Phase, Reason, Restart, SupervisorInstance,
    Timestamp,
};

use super::exit::{self, gave_up, ungoverned};
use super::{Course, End, Halt, MainEnd, Proof, Stage, Supervisor, Then, Timer, Turn};
use super::{observe, outcome, settle};
use crate::driver::{EngineExit, Role, Sighting};
use crate::restart::Cause;
use crate::time::back_off;

/// So many launches in a row may be lost.
const LAUNCHES: u32 = 3;

/// Begins to ask.
pub(super) fn enter(turn: &mut Turn<'_>) {
    turn.s.looking.clear();
    turn.clear_timer(Timer::Look);
    turn.s.course = Course::Prove(Proof::default());
    if matches!(turn.phase(), Phase::Ready | Phase::Unknown) {
        turn.enter(
            Phase::Provisioning,
            Reason::SupervisorNotConnected,
            "the engine is asked what became of it, and the supervisor is awaited",
        );
    }
    prefill(turn);
}

/// A half of which nothing is recorded needs no question.
fn prefill(turn: &mut Turn<'_>) {
    let (workload, supervisor) = turn.run().map_or((false, false), |run| {
        (run.workload.is_some(), run.supervisor.is_some())
    });
    if let Course::Prove(proof) = &mut turn.s.course {
        if !workload {
            proof.workload = Some(Sighting::Created);
        }
        if !supervisor {
            proof.supervisor = Some(Sighting::Created);
        }
    }
    conclude(turn);
}

pub(super) fn on_restore(turn: &mut Turn<'_>) {
    turn.say(Verdict::Accepted, "nothing was under way");
    let phase = turn.phase();
    match turn.s.record.life.intent {
        Intent::Deleted => {
            turn.s.course = Course::Remove;
            turn.note = "its deletion goes on".to_owned();
        }
        Intent::Stopped => {
            let resting = matches!(phase, Phase::Stopped | Phase::Completed)
                || (phase == Phase::Error && turn.s.record.life.operation.is_none());
            if !resting {
                let bound = turn.context.config.stop_grace + turn.context.config.engine_call;
                let grace = turn.context.config.stop_grace;
                turn.begin_operation(OperationKind::Stop, bound);
                settle::halt(turn, halt(grace, Then::Stopped));
                turn.note = "its stop goes on".to_owned();
            }
        }
        Intent::Running => restore_running(turn, phase),
    }
}

fn halt(grace: Duration, then: Then) -> Halt {
    Halt {
        grace,
        scrub: false,
        then,
    }
}

fn restore_running(turn: &mut Turn<'_>, phase: Phase) {
    let life = turn.s.record.life.clone();
    let operation = life.operation.as_ref().map(|o| o.kind);
    let Some(run) = life.run else {
        if !matches!(phase, Phase::Error | Phase::Completed) {
            turn.begin_run(
                OperationKind::Create,
                "the gateway has restarted; its making goes on",
            );
        }
        return;
    };
    if let Some(due) = life.restart.next {
        turn.s.idle = true;
        turn.s.timers.insert(Timer::Restart, due);
        turn.note = format!("a restart is due at {due}");
        return;
    }
    if matches!(phase, Phase::Error | Phase::Completed) && operation.is_none() {
        // A run that has been concluded names neither a supervisor nor a start any more.
        turn.s.idle = run.workload_started.is_none() && run.supervisor.is_none();
        if !turn.s.idle {
            // It could not be contained before.
            let end = End {
                cause: Cause::SupervisorLost,
                exit: None,
                reason: life.condition.reason,
                message: life.condition.message,
            };
            settle::contain(turn, end);
        }
        return;
    }
    if let Some(exit) = life.last_exit
        && exit.generation == run.generation
        && matches!(exit.cause, ExitCause::Main | ExitCause::Unknown)
    {
        turn.s.reported = Some(MainEnd {
            code: exit.code,
            at: exit.at,
            error: exit.error,
            told: exit.cause == ExitCause::Unknown,
        });
    }
    if run.supervisor.is_none() {
        resume_unmade(turn, operation, run.workload.is_none());
        return;
    }
    if let (Some(kind @ (OperationKind::Start | OperationKind::Restart)), Some(_)) =
        (operation, run.ready_at)
    {
        // The operation was still about to end the earlier run.
        turn.set_timer(Timer::Deadline, turn.context.config.provisioning);
        settle::halt(
            turn,
            halt(turn.context.config.stop_grace, Then::NewRun(kind)),
        );
        return;
    }
    turn.s.adopting = true;
    turn.note = "the engine is asked what became of it".to_owned();
    enter(turn);
}

/// Nothing of the recorded run was launched: its containers are launched only after both are recorded (L2).
fn resume_unmade(turn: &mut Turn<'_>, operation: Option<OperationKind>, unmade: bool) {
    turn.s.idle = true;
    let Some(kind) = operation else {
        // It was stopped together with the gateway: what is configured decides whether it runs again, unless main
        // had ended by itself.
        let end = match turn.s.reported {
            Some(_) => exit::own_end(turn),
            None => End {
                cause: Cause::Parked,
                exit: None,
                reason: Reason::ContainerRuntimeRestart,
                message: "it was stopped together with the gateway".to_owned(),
            },
        };
        settle::settle(turn, end);
        return;
    };
    if kind == OperationKind::Create && unmade {
        // What the interrupted create may have made is not recorded: remove it first (L13).
        turn.set_timer(Timer::Deadline, turn.context.config.provisioning);
        let mut halt = halt(Duration::ZERO, Then::NewRun(kind));
        halt.scrub = true;
        settle::halt(turn, halt);
    } else {
        turn.begin_run(
            kind,
            "the gateway has restarted; a new run is being started",
        );
    }
}

/// One half's answer.
pub(super) fn on_answer(turn: &mut Turn<'_>, role: Role, answer: &Result<Sighting, String>) {
    let confirmed = observe::missing(turn, answer);
    let sighting = match answer {
        Ok(Sighting::InTransition) => {
            turn.set_timer(Timer::Look, Duration::from_millis(250));
            return;
        }
        Ok(Sighting::Missing(_)) if !confirmed => {
            ask_again(turn, "the engine that answers is not the one that holds it");
            return;
        }
        Err(why) => {
            ask_again(turn, why);
            return;
        }
        Ok(sighting) => sighting.clone(),
    };
    if let Course::Prove(proof) = &mut turn.s.course {
        match role {
            Role::Workload => proof.workload = Some(sighting),
            Role::Supervisor => proof.supervisor = Some(sighting),
        }
    }
    conclude(turn);
}

fn ask_again(turn: &mut Turn<'_>, why: &str) {
    let cause = turn.out_of_sight(why);
    let wait = back_off(turn.s.tries);
    turn.s.tries = turn.s.tries.saturating_add(1);
    turn.set_timer(Timer::Look, wait);
    turn.explain(
        Reason::EngineUnreachable,
        format!("the engine cannot be asked ({cause}); it is tried again"),
    );
    turn.say(Verdict::Unknown, why.to_owned());
}

fn conclude(turn: &mut Turn<'_>) {
    let Course::Prove(proof) = turn.s.course.clone() else {
        return;
    };
    let (Some(workload), Some(supervisor)) = (proof.workload, proof.supervisor) else {
        return;
    };
    turn.s.unseen.clear();
    turn.s.outage = None;
    let supervised = matches!(supervisor, Sighting::Running(_));
    let alive = supervised && matches!(workload, Sighting::Running(_));
    if let Some(kind) = proof.asked
        && !alive
    {
        another(turn, kind, &workload);
        return;
    }
    match workload {
        Sighting::Running(seen) => match supervisor {
            Sighting::Running(by) => both_alive(turn, &seen, &by),
            Sighting::Exited(_, exit) => unsupervised(turn, seen, Some(exit)),
            _ => unsupervised(turn, seen, None),
        },
        Sighting::Exited(seen, exit) => ended(turn, &seen, &exit, &supervisor),
        Sighting::Missing(_) => {
            observe::forget_workload(turn);
            let end = match turn.s.reported {
                Some(_) => exit::own_end(turn),
                None => gone(),
            };
            settle::settle(turn, end);
        }
        Sighting::Created | Sighting::InTransition => never_started(turn, supervised),
    }
}

/// A start while it is not known what became of the run.
pub(super) fn ask_for_another(turn: &mut Turn<'_>, kind: OperationKind) {
    if let Course::Prove(proof) = &mut turn.s.course {
        proof.asked = Some(kind);
    }
    turn.note = "if its run turns out to be over, another begins".to_owned();
}

/// The run is over, and its user has asked for another meanwhile: what is left of it is stopped first.
fn another(turn: &mut Turn<'_>, kind: OperationKind, workload: &Sighting) {
    turn.life().restart = Restart::default();
    turn.begin_operation(kind, turn.context.config.provisioning);
    match workload {
        Sighting::Missing(_) => observe::forget_workload(turn),
        Sighting::Running(_) => turn.s.idle = false,
        Sighting::Exited(_, exit) => {
            turn.s.ended = Some(exit.clone());
            turn.s.idle = true;
        }
        Sighting::Created | Sighting::InTransition => turn.s.idle = true,
    }
    turn.enter(
        Phase::Starting,
        Reason::Accepted,
        "its earlier run is over; a new one is being started",
    );
    settle::halt(turn, halt(Duration::ZERO, Then::NewRun(kind)));
}

fn recorded(
    turn: &Turn<'_>,
) -> (
    Option<Timestamp>,
    Option<Timestamp>,
    Option<SupervisorInstance>,
) {
    turn.run().map_or((None, None, None), |r| {
        (r.workload_started, r.supervisor_started, r.instance)
    })
}

fn both_alive(turn: &mut Turn<'_>, workload: &Incarnation, supervisor: &Incarnation) {
    let (w, s, _) = recorded(turn);
    let same =
        w.is_none_or(|w| w == workload.started_at) && s.is_none_or(|s| s == supervisor.started_at);
    if !same {
        let end = match turn.s.reported {
            Some(_) => exit::own_end(turn),
            None => End {
                cause: Cause::Infrastructure,
                exit: None,
                reason: Reason::ContainerRuntimeRestart,
                message: "its containers were restarted by somebody else".to_owned(),
            },
        };
        settle::contain(turn, end);
        return;
    }
    turn.s.idle = false;
    let mut was_ready = false;
    if let Some(run) = turn.life().run.as_mut() {
        run.workload_started = Some(workload.started_at);
        run.supervisor_started = Some(supervisor.started_at);
        was_ready = run.ready_at.is_some();
    }
    outcome::watch(turn);
    let config = turn.context.config;
    if was_ready {
        turn.s.course = Course::Run;
        if !turn.s.session.is_some_and(|session| session.linked) {
            turn.set_timer(Timer::Adoption, config.adoption_window);
        }
    } else {
        turn.s.course = Course::Bring(Stage::Session);
        turn.set_timer(Timer::Deadline, config.session_window);
    }
    if turn.s.session.is_none() {
        turn.explain(
            Reason::SupervisorNotConnected,
            "its containers run; its supervisor's session is awaited",
        );
    }
    if turn.s.reported.is_some() {
        turn.set_timer(Timer::ExitConfirmation, config.exit_confirmation);
    }
    turn.note = "both halves are alive".to_owned();
}

/// A new supervisor never takes over a running workload: it is stopped first. A loss while the gateway was away is
/// relaunched; one while it was there goes to the policy, whatever was heard first.
fn unsupervised(turn: &mut Turn<'_>, seen: Incarnation, supervisor: Option<EngineExit>) {
    turn.s.idle = false;
    turn.s.supervisor_ended = supervisor;
    let mut was_ready = false;
    if let Some(run) = turn.life().run.as_mut() {
        run.workload_started = Some(seen.started_at);
        was_ready = run.ready_at.is_some();
    }
    let message = "the supervisor ended while nobody watched".to_owned();
    if turn.s.reported.is_some() {
        let end = exit::own_end(turn);
        settle::contain(turn, end);
    } else if turn.s.supervisor_ended.as_ref().is_some_and(gave_up) {
        settle::contain(turn, ungoverned());
    } else if was_ready {
        settle::supervisor_gone(turn, message);
    } else {
        settle::session_failed(turn, message);
    }
}

fn ended(turn: &mut Turn<'_>, seen: &Incarnation, exit: &EngineExit, supervisor: &Sighting) {
    turn.s.idle = true;
    let (started, ..) = recorded(turn);
    if started.is_none() && never_ran_this_time(turn, seen) {
        never_started(turn, matches!(supervisor, Sighting::Running(_)));
        return;
    }
    if let Some(run) = turn.life().run.as_mut() {
        run.workload_started = Some(seen.started_at);
    }
    turn.s.ended = Some(exit.clone());
    let was_ready = turn.run().is_some_and(|run| run.ready_at.is_some());
    turn.s.course = if was_ready || turn.s.adopting {
        Course::Run
    } else {
        Course::Bring(Stage::Session)
    };
    // It was not watched, even if it is by now.
    turn.s.unseen.insert(Role::Workload);
    if turn.s.reported.is_some() {
        observe::conclude_exit(turn, Supervisor::Unknown);
        return;
    }
    match supervisor {
        Sighting::Running(by) => {
            if let Some(run) = turn.life().run.as_mut() {
                run.supervisor_started = Some(by.started_at);
            }
            let wait = if turn.s.session.is_some() {
                turn.context.config.exit_report
            } else {
                turn.context.config.adoption_window
            };
            turn.set_timer(Timer::ExitReport, wait);
            turn.note =
                "the workload ended while nobody watched; its supervisor's report is awaited"
                    .to_owned();
        }
        Sighting::Exited(_, by) => observe::conclude_exit(turn, Supervisor::compare(by, exit)),
        _ => observe::conclude_exit(turn, Supervisor::Unknown),
    }
}

/// A kept container's last end is the previous run's if that run has been concluded after it.
fn never_ran_this_time(turn: &Turn<'_>, seen: &Incarnation) -> bool {
    let life = &turn.s.record.life;
    life.operation
        .as_ref()
        .is_some_and(|operation| seen.started_at < operation.started)
}

fn never_started(turn: &mut Turn<'_>, supervised: bool) {
    turn.s.idle = true;
    let operation = turn.s.record.life.operation.as_ref().map(|o| o.kind);
    if turn.s.adopting {
        let kind = operation.unwrap_or(OperationKind::Restore);
        turn.begin_run(
            kind,
            "the gateway has restarted; a new run is being started",
        );
        return;
    }
    // The launch whose answer was lost has not happened, or not wholly: what was prepared for it is used up.
    turn.s.lost_launches += 1;
    if !supervised && turn.s.lost_launches < LAUNCHES {
        let kind = operation.unwrap_or(OperationKind::Start);
        let tries = turn.s.lost_launches;
        turn.begin_run(
            kind,
            "the engine did not start its containers; it is tried again",
        );
        turn.set_timer(Timer::Retry, back_off(tries));
        return;
    }
    turn.s.lost_launches = 0;
    settle::start_failed(
        turn,
        false,
        Reason::StartFailed,
        "its containers were made, but the engine did not start them".to_owned(),
    );
}

fn gone() -> End {
    End {
        cause: Cause::RuntimeMissing,
        exit: None,
        reason: Reason::RuntimeMissing,
        message: "the workload's container no longer exists; a start makes a new one from its image, with the workspace kept".to_owned(),
    }
}
