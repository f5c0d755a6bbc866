//! What a loss is taken for: the supervisor's, main's own end, or the engine's.

use std::time::Duration;

use openshell_core::{ExitCause, Generation, Phase, Reason, RestartPolicy};

use super::play::{Luck, Play};
use crate::driver::{Role, WaitOutcome};
use crate::machine::{Command, Input};
use crate::ports::SessionEvent;

fn ready(policy: RestartPolicy) -> Play {
    let mut play = Play::new(policy);
    play.settle();
    assert_eq!(play.phase(), Phase::Ready);
    play
}

#[test]
fn a_supervisor_that_died_while_the_engine_was_out_of_sight_is_a_loss_whichever_half_is_heard_first()
 {
    for supervisor_first in [false, true] {
        let mut play = ready(RestartPolicy::Never);
        play.lose_engine("end of stream");
        play.end(Role::Supervisor, 137);
        play.find_engine();
        if supervisor_first {
            play.pending.rotate_left(1);
        }
        play.rest();
        assert_eq!(play.phase(), Phase::Error, "{supervisor_first}");
        assert_eq!(play.reason(), Reason::ControlSupervisorExited);
        assert_eq!(play.generation(), Generation(1));
        assert!(!play.anything_runs());
    }
}

#[test]
fn an_engine_that_is_lost_again_before_its_events_are_heard_is_said_to_be_out_of_sight() {
    let mut play = ready(RestartPolicy::Never);
    // Its events are not heard at all: only the waits break, and the questions that follow.
    for (incarnation, role) in play.state.watching.clone() {
        let lost = WaitOutcome::Lost("end of stream".to_owned());
        play.tell(&Input::Waited(role, incarnation, lost));
    }
    assert_eq!(play.message(), "running");
    assert!(play.fire_next());
    let looks = play.pending.len();
    assert!(looks > 0);
    for _ in 0..looks {
        play.come_out(Luck::Unreachable);
    }
    assert_eq!(play.phase(), Phase::Ready);
    assert!(
        play.message().contains("out of sight"),
        "{}",
        play.message()
    );
    play.find_engine();
    play.settle();
    assert_eq!((play.phase(), play.message()), (Phase::Ready, "running"));
}

#[test]
fn both_halves_that_ended_well_apart_are_judged_alike_whichever_is_heard_first() {
    for supervisor_first in [false, true] {
        let mut play = ready(RestartPolicy::Never);
        play.lose_engine("end of stream");
        play.end(Role::Supervisor, 137);
        play.pass(Duration::from_secs(5));
        play.end(Role::Workload, 137);
        play.find_engine();
        if supervisor_first {
            play.pending.rotate_left(1);
        }
        play.rest();
        assert_eq!(play.phase(), Phase::Error, "{supervisor_first}");
        assert_eq!(play.reason(), Reason::ControlSupervisorExited);
    }
}

#[test]
fn an_adopted_run_is_a_run_like_any_other_once_it_is_proven() {
    let mut play = ready(RestartPolicy::Never);
    play.crash();
    play.settle();
    assert_eq!(play.reason(), Reason::Adopted);
    play.end(Role::Supervisor, 137);
    play.rest();
    assert_eq!(play.phase(), Phase::Error);
    assert_eq!(play.reason(), Reason::ControlSupervisorExited);
    assert_eq!(play.generation(), Generation(1));
}

#[test]
fn l9_a_main_that_was_reported_to_have_ended_before_the_host_went_down_goes_to_the_policy() {
    for (code, phase) in [(0, Phase::Completed), (17, Phase::Error)] {
        let mut play = ready(RestartPolicy::Never);
        let report = play.say(SessionEvent::MainExited(code, play.now, String::new()));
        play.tell(&report);
        play.end(Role::Workload, 255);
        play.end(Role::Supervisor, 255);
        play.crash();
        play.rest();
        assert_eq!(play.phase(), phase, "{code}");
        let exit = play.state.record.life.last_exit.clone().expect("recorded");
        assert_eq!((exit.code, exit.cause), (code, ExitCause::Main));
        assert_eq!(play.generation(), Generation(1));
    }
}

#[test]
fn l9_a_main_that_was_reported_to_have_ended_is_not_relaunched_because_its_container_is_gone_or_taken()
 {
    for restarted in [false, true] {
        let mut play = ready(RestartPolicy::Never);
        let report = play.say(SessionEvent::MainExited(0, play.now, String::new()));
        play.tell(&report);
        play.end(Role::Workload, 0);
        play.end(Role::Supervisor, 0);
        play.pass(Duration::from_secs(5));
        if restarted {
            play.start_outside(Role::Workload);
        } else {
            play.remove(Role::Workload);
        }
        play.crash();
        play.rest();
        assert_eq!(play.phase(), Phase::Completed, "{restarted}");
        assert_eq!(play.generation(), Generation(1));
        assert!(!play.anything_runs());
    }
}

#[test]
fn l9_a_main_that_ended_unreported_well_before_the_host_went_down_goes_to_the_policy() {
    for (code, phase) in [(0, Phase::Completed), (17, Phase::Error)] {
        let mut play = ready(RestartPolicy::Never);
        play.end(Role::Workload, code);
        play.pass(Duration::from_secs(60));
        play.end(Role::Supervisor, 137);
        play.crash();
        play.rest();
        assert_eq!(play.phase(), phase, "{code}");
        assert_eq!(play.generation(), Generation(1));
    }
}

#[test]
fn an_end_that_nobody_saw_after_the_engine_was_away_is_infrastructure() {
    for code in [0, 255, 137, 143] {
        for gateway_away in [true, false] {
            let mut play = ready(RestartPolicy::Never);
            if !gateway_away {
                play.lose_engine("end of stream");
            }
            play.end(Role::Workload, code);
            play.end(Role::Supervisor, code);
            if gateway_away {
                play.crash();
            } else {
                play.find_engine();
            }
            play.rest();
            assert_eq!(play.phase(), Phase::Ready, "{code} {gateway_away}");
            assert_eq!(play.generation(), Generation(2), "relaunched");
            assert_eq!(play.reason(), Reason::Restored);
        }
    }
}

#[test]
fn an_engine_that_goes_down_while_it_tells_of_the_supervisors_end_is_not_a_lost_supervisor() {
    let mut play = ready(RestartPolicy::Never);
    play.end(Role::Supervisor, 143);
    play.observe();
    play.come_out(Luck::Good);
    assert_eq!(
        play.phase(),
        Phase::Stopping,
        "contained, as far as is known"
    );
    play.come_out(Luck::Unreachable);
    play.pass(Duration::from_secs(3));
    play.end(Role::Workload, 137);
    play.pass(Duration::from_secs(1));
    play.find_engine();
    play.rest();
    assert_eq!(play.phase(), Phase::Ready);
    assert_eq!(play.generation(), Generation(2));
}

#[test]
fn l6_a_stop_during_an_outage_fails_in_time_stays_stoppable_and_goes_on_when_the_engine_is_back() {
    let mut play = ready(RestartPolicy::Always);
    play.lose_engine("connection reset");
    play.command(Command::Stop);
    while play.phase() == Phase::Stopping {
        if play.come_out(Luck::Unreachable).is_none() {
            assert!(play.fire_next(), "it has a deadline");
        }
    }
    assert_eq!(
        (play.phase(), play.reason()),
        (Phase::Error, Reason::StopFailed)
    );
    assert!(
        play.message().contains("connection reset"),
        "{}",
        play.message()
    );
    assert!(
        play.message().contains("openshell sandbox stop a"),
        "{}",
        play.message()
    );
    let mut again = play.clone();
    again.command(Command::Stop);
    again.settle();
    assert_eq!(again.phase(), Phase::Stopped);
    play.find_engine();
    play.rest();
    assert_eq!(play.phase(), Phase::Stopped);
    assert!(!play.anything_runs());
}

#[test]
fn while_an_outage_lasts_its_first_cause_stays_in_the_message() {
    let mut play = ready(RestartPolicy::Never);
    play.lose_engine("end of stream");
    play.lose_engine("connection refused");
    assert!(
        play.message().contains("end of stream"),
        "{}",
        play.message()
    );
    while play.phase() == Phase::Ready {
        assert!(play.fire_next());
        while play.come_out(Luck::Unreachable).is_some() {}
    }
    assert_eq!(play.phase(), Phase::Unknown);
    assert!(
        play.message().contains("end of stream"),
        "{}",
        play.message()
    );
    play.lose_engine("connection refused");
    assert!(play.message().contains("frozen"), "{}", play.message());
    assert!(
        play.message().contains("end of stream"),
        "{}",
        play.message()
    );
    play.find_engine();
    play.rest();
    assert_eq!((play.phase(), play.message()), (Phase::Ready, "running"));
    // The next outage has a cause of its own.
    play.lose_engine("broken pipe");
    assert!(play.message().contains("broken pipe"), "{}", play.message());
}

#[test]
fn a_restore_that_cannot_ask_keeps_the_first_cause_too() {
    let mut play = ready(RestartPolicy::Never);
    play.crash();
    for _ in 0..6 {
        while play.come_out(Luck::Unreachable).is_some() {}
        play.fire_next();
    }
    assert_eq!(play.reason(), Reason::EngineUnreachable);
    assert!(play.message().contains("scripted"), "{}", play.message());
    play.rest();
    assert_eq!(play.phase(), Phase::Ready);
}

#[test]
fn a_main_that_the_engine_told_to_end_on_its_way_down_is_relaunched() {
    for lost_before_confirmed in [false, true] {
        let mut play = ready(RestartPolicy::Never);
        let told = play.say(SessionEvent::MainStopped(143, play.now));
        play.tell(&told);
        play.end(Role::Workload, 143);
        if !lost_before_confirmed {
            play.settle();
            assert_eq!(
                (play.phase(), play.reason()),
                (Phase::Stopping, Reason::ContainerStopped)
            );
        }
        play.lose_engine("end of stream");
        play.end(Role::Supervisor, 0);
        play.pass(Duration::from_secs(40));
        play.find_engine();
        play.rest();
        assert_eq!(play.phase(), Phase::Ready, "{lost_before_confirmed}");
        assert_eq!(play.generation(), Generation(2));
    }
}

#[test]
fn a_main_that_somebody_told_to_end_goes_to_the_policy_when_the_engine_stays() {
    let told = |policy| {
        let mut play = ready(policy);
        let told = play.say(SessionEvent::MainStopped(143, play.now));
        play.tell(&told);
        play.end(Role::Workload, 143);
        play.end(Role::Supervisor, 0);
        play.settle();
        play
    };
    let mut play = told(RestartPolicy::Never);
    play.rest();
    assert_eq!(
        (play.phase(), play.reason()),
        (Phase::Error, Reason::ContainerStopped)
    );
    let mut play = told(RestartPolicy::OnFailure);
    play.rest();
    assert_eq!(play.phase(), Phase::Ready);
    assert_eq!(play.state.record.life.restart.count, 1);
    // A user need not wait for what the gateway waits for.
    for command in [Command::Start, Command::Restart, Command::Stop] {
        let mut play = told(RestartPolicy::Never);
        play.command(command);
        play.settle();
        let expected = if command == Command::Stop {
            Phase::Stopped
        } else {
            Phase::Ready
        };
        assert_eq!(play.phase(), expected, "{command:?}");
    }
}

#[test]
fn l8_a_main_that_somebody_told_to_end_and_whose_container_was_started_again_is_not_the_engines_doing()
 {
    let mut play = ready(RestartPolicy::Never);
    let told = play.say(SessionEvent::MainStopped(143, play.now));
    play.tell(&told);
    play.end(Role::Workload, 143);
    play.pass(Duration::from_secs(1));
    play.start_outside(Role::Workload);
    play.end(Role::Workload, 70);
    play.settle();
    play.rest();
    assert_eq!(
        (play.phase(), play.reason()),
        (Phase::Error, Reason::ContainerStopped),
        "{}",
        play.message()
    );
    assert_eq!(play.generation(), Generation(1));
}

#[test]
fn a_link_that_is_lost_is_not_called_a_session_that_is_lost() {
    for (event, words) in [
        (SessionEvent::Link(false), "the link"),
        (
            SessionEvent::Closed("cut".to_owned()),
            "the supervisor's session",
        ),
    ] {
        let mut play = ready(RestartPolicy::Never);
        let said = play.say(event);
        play.tell(&said);
        while play.phase() == Phase::Ready {
            assert!(play.fire_next(), "it is not awaited for ever");
        }
        assert_eq!(play.reason(), Reason::SupervisorNotConnected);
        assert!(play.message().starts_with(words), "{}", play.message());
    }
}

#[test]
fn l1_a_run_that_ends_after_a_failed_stop_is_stopped_and_not_brought_back() {
    let mut play = ready(RestartPolicy::Always);
    play.lose_engine("connection reset");
    play.command(Command::Stop);
    while play.phase() == Phase::Stopping {
        if play.come_out(Luck::Unreachable).is_none() {
            assert!(play.fire_next(), "it has a deadline");
        }
    }
    assert_eq!(play.reason(), Reason::StopFailed);
    let gave_up = SessionEvent::Failed("LinkLost".to_owned(), "the link is lost".to_owned());
    play.tell(&play.say(gave_up));
    play.find_engine();
    play.rest();
    assert_eq!(play.phase(), Phase::Stopped);
    assert_eq!(play.generation(), Generation(1));
    assert!(!play.anything_runs());
}

#[test]
fn l13_an_answer_about_what_is_being_removed_does_not_conclude_the_removal() {
    let mut play = Play::new(RestartPolicy::Never);
    for _ in 0..3 {
        play.come_out(Luck::Good);
    }
    play.end(Role::Supervisor, 70);
    play.end(Role::Workload, 70);
    play.observe();
    let gave_up = SessionEvent::Failed("LinkLost".to_owned(), "the link is lost".to_owned());
    play.tell(&play.say(gave_up));
    play.rest();
    assert_eq!(play.phase(), Phase::Error);
    assert_eq!(play.containers(), 0);
    assert_eq!(
        play.state.record.life.run, None,
        "nothing is recorded that is gone"
    );
}
