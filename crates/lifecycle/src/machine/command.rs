//! What a user asks: from every phase each command leads somewhere (L7), and delete wins (L12).

use std::time::Duration;

use openshell_core::journal::Verdict;
use openshell_core::{Hold, Intent, OperationKind, Phase, Reason, Restart};

use super::{Answer, Command, Course, Halt, Then, Timer, Turn, drive, prove, settle};
use crate::driver::Role;
use crate::time::after;

/// Beyond its grace, a stop has this long to be confirmed.
pub(super) const STOP_MARGIN: Duration = Duration::from_secs(30);

pub(super) fn on_command(turn: &mut Turn<'_>, command: Command) {
    turn.verdict = Verdict::Accepted;
    if command == Command::Delete && turn.s.record.life.intent == Intent::Deleted {
        turn.say(Verdict::Accepted, "it is being deleted already");
        return;
    }
    if refused_as_deleted(turn, participle(command)) {
        return;
    }
    if matches!(command, Command::Start | Command::Restart)
        && let Some(hold) = &turn.s.record.life.hold
    {
        let name = &turn.s.record.meta.name;
        let message = format!(
            "sandbox {name} is {hold} and cannot be {}; `openshell sandbox release {name}` lets it run again",
            participle(command)
        );
        refuse(turn, message);
        return;
    }
    match command {
        Command::Start => start(turn, OperationKind::Start),
        Command::Stop => stop(turn),
        Command::Restart => restart(turn),
        Command::Delete => delete(turn),
    }
}

fn refuse(turn: &mut Turn<'_>, message: String) {
    turn.say(Verdict::Refused, message.clone());
    turn.answer = Answer::Refused(message);
}

fn refused_as_deleted(turn: &mut Turn<'_>, participle: &str) -> bool {
    let deleted = turn.s.record.life.intent == Intent::Deleted;
    if deleted {
        let name = &turn.s.record.meta.name;
        let message = format!(
            "sandbox {name} is being deleted and cannot be {participle}; create it anew when it is gone"
        );
        refuse(turn, message);
    }
    deleted
}

/// A stop that lasts: recorded with the intent, so that it is as durable.
pub(super) fn on_hold(turn: &mut Turn<'_>, by: &str, reason: &str) {
    turn.verdict = Verdict::Accepted;
    if refused_as_deleted(turn, "held") {
        return;
    }
    let since = turn.now();
    turn.life().hold = Some(Hold {
        by: by.to_owned(),
        reason: reason.to_owned(),
        since,
    });
    stop(turn);
    if turn.s.course == Course::Rest && turn.phase() == Phase::Stopped {
        settle::rest_stopped(turn);
        // What was stopped before may have been started by somebody else.
        drive::look(turn, Role::Workload);
    }
    turn.note = match &turn.s.record.life.hold {
        Some(hold) => hold.to_string(),
        None => String::new(),
    };
}

pub(super) fn on_release(turn: &mut Turn<'_>) {
    turn.verdict = Verdict::Accepted;
    if refused_as_deleted(turn, "released") {
        return;
    }
    turn.note = match turn.life().hold.take() {
        Some(hold) => format!("it was {hold}"),
        None => "it was not held".to_owned(),
    };
    if turn.s.record.life.condition.reason == Reason::Held {
        turn.explain(Reason::StoppedByUser, "stopped on request");
    }
}

const fn participle(command: Command) -> &'static str {
    match command {
        Command::Start => "started",
        Command::Stop => "stopped",
        Command::Restart => "restarted",
        Command::Delete => "deleted",
    }
}

fn start(turn: &mut Turn<'_>, kind: OperationKind) {
    let intent = std::mem::replace(&mut turn.life().intent, Intent::Running);
    match turn.s.course.clone() {
        Course::Rest => {
            turn.life().restart = Restart::default();
            if turn.s.idle || turn.workload_id().is_none() {
                turn.begin_run(kind, "a new run is being started");
            } else {
                // What is left of the earlier run must be gone first: its workload accepts no other supervisor.
                turn.begin_operation(kind, turn.context.config.provisioning);
                turn.enter(
                    Phase::Starting,
                    Reason::Accepted,
                    "what is left of the earlier run is being stopped; then a new one starts",
                );
                settle::halt(turn, halt(Duration::ZERO, Then::NewRun(kind)));
            }
            turn.note = "a new run".to_owned();
        }
        Course::Halt(halt) => start_after(turn, halt, kind),
        Course::Run if turn.s.ended.is_some() => {
            // It has ended; what that was is not awaited any longer.
            turn.life().restart = Restart::default();
            turn.begin_operation(kind, turn.context.config.provisioning);
            settle::halt(turn, halt(Duration::ZERO, Then::NewRun(kind)));
            turn.note = "a new run".to_owned();
        }
        Course::Run if turn.phase() == Phase::Unknown => {
            let condition = turn.s.record.life.condition.clone();
            prove::enter(turn);
            turn.enter(Phase::Unknown, condition.reason, condition.message);
            prove::ask_for_another(turn, kind);
        }
        Course::Prove(_) => prove::ask_for_another(turn, kind),
        Course::Bring(_) | Course::Run | Course::Remove => {
            debug_assert!(intent == Intent::Running, "a stop always halts or rests");
            turn.note = "it is running, or on its way there".to_owned();
        }
    }
}

/// A start while the workload is being stopped: after the stop, a new run.
fn start_after(turn: &mut Turn<'_>, mut halt: Halt, kind: OperationKind) {
    if matches!(halt.then, Then::NewRun(_)) {
        turn.note = "a new run follows already".to_owned();
        return;
    }
    turn.life().restart = Restart::default();
    turn.begin_operation(kind, turn.context.config.provisioning);
    halt.then = Then::NewRun(if halt.scrub {
        OperationKind::Create
    } else {
        kind
    });
    turn.s.course = Course::Halt(halt);
    let message = "it is being stopped; a new run starts afterwards";
    if turn.phase() == Phase::Stopping {
        turn.explain(turn.s.record.life.condition.reason, message);
    } else {
        turn.enter(Phase::Starting, Reason::Accepted, message);
    }
    turn.note = "a new run after the stop".to_owned();
}

fn halt(grace: Duration, then: Then) -> Halt {
    Halt {
        grace,
        scrub: false,
        then,
    }
}

fn stop(turn: &mut Turn<'_>) {
    turn.life().intent = Intent::Stopped;
    if turn.s.course == Course::Rest && turn.phase() == Phase::Stopped {
        turn.note = "it is stopped already".to_owned();
        return;
    }
    if let Course::Halt(Halt {
        then: Then::Stopped,
        ..
    }) = turn.s.course
    {
        turn.note = "it is being stopped already".to_owned();
        return;
    }
    turn.cancel_activity_unless_stopping();
    turn.life().restart = Restart::default();
    let grace = turn.context.config.stop_grace;
    turn.begin_operation(OperationKind::Stop, grace + STOP_MARGIN);
    if turn.s.activity.is_none() && nothing_can_run(turn) {
        settle::rest_stopped(turn);
        turn.note = "nothing ran".to_owned();
        return;
    }
    turn.enter(
        Phase::Stopping,
        Reason::StopRequested,
        format!(
            "it is being stopped; it has {} s to end by itself",
            grace.as_secs()
        ),
    );
    match &mut turn.s.course {
        // The stop under way goes on; only what follows is another.
        Course::Halt(halt) => halt.then = Then::Stopped,
        _ => settle::halt(turn, halt(grace, Then::Stopped)),
    }
    turn.quieten();
    turn.note = "the workload is being stopped".to_owned();
}

/// Whether that is certain without asking the engine. What has ended for good may have been started by somebody
/// else since, so its last observation is not enough (L6).
fn nothing_can_run(turn: &mut Turn<'_>) -> bool {
    if turn.workload_id().is_none() {
        return matches!(turn.s.course, Course::Rest | Course::Bring(_));
    }
    match turn.s.course {
        Course::Bring(_) => turn.s.idle,
        Course::Rest if matches!(turn.phase(), Phase::Error | Phase::Completed) => {
            turn.s.idle = false;
            false
        }
        Course::Rest => turn.s.idle,
        _ => false,
    }
}

fn restart(turn: &mut Turn<'_>) {
    match turn.s.course {
        Course::Run | Course::Prove(_) => {
            turn.life().restart = Restart::default();
            turn.begin_operation(OperationKind::Restart, turn.context.config.provisioning);
            turn.enter(
                Phase::Stopping,
                Reason::StopRequested,
                "it is being stopped; a new run starts afterwards",
            );
            let grace = turn.context.config.stop_grace;
            settle::halt(turn, halt(grace, Then::NewRun(OperationKind::Restart)));
            turn.quieten();
            turn.note = "the present run ends, and a new one follows".to_owned();
        }
        _ => start(turn, OperationKind::Restart),
    }
}

fn delete(turn: &mut Turn<'_>) {
    turn.life().intent = Intent::Deleted;
    turn.cancel_activity();
    turn.s.timers.clear();
    turn.s.watching.clear();
    turn.s.looking.clear();
    turn.s.tries = 0;
    turn.life().restart.next = None;
    turn.begin_operation(OperationKind::Delete, turn.context.config.engine_call);
    turn.s.course = Course::Remove;
    turn.enter(
        Phase::Deleting,
        Reason::DeleteRequested,
        "everything of it is being removed",
    );
    turn.note = "everything of it is being removed".to_owned();
}

/// The gateway ends, and runs with it; what was meant to run still is.
pub(super) fn on_park(turn: &mut Turn<'_>) {
    if turn.s.record.life.intent != Intent::Running {
        return;
    }
    turn.s.parking = true;
    if let Course::Halt(Halt {
        then: Then::Settle(_),
        ..
    }) = turn.s.course
    {
        turn.say(Verdict::Accepted, "its run is being ended already");
        return;
    }
    turn.cancel_activity_unless_stopping();
    let now = turn.now();
    match &mut turn.s.course {
        Course::Rest
        | Course::Remove
        | Course::Halt(Halt {
            then: Then::Rest, ..
        }) => return,
        Course::Halt(halt) => halt.then = Then::Park(now),
        Course::Bring(_) if turn.s.idle && turn.s.activity.is_none() => {
            // The operation stays recorded; the next start of the gateway takes it up.
            turn.s.course = Course::Rest;
            return;
        }
        _ => {
            let grace = turn.context.config.stop_grace;
            settle::halt(turn, halt(grace, Then::Park(now)));
        }
    }
    if matches!(turn.phase(), Phase::Ready | Phase::Unknown) {
        turn.enter(
            Phase::Stopping,
            Reason::ContainerRuntimeRestart,
            "it is being stopped together with the gateway",
        );
    }
    turn.quieten();
    let deadline = after(turn.now(), turn.context.config.shutdown_limit());
    turn.s.timers.insert(Timer::Deadline, deadline);
    turn.say(Verdict::Accepted, "it is stopped together with the gateway");
}

impl Turn<'_> {
    /// Nothing but the stop's own end is waited for any more.
    pub(super) fn quieten(&mut self) {
        self.s
            .timers
            .retain(|timer, _| matches!(timer, Timer::Deadline | Timer::Retire));
        self.s.looking.clear();
        self.s.unseen.clear();
        // It stays frozen: what cannot be observed is not set free in order to be stopped.
        self.s.frozen = false;
    }

    fn cancel_activity_unless_stopping(&mut self) {
        if self.s.activity.is_some_and(|a| a.work != super::Work::Stop) {
            self.cancel_activity();
        }
    }
}
