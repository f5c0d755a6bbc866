//! Ends, stops and failures that overlap. Most of these the model check has found.

use std::time::Duration;

use openshell_core::{Generation, Phase, Reason, RestartPolicy};

use super::play::{Luck, Play};
use crate::driver::Role;
use crate::machine::{Command, Course, Effect, Halt, Input, Then, Timer};
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

#[test]
fn l6_a_stop_outlasts_a_launch_that_cannot_be_given_up() {
    let mut play = Play::new(RestartPolicy::Never);
    play.come_out(Luck::Good);
    play.come_out(Luck::Good);
    assert!(matches!(play.pending.front(), Some(Effect::Launch(..))));
    play.command(Command::Stop);
    due(&mut play, Timer::Deadline);
    assert_eq!(play.phase(), Phase::Stopping);
    play.settle();
    assert_eq!(play.phase(), Phase::Stopped);
    assert!(!play.anything_runs());
}

#[test]
fn l5_what_a_supervisor_says_after_a_failed_stop_starts_nothing_and_hides_nothing() {
    for event in [
        SessionEvent::Failed("LinkLost".to_owned(), "gone".to_owned()),
        SessionEvent::MainExited(17, jiff::Timestamp::UNIX_EPOCH, String::new()),
    ] {
        let mut play = ready(RestartPolicy::Always);
        play.command(Command::Stop);
        due(&mut play, Timer::Deadline);
        assert_eq!(play.reason(), Reason::StopFailed);
        let said = play.say(event);
        play.tell(&said);
        assert_eq!(play.reason(), Reason::StopFailed);
        assert_eq!(play.state.course, Course::Rest);
        assert_eq!(play.generation(), Generation(1));
    }
}

#[test]
fn l17_a_failure_that_was_published_is_not_turned_into_a_completion() {
    let mut play = ready(RestartPolicy::Never);
    let ended = play.say(SessionEvent::MainExited(0, play.now, String::new()));
    play.tell(&ended);
    due(&mut play, Timer::ExitConfirmation);
    play.come_out(Luck::Good);
    assert_eq!(play.phase(), Phase::Stopping);
    due(&mut play, Timer::Deadline);
    assert_eq!(play.phase(), Phase::Error);
    play.rest();
    assert_eq!(play.phase(), Phase::Error);
    assert_eq!(play.reason(), Reason::MainProcessCompleted);
    assert!(!play.anything_runs());
}

#[test]
fn an_order_to_thaw_that_went_to_a_broken_session_is_given_again() {
    let mut play = ready(RestartPolicy::Never);
    play.lose_engine("end of stream");
    due(&mut play, Timer::Outage);
    assert!(play.state.frozen);
    // Its connection is broken already, and the machine has not heard of that.
    play.find_engine();
    while play.come_out(Luck::Good).is_some() {}
    assert_eq!(play.phase(), Phase::Ready);
    let opened = play.open();
    let step = play.tell(&opened);
    assert!(step.effects.contains(&Effect::Freeze(false)));
}

#[test]
fn l9_a_main_that_ended_by_itself_before_the_gateway_was_told_to_end_is_not_run_again() {
    for reported in [false, true] {
        let mut play = ready(RestartPolicy::Never);
        play.end(Role::Workload, 0);
        if reported {
            let ended = play.say(SessionEvent::MainExited(0, play.now, String::new()));
            play.tell(&ended);
        }
        play.pass(Duration::from_secs(1));
        play.tell(&Input::Park);
        while play.come_out(Luck::Good).is_some() {}
        play.crash();
        play.rest();
        assert_eq!(play.phase(), Phase::Completed, "{reported}");
        assert_eq!(play.generation(), Generation(1));
    }
}

#[test]
fn l11_a_containment_under_way_keeps_its_reason_when_the_gateway_ends_with_its_runs() {
    let mut play = ready(RestartPolicy::Never);
    play.end(Role::Supervisor, 137);
    play.observe();
    play.come_out(Luck::Good);
    assert!(matches!(
        play.state.course,
        Course::Halt(Halt {
            then: Then::Settle(_),
            ..
        })
    ));
    play.tell(&Input::Park);
    while play.come_out(Luck::Good).is_some() {}
    play.crash();
    play.rest();
    assert_eq!(play.phase(), Phase::Error);
    assert_eq!(play.reason(), Reason::ControlSupervisorExited);
    assert_eq!(play.generation(), Generation(1));
}

#[test]
fn l9_a_main_that_ends_while_a_restarted_gateway_asks_and_the_host_goes_down_had_ended_by_itself() {
    let mut play = ready(RestartPolicy::Never);
    play.crash();
    // The workload was alive when the engine was asked, and is not when the answer comes.
    let look = play.pending.pop_front().expect("the workload is asked for");
    let answer = play.outcome(look, Luck::Good);
    play.end(Role::Workload, 0);
    play.pass(Duration::from_secs(5));
    play.end(Role::Supervisor, 255);
    play.tell(&answer);
    play.rest();
    assert_eq!(play.phase(), Phase::Completed);
    assert_eq!(play.generation(), Generation(1));
}

#[test]
fn l9_an_unreported_end_is_judged_by_what_became_of_the_supervisor_meanwhile() {
    let mut play = ready(RestartPolicy::Never);
    play.crash();
    // The supervisor was alive when the engine was asked, and is not when its report is overdue.
    play.pending.rotate_left(1);
    let look = play
        .pending
        .pop_front()
        .expect("the supervisor is asked for");
    let answer = play.outcome(look, Luck::Good);
    play.end(Role::Workload, 0);
    play.pass(Duration::from_secs(5));
    play.end(Role::Supervisor, 255);
    play.tell(&answer);
    play.rest();
    assert_eq!(play.phase(), Phase::Completed);
    assert_eq!(play.generation(), Generation(1));
}

#[test]
fn l16_a_link_that_is_lost_while_a_run_is_proven_is_not_awaited_for_ever() {
    let mut play = ready(RestartPolicy::Never);
    play.crash();
    let opened = play.open();
    play.tell(&opened);
    let lost = play.say(SessionEvent::Link(false));
    play.tell(&lost);
    while play.come_out(Luck::Good).is_some() {}
    assert_eq!(play.state.course, Course::Run);
    due(&mut play, Timer::Adoption);
    play.settle();
    assert!(play.phase() != Phase::Ready || play.generation() != Generation(1));
}

#[test]
fn l9_a_confirmed_end_is_not_taken_for_the_loss_of_a_supervisor_that_is_awaited() {
    let mut play = ready(RestartPolicy::OnFailure);
    play.end(Role::Workload, 0);
    let lost = play.say(SessionEvent::Link(false));
    play.tell(&lost);
    due(&mut play, Timer::SessionGrace);
    while play.come_out(Luck::Good).is_some() {}
    due(&mut play, Timer::Adoption);
    play.rest();
    assert_eq!(play.phase(), Phase::Completed);
    assert_eq!(play.generation(), Generation(1));
}
