//! What rests does not run, whoever starts it; and what is held is started by nobody.

use std::time::Duration;

use openshell_core::journal::Verdict;
use openshell_core::{Generation, Phase, Reason, RestartPolicy};

use super::play::{Luck, Play};
use crate::driver::{EngineEvent, EngineEventKind, Role};
use crate::machine::{Answer, Command, Course, Input};
use crate::ports::SessionEvent;

fn ended(policy: RestartPolicy, code: i32) -> Play {
    let mut play = Play::new(policy);
    play.settle();
    let exit = play.say(SessionEvent::MainExited(code, play.now, String::new()));
    play.tell(&exit);
    play.end(Role::Workload, code);
    play.settle();
    play.pass(Duration::from_secs(5));
    play
}

fn stopped() -> Play {
    let mut play = Play::new(RestartPolicy::Always);
    play.settle();
    play.command(Command::Stop);
    play.settle();
    assert_eq!(play.phase(), Phase::Stopped);
    play.pass(Duration::from_secs(5));
    play
}

fn hold(play: &mut Play) {
    play.tell(&Input::Hold {
        by: "ada".to_owned(),
        reason: "looks odd".to_owned(),
    });
}

fn started(play: &Play) -> Input {
    Input::Event(EngineEvent {
        sandbox: play.state.record.meta.id,
        role: Role::Workload,
        container: play.id(Role::Workload).expect("kept"),
        kind: EngineEventKind::Started,
        time: play.now,
    })
}

#[test]
fn l6_a_stop_of_what_has_ended_asks_the_engine_for_somebody_may_have_started_it() {
    for code in [0, 3] {
        let mut play = ended(RestartPolicy::Never, code);
        play.start_outside(Role::Workload);
        play.command(Command::Stop);
        assert_ne!(
            play.phase(),
            Phase::Stopped,
            "not before the engine says so"
        );
        play.settle();
        assert_eq!(play.phase(), Phase::Stopped);
        assert!(!play.anything_runs());
    }
}

#[test]
fn a_stop_while_a_restart_waits_for_its_time_is_immediate() {
    let mut play = ended(RestartPolicy::Always, 1);
    let exit = play.say(SessionEvent::MainExited(1, play.now, String::new()));
    play.tell(&exit);
    play.end(Role::Workload, 1);
    play.settle();
    assert_eq!(play.reason(), Reason::RestartBackOff);
    play.command(Command::Stop);
    assert_eq!(play.phase(), Phase::Stopped);
}

#[test]
fn l11_what_rests_and_is_started_from_outside_is_stopped_again_and_rests_as_before() {
    let waits = || {
        let mut play = ended(RestartPolicy::Always, 1);
        let exit = play.say(SessionEvent::MainExited(1, play.now, String::new()));
        play.tell(&exit);
        play.end(Role::Workload, 1);
        play.settle();
        play
    };
    for (mut play, at_start) in [
        (ended(RestartPolicy::Never, 0), false),
        (ended(RestartPolicy::Never, 3), false),
        (ended(RestartPolicy::Never, 3), true),
        (stopped(), false),
        (stopped(), true),
        (waits(), false),
    ] {
        let (phase, reason) = (play.phase(), play.reason());
        let generation = play.generation();
        play.pass(Duration::from_millis(1));
        play.start_outside(Role::Workload);
        if at_start {
            play.crash();
            play.find_engine();
        } else {
            let event = started(&play);
            assert_eq!(play.tell(&event).verdict, Verdict::NeedsALook);
        }
        play.settle();
        assert!(!play.anything_runs(), "{phase} {reason}");
        assert_eq!((play.phase(), play.reason()), (phase, reason));
        assert_eq!(play.generation(), generation);
        if reason == Reason::RestartBackOff {
            play.rest();
            assert_eq!(play.phase(), Phase::Ready, "its restart is still due");
        }
    }
}

#[test]
fn l3_the_late_word_of_a_runs_own_start_asks_nothing_when_that_run_is_over() {
    let mut play = Play::new(RestartPolicy::Never);
    play.settle();
    let late = started(&play);
    let exit = play.say(SessionEvent::MainExited(3, play.now, String::new()));
    play.tell(&exit);
    play.end(Role::Workload, 3);
    play.settle();
    assert_eq!(play.phase(), Phase::Error);
    let step = play.tell(&late);
    assert_eq!(step.verdict, Verdict::Stale);
    assert_eq!(step.effects, []);
}

#[test]
fn l11_what_could_not_be_stopped_again_is_tried_until_it_can() {
    let mut play = ended(RestartPolicy::Never, 3);
    let before = play.message().to_owned();
    play.start_outside(Role::Workload);
    let event = started(&play);
    play.tell(&event);
    play.come_out(Luck::Good);
    for _ in 0..30 {
        play.come_out(Luck::Refused);
        play.fire_next();
    }
    assert!(play.anything_runs());
    assert_eq!(
        (play.phase(), play.message()),
        (Phase::Error, before.as_str())
    );
    play.rest();
    assert!(!play.anything_runs());
    assert_eq!(
        (play.phase(), play.message()),
        (Phase::Error, before.as_str())
    );
}

#[test]
fn a_missing_container_is_added_to_the_reason_of_an_error_and_does_not_replace_it() {
    let mut play = ended(RestartPolicy::Never, 3);
    play.remove(Role::Workload);
    play.crash();
    play.find_engine();
    play.settle();
    assert_eq!(
        (play.phase(), play.reason()),
        (Phase::Error, Reason::MainProcessFailed)
    );
    assert!(
        play.message().contains("ended with 3"),
        "{}",
        play.message()
    );
    assert!(
        play.message().contains("no longer exists"),
        "{}",
        play.message()
    );
    play.command(Command::Start);
    play.settle();
    assert_eq!(play.phase(), Phase::Ready);
}

#[test]
fn a_held_sandbox_is_started_by_nobody_until_it_is_released() {
    let mut play = Play::new(RestartPolicy::Always);
    play.settle();
    hold(&mut play);
    assert_eq!(play.phase(), Phase::Stopping);
    play.settle();
    assert_eq!(
        (play.phase(), play.reason()),
        (Phase::Stopped, Reason::Held)
    );
    for command in [Command::Start, Command::Restart] {
        let step = play.command(command);
        assert_eq!(step.verdict, Verdict::Refused);
        let Answer::Refused(message) = step.answer else {
            panic!("refused");
        };
        for word in ["ada", "looks odd", "since", "openshell sandbox release a"] {
            assert!(message.contains(word), "{message}");
        }
    }
    assert_eq!(play.command(Command::Stop).answer, Answer::Accepted);
    play.crash();
    play.find_engine();
    play.rest();
    assert_eq!(
        (play.phase(), play.reason()),
        (Phase::Stopped, Reason::Held)
    );
    play.pass(Duration::from_secs(5));
    play.start_outside(Role::Workload);
    let event = started(&play);
    play.tell(&event);
    play.rest();
    assert_eq!(
        (play.phase(), play.reason()),
        (Phase::Stopped, Reason::Held)
    );
    assert!(!play.anything_runs());
    assert_eq!(play.generation(), Generation(1));
    play.tell(&Input::Release);
    assert_eq!(
        (play.phase(), play.reason()),
        (Phase::Stopped, Reason::StoppedByUser)
    );
    play.rest();
    assert_eq!(play.phase(), Phase::Stopped, "released, not started");
    play.command(Command::Start);
    play.settle();
    assert_eq!(play.phase(), Phase::Ready);
}

#[test]
fn l7_a_hold_stops_from_every_rest_and_a_release_or_a_delete_leads_out() {
    let waiting = || {
        let mut play = ended(RestartPolicy::Always, 1);
        let exit = play.say(SessionEvent::MainExited(1, play.now, String::new()));
        play.tell(&exit);
        play.end(Role::Workload, 1);
        play.settle();
        play
    };
    let pulling = Play::new(RestartPolicy::Never);
    let mut starting = stopped();
    starting.command(Command::Start);
    for play in [
        pulling,
        starting,
        stopped(),
        waiting(),
        ended(RestartPolicy::Never, 0),
        ended(RestartPolicy::Never, 3),
    ] {
        let mut held = play.clone();
        hold(&mut held);
        held.rest();
        assert_eq!(
            (held.phase(), held.reason()),
            (Phase::Stopped, Reason::Held)
        );
        assert!(!held.anything_runs());
        let mut deleted = held.clone();
        deleted.command(Command::Delete);
        deleted.rest();
        assert!(deleted.gone);
        held.tell(&Input::Release);
        held.command(Command::Start);
        held.rest();
        assert_eq!(held.phase(), Phase::Ready);
    }
}

#[test]
fn a_hold_of_what_was_stopped_finds_what_was_started_meanwhile() {
    let mut play = stopped();
    play.start_outside(Role::Workload);
    hold(&mut play);
    play.rest();
    assert!(!play.anything_runs());
    assert_eq!(play.reason(), Reason::Held);
}

#[test]
fn l12_what_is_being_deleted_can_neither_be_held_nor_released() {
    let mut play = stopped();
    play.command(Command::Delete);
    for input in [
        Input::Hold {
            by: String::new(),
            reason: String::new(),
        },
        Input::Release,
    ] {
        assert!(matches!(play.tell(&input).answer, Answer::Refused(_)));
    }
    assert_eq!(play.state.course, Course::Remove);
}
