//! Supervisors' sessions, and what they say. Ready is derived here, and only here.

use openshell_core::journal::Verdict;
use openshell_core::{
    ExitCause, ExitRecord, Generation, Intent, OperationKind, Phase, Reason, SupervisorInstance,
    Timestamp,
};

use super::{Answer, Course, Effect, End, MainEnd, Opened, Session, Stage, Timer, Turn};
use super::{drive, observe, settle};
use crate::driver::Role;
use crate::fence::SessionRefused;
use crate::ports::{MainReport, SessionEvent};
use crate::restart::Cause;

pub(super) fn on_opened(turn: &mut Turn<'_>, opened: &Opened) {
    if let Err(refused) = admit(turn, opened) {
        let verdict = match refused {
            SessionRefused::StaleGeneration { .. } => Verdict::Stale,
            _ => Verdict::Refused,
        };
        turn.say(verdict, refused.to_string());
        turn.answer = Answer::SessionRefused(refused);
        return;
    }
    let again = turn.s.session.is_some();
    turn.s.session = Some(Session {
        instance: opened.instance,
        linked: true,
    });
    turn.clear_timer(Timer::SessionGrace);
    turn.clear_timer(Timer::Adoption);
    let instance = turn
        .life()
        .run
        .as_mut()
        .and_then(|run| run.instance.replace(opened.instance));
    if instance.is_some() {
        // An order may have gone to an earlier session that was broken already.
        turn.effects.push(Effect::Freeze(turn.s.frozen));
    }
    let note = if again {
        "the supervisor's session is accepted in place of its earlier one"
    } else {
        "the supervisor's session is accepted"
    };
    turn.say(Verdict::Accepted, note);
    match opened.main {
        MainReport::NotStarted => {}
        MainReport::Running(since) => main_started(turn, since),
        MainReport::Exited(code, at) => main_exited(turn, end(code, at, "", false)),
        MainReport::Stopped(code, at) => main_exited(turn, end(code, at, "", true)),
    }
}

fn admit(turn: &mut Turn<'_>, opened: &Opened) -> Result<(), SessionRefused> {
    let present = turn.s.record.life.generation;
    if opened.generation != present {
        return Err(SessionRefused::StaleGeneration {
            got: opened.generation,
            present,
        });
    }
    let live = match turn.s.course {
        Course::Bring(stage) => stage >= Stage::Launch,
        Course::Run | Course::Prove(_) => true,
        Course::Rest | Course::Halt(_) | Course::Remove => false,
    };
    if !live || turn.s.record.life.intent != Intent::Running {
        return Err(SessionRefused::Ending);
    }
    let bound = turn.run().and_then(|run| run.instance);
    if bound.is_some_and(|bound| bound != opened.instance) {
        return Err(SessionRefused::OtherInstance(present));
    }
    if !opened.enforced {
        run_failed(
            turn,
            Reason::StartFailed,
            "the sandbox does not confirm the enforcement of its policy; see its log for the primitive that is missing",
        );
        return Err(SessionRefused::NotEnforced);
    }
    Ok(())
}

pub(super) fn on_event(
    turn: &mut Turn<'_>,
    generation: Generation,
    instance: SupervisorInstance,
    event: &SessionEvent,
) {
    if !current(turn, generation, instance, event) {
        // A session that we have ended ourselves has nothing more to say.
        let ended_by_us = matches!(event, SessionEvent::Closed(_))
            && generation == turn.s.record.life.generation
            && turn.s.session.is_none();
        if !ended_by_us {
            turn.say(Verdict::Stale, "not of the present run's session");
        }
        return;
    }
    // At rest there is a session only if a stop has failed: what the user asked for stands.
    if matches!(
        turn.s.course,
        Course::Rest | Course::Halt(_) | Course::Remove
    ) {
        if let SessionEvent::Closed(_) = event {
            turn.s.session = None;
        }
        turn.say(Verdict::Superseded, "the run is being ended already");
        return;
    }
    match event {
        SessionEvent::MainStarted(at) => {
            main_started(turn, *at);
            turn.note = "the main process was started".to_owned();
        }
        SessionEvent::MainExited(code, at, error) => {
            main_exited(turn, end(*code, *at, error, false));
        }
        SessionEvent::MainStopped(code, at) => main_exited(turn, end(*code, *at, "", true)),
        SessionEvent::Link(linked) => link(turn, *linked),
        SessionEvent::Failed(reason, message) => {
            if turn.s.reported.is_some() {
                turn.say(Verdict::Superseded, "the main process has ended already");
                return;
            }
            let message = format!("the supervisor gave the run up ({reason}): {message}");
            let reason = Reason::ALL
                .iter()
                .copied()
                .find(|r| r.as_str() == reason)
                .unwrap_or(Reason::StartFailed);
            run_failed(turn, reason, &message);
        }
        SessionEvent::Closed(why) => closed(turn, why),
    }
}

/// Whether it is of the present run, and of its session. A run that cannot even begin a session says so without one.
fn current(
    turn: &Turn<'_>,
    generation: Generation,
    instance: SupervisorInstance,
    event: &SessionEvent,
) -> bool {
    let Some(run) = turn.run() else { return false };
    let of_run = generation == run.generation;
    match turn.s.session {
        Some(session) => of_run && session.instance == instance,
        None => {
            let live = match turn.s.course {
                Course::Bring(stage) => stage >= Stage::Launch,
                Course::Run | Course::Prove(_) => true,
                Course::Rest | Course::Halt(_) | Course::Remove => false,
            };
            of_run
                && live
                && matches!(event, SessionEvent::Failed(..))
                && run.instance.is_none_or(|bound| bound == instance)
        }
    }
}

fn main_started(turn: &mut Turn<'_>, at: Timestamp) {
    if let Some(run) = turn.life().run.as_mut() {
        run.main_started.get_or_insert(at);
    }
}

fn end(code: i32, at: Timestamp, error: &str, told: bool) -> MainEnd {
    MainEnd {
        code,
        at,
        error: error.to_owned(),
        told,
    }
}

/// Recorded at once (the supervisor forgets it when it is acknowledged); nothing moves before the engine
/// confirms it.
fn main_exited(turn: &mut Turn<'_>, end: MainEnd) {
    if turn.s.reported.is_some() {
        return;
    }
    let MainEnd {
        code,
        at,
        told,
        error,
    } = end.clone();
    turn.s.reported = Some(end);
    let generation = turn.s.record.life.generation;
    turn.life().last_exit = Some(ExitRecord {
        generation,
        code,
        cause: if told {
            ExitCause::Unknown
        } else {
            ExitCause::Main
        },
        at,
        error,
    });
    if turn.s.ended.is_some() {
        observe::both_known(turn);
    } else {
        turn.set_timer(
            Timer::ExitConfirmation,
            turn.context.config.exit_confirmation,
        );
        turn.note = format!("the main process ended with {code}; the engine is to confirm it");
    }
}

fn link(turn: &mut Turn<'_>, linked: bool) {
    if let Some(session) = turn.s.session.as_mut() {
        session.linked = linked;
    }
    if linked {
        turn.clear_timer(Timer::SessionGrace);
        turn.clear_timer(Timer::Adoption);
        turn.note = "the link between the halves stands".to_owned();
    } else if turn.s.course == Course::Run && turn.s.reported.is_none() {
        turn.set_timer(Timer::SessionGrace, turn.context.config.session_grace);
        drive::look(turn, Role::Workload);
        turn.say(
            Verdict::NeedsALook,
            "the link between the halves is lost; the workload freezes itself",
        );
    }
}

fn closed(turn: &mut Turn<'_>, why: &str) {
    turn.s.session = None;
    if turn.s.course == Course::Run && turn.s.reported.is_none() && turn.s.ended.is_none() {
        turn.set_timer(Timer::SessionGrace, turn.context.config.session_grace);
        drive::look(turn, Role::Supervisor);
    }
    turn.say(
        Verdict::Unknown,
        format!("the session ended ({why}); that says nothing about the workload"),
    );
}

/// The run cannot be.
fn run_failed(turn: &mut Turn<'_>, reason: Reason, message: &str) {
    if turn.s.course == Course::Run {
        settle::contain(
            turn,
            End {
                cause: Cause::SupervisorLost,
                exit: None,
                reason: if reason == Reason::StartFailed {
                    Reason::ControlSupervisorExited
                } else {
                    reason
                },
                message: message.to_owned(),
            },
        );
    } else {
        settle::launch_failed(turn, reason, message.to_owned());
    }
}

/// Ready: this run's workload runs, its supervisor is in an authenticated session that confirms enforcement,
/// and main was started.
pub(super) fn maybe_ready(turn: &mut Turn<'_>) {
    let awaited = matches!(turn.s.course, Course::Run | Course::Bring(Stage::Session));
    let proven = turn
        .run()
        .is_some_and(|r| r.workload_started.is_some() && r.main_started.is_some());
    let linked = turn.s.session.is_some_and(|s| s.linked);
    let over = turn.s.reported.is_some() || turn.s.ended.is_some();
    if !awaited || !proven || !linked || over {
        return;
    }
    if turn.s.frozen {
        if !turn.s.unseen.is_empty() {
            return;
        }
        turn.s.frozen = false;
        turn.effects.push(Effect::Freeze(false));
    }
    turn.s.course = Course::Run;
    if turn.phase() == Phase::Ready {
        return;
    }
    turn.clear_timer(Timer::Deadline);
    let now = turn.now();
    let restored = turn
        .s
        .record
        .life
        .operation
        .as_ref()
        .is_some_and(|o| o.kind == OperationKind::Restore);
    if let Some(run) = turn.life().run.as_mut() {
        run.ready_at.get_or_insert(now);
    }
    turn.end_operation("done");
    turn.s.lost_launches = 0;
    if turn.s.adopting {
        // Proven: from here on it is a run like any other.
        turn.s.adopting = false;
        // An earlier gateway process may have ordered it frozen.
        turn.effects.push(Effect::Freeze(false));
        turn.enter(
            Phase::Ready,
            Reason::Adopted,
            "running; taken back into care as it was",
        );
    } else if restored {
        turn.enter(
            Phase::Ready,
            Reason::Restored,
            "running; brought back by the gateway",
        );
    } else {
        turn.enter(Phase::Ready, Reason::Running, "running");
    }
}
