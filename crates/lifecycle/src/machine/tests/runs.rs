//! Of which run something is, and whether anything of it can run.

use openshell_core::journal::Verdict;
use openshell_core::{
    ExitCause, Generation, Phase, Reason, RestartPolicy, SupervisorInstance, Timestamp,
};

use super::play::{Luck, Play, instance};
use crate::driver::Role;
use crate::machine::{Command, Course, Effect, Input, Stage, Timer};
use crate::ports::SessionEvent;

fn ready(policy: RestartPolicy) -> Play {
    let mut play = Play::new(policy);
    play.settle();
    assert_eq!(play.phase(), Phase::Ready);
    play
}

fn due(play: &mut Play, timer: Timer) {
    let due = play.state.timers.get(&timer).copied();
    play.now = play.now.max(due.expect("it is set"));
    play.tell(&Input::Timer(timer));
}

fn every_event(now: Timestamp) -> [SessionEvent; 7] {
    [
        SessionEvent::MainStarted(now),
        SessionEvent::MainExited(17, now, String::new()),
        SessionEvent::MainStopped(143, now),
        SessionEvent::Link(false),
        SessionEvent::Link(true),
        SessionEvent::Failed("ControlSupervisorStartFailed".to_owned(), "gone".to_owned()),
        SessionEvent::Closed("gone".to_owned()),
    ]
}

fn is_stale(play: &Play, of: Generation, by: SupervisorInstance, event: SessionEvent) {
    let mut play = play.clone();
    let before = play.state.clone();
    let told = format!("{event:?} of {of:?} by {by:?}");
    let step = play.tell(&Input::SessionEvent(of, by, event));
    assert_eq!(
        (&step.state, &step.effects),
        (&before, &Vec::new()),
        "{told}"
    );
    assert_eq!(step.verdict, Verdict::Stale, "{told}");
    assert_eq!(step.note, "not of the present run's session");
}

#[test]
fn l3_a_word_of_another_run_or_of_another_instance_is_stale_and_changes_nothing() {
    let mut play = ready(RestartPolicy::Always);
    play.command(Command::Restart);
    play.settle();
    let (present, earlier) = (Generation(2), Generation(1));
    assert_eq!(play.generation(), present);
    for event in every_event(play.now) {
        is_stale(&play, earlier, instance(earlier), event.clone());
        is_stale(&play, earlier, instance(present), event.clone());
        is_stale(&play, present, instance(earlier), event);
    }
}

#[test]
fn l3_without_a_session_only_the_bound_supervisor_may_give_its_run_up() {
    let mut play = ready(RestartPolicy::Always);
    let closed = play.say(SessionEvent::Closed("reset".to_owned()));
    play.tell(&closed);
    assert_eq!((play.state.session, play.phase()), (None, Phase::Ready));
    let present = play.generation();
    let other = instance(Generation(7));
    for event in every_event(play.now) {
        if let SessionEvent::Closed(_) = event {
            // A session that is over has nothing more to say: neither is that journaled.
            let step = play
                .clone()
                .tell(&Input::SessionEvent(present, other, event.clone()));
            assert!(!step.journaled && step.effects.is_empty());
            is_stale(&play, Generation(0), other, event);
            continue;
        }
        is_stale(&play, present, other, event.clone());
        if !matches!(event, SessionEvent::Failed(..)) {
            is_stale(&play, present, instance(present), event);
        }
    }
    let failed = SessionEvent::Failed("ControlSupervisorStartFailed".to_owned(), "gone".to_owned());
    let failed = play.say(failed);
    let step = play.tell(&failed);
    assert_eq!(step.verdict, Verdict::Applied);
    assert_eq!(
        (play.phase(), play.reason()),
        (Phase::Stopping, Reason::ControlSupervisorStartFailed)
    );
}

#[test]
fn l3_a_run_that_was_not_launched_yet_has_no_supervisor_that_could_give_it_up() {
    let mut play = Play::new(RestartPolicy::Never);
    let failed =
        || SessionEvent::Failed("ControlSupervisorStartFailed".to_owned(), "gone".to_owned());
    for stage in [Stage::Image, Stage::Prepare] {
        assert_eq!(play.state.course, Course::Bring(stage));
        is_stale(&play, Generation(1), instance(Generation(1)), failed());
        play.come_out(Luck::Good);
    }
    assert_eq!(play.state.course, Course::Bring(Stage::Launch));
    let failed = play.say(failed());
    let step = play.tell(&failed);
    assert_eq!(step.verdict, Verdict::Applied);
    play.rest();
    assert_eq!(
        (play.phase(), play.reason()),
        (Phase::Error, Reason::ControlSupervisorStartFailed)
    );
}

/// A stop of it, and whether the engine had to be asked.
fn stop(play: &mut Play) -> bool {
    let step = play.command(Command::Stop);
    let asked = matches!(step.effects[..], [.., Effect::StopWorkload(..)]);
    if !asked {
        assert_eq!(
            (play.phase(), play.reason()),
            (Phase::Stopped, Reason::StoppedByUser)
        );
        assert_eq!(step.note, "nothing ran");
    }
    play.settle();
    assert_eq!(play.phase(), Phase::Stopped);
    asked
}

#[test]
fn l6_a_stop_asks_the_engine_unless_it_is_certain_that_nothing_can_run() {
    // Nothing was ever made.
    assert!(!stop(&mut Play::new(RestartPolicy::Never)));
    // Made, and not launched: what was tried is to be tried again.
    let mut play = ready(RestartPolicy::Never);
    stop(&mut play);
    play.command(Command::Start);
    play.come_out(Luck::Unreachable);
    while play.state.activity.is_some() {
        play.come_out(Luck::Unreachable);
    }
    assert_eq!(play.state.course, Course::Bring(Stage::Prepare));
    assert!(play.state.idle && play.id(Role::Workload).is_some());
    assert!(!stop(&mut play));
    // Launched.
    let mut play = Play::new(RestartPolicy::Never);
    for _ in 0..3 {
        play.come_out(Luck::Good);
    }
    assert_eq!(play.state.course, Course::Bring(Stage::Session));
    assert!(stop(&mut play));
    // It runs.
    assert!(stop(&mut ready(RestartPolicy::Never)));
}

#[test]
fn l6_a_stop_of_what_has_ended_for_good_asks_whether_somebody_has_started_it_since() {
    for (code, phase) in [(0, Phase::Completed), (3, Phase::Error)] {
        for outside in [false, true] {
            let mut play = ready(RestartPolicy::Never);
            play.end(Role::Workload, code);
            play.rest();
            assert_eq!(play.phase(), phase);
            if outside {
                play.start_outside(Role::Workload);
            }
            assert!(stop(&mut play), "{phase}");
            assert!(!play.anything_runs());
        }
    }
}

#[test]
fn l6_a_stop_of_what_waits_for_its_restart_is_done_at_once() {
    let mut play = ready(RestartPolicy::Always);
    for _ in 0..2 {
        let ended = play.say(SessionEvent::MainExited(1, play.now, String::new()));
        play.tell(&ended);
        play.end(Role::Workload, 1);
        play.settle();
    }
    assert_eq!(play.reason(), Reason::RestartBackOff);
    assert!(!stop(&mut play));
    assert_eq!(play.state.record.life.restart.next, None);
}

#[test]
fn l9_an_end_before_its_containment_is_mains_own_and_what_the_containment_did_is_not() {
    for (code, phase, reason, cause) in [
        (
            0,
            Phase::Completed,
            Reason::MainProcessCompleted,
            ExitCause::Main,
        ),
        (3, Phase::Error, Reason::MainProcessFailed, ExitCause::Main),
        (
            137,
            Phase::Error,
            Reason::ControlSupervisorExited,
            ExitCause::Contained,
        ),
    ] {
        let mut play = ready(RestartPolicy::Never);
        play.end(Role::Supervisor, 1);
        play.observe();
        play.come_out(Luck::Good);
        assert!(matches!(play.state.course, Course::Halt(_)));
        // It ends before the engine is told to stop it.
        play.end(Role::Workload, code);
        while play.come_out(Luck::Good).is_some() {}
        assert_eq!((play.phase(), play.reason()), (phase, reason), "{code}");
        let exit = play.state.record.life.last_exit.clone().expect("it ended");
        assert_eq!((exit.code, exit.cause), (code, cause));
    }
}

#[test]
fn l9_an_end_under_a_start_that_had_failed_already_stays_that_starts_failure() {
    let mut play = Play::new(RestartPolicy::Never);
    for _ in 0..3 {
        play.come_out(Luck::Good);
    }
    let opened = play.open();
    play.tell(&opened);
    play.command(Command::Restart);
    due(&mut play, Timer::Deadline);
    play.end(Role::Workload, 3);
    play.settle();
    assert_eq!(
        (play.phase(), play.reason()),
        (Phase::Error, Reason::ControlSupervisorStartFailed)
    );
}
