//! What a gateway makes of a record that it finds: each situation that one may leave behind (L2, L9).

use std::time::Duration;

use openshell_core::{Generation, Phase, Reason, RestartPolicy};

use super::play::{Luck, Play};
use crate::driver::{Containers, Role};
use crate::machine::{Command, Course, Effect, Halt, Input, Stage, Then, Timer};
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
fn l6_a_stop_that_had_failed_rests_and_one_that_was_under_way_goes_on() {
    let mut play = ready(RestartPolicy::Never);
    play.command(Command::Stop);
    let mut under_way = play.clone();
    due(&mut play, Timer::Deadline);
    assert_eq!(play.reason(), Reason::StopFailed);
    play.crash();
    assert_eq!((&play.state.course, play.pending.len()), (&Course::Rest, 0));
    assert_eq!(play.reason(), Reason::StopFailed);
    under_way.crash();
    assert!(matches!(
        under_way.state.course,
        Course::Halt(Halt {
            then: Then::Stopped,
            ..
        })
    ));
    under_way.settle();
    assert_eq!(under_way.phase(), Phase::Stopped);
    // Stopped for good: nothing is under way.
    under_way.crash();
    assert_eq!(
        (&under_way.state.course, under_way.pending.len()),
        (&Course::Rest, 0)
    );
}

#[test]
fn l7_a_record_that_says_stopping_without_an_operation_is_stopped_all_the_same() {
    let mut play = ready(RestartPolicy::Never);
    play.command(Command::Stop);
    play.state.record.life.operation = None;
    play.crash();
    play.settle();
    assert_eq!(play.phase(), Phase::Stopped);
    assert!(!play.anything_runs());
}

#[test]
fn l11_what_could_not_be_contained_is_contained_by_the_next_gateway() {
    let mut play = ready(RestartPolicy::Never);
    play.end(Role::Supervisor, 137);
    play.observe();
    play.come_out(Luck::Good);
    due(&mut play, Timer::Deadline);
    assert_eq!(
        (play.phase(), play.reason()),
        (Phase::Error, Reason::ControlSupervisorExited)
    );
    assert!(play.anything_runs());
    play.crash();
    assert!(matches!(
        play.pending.front(),
        Some(Effect::StopWorkload(..))
    ));
    play.rest();
    assert!(!play.anything_runs());
    assert_eq!(
        (play.phase(), play.reason()),
        (Phase::Error, Reason::ControlSupervisorExited)
    );
    // And then there is nothing to do any more.
    play.crash();
    assert_eq!((&play.state.course, play.pending.len()), (&Course::Rest, 0));
}

#[test]
fn l13_a_create_of_which_nothing_is_recorded_is_begun_with_the_removal_of_what_it_may_have_made() {
    let mut play = Play::new(RestartPolicy::Never);
    play.come_out(Luck::Good);
    play.crash();
    let nothing = Containers {
        workload: None,
        supervisor: None,
    };
    assert!(matches!(play.pending.front(), Some(Effect::RemoveAll(_, c)) if *c == nothing));
    play.rest();
    assert_eq!(play.phase(), Phase::Ready);
}

#[test]
fn l7_a_create_whose_workload_is_recorded_goes_on_with_it() {
    let mut play = Play::new(RestartPolicy::Never);
    play.come_out(Luck::Good);
    play.come_out(Luck::Good);
    let kept = play.id(Role::Workload);
    play.come_out(Luck::Unreachable);
    while play.come_out(Luck::Good).is_some() {}
    assert_eq!(
        play.generation(),
        Generation(2),
        "the launch had not happened"
    );
    assert!(play.id(Role::Supervisor).is_none());
    play.crash();
    assert_eq!(play.state.course, Course::Bring(Stage::Prepare));
    play.rest();
    assert_eq!(
        (play.phase(), play.id(Role::Workload)),
        (Phase::Ready, kept)
    );
}

#[test]
fn l13_a_start_of_which_nothing_is_recorded_has_nothing_to_remove() {
    let mut play = ready(RestartPolicy::Never);
    play.command(Command::Stop);
    play.settle();
    play.remove(Role::Workload);
    play.find_engine();
    play.settle();
    assert_eq!(play.id(Role::Workload), None);
    play.command(Command::Start);
    play.crash();
    assert_eq!(play.state.course, Course::Bring(Stage::Image));
    assert!(
        !play
            .pending
            .iter()
            .any(|e| matches!(e, Effect::RemoveAll(..)))
    );
    play.rest();
    assert_eq!(
        (play.phase(), play.reason()),
        (Phase::Ready, Reason::Running)
    );
}

#[test]
fn l9_an_end_of_this_run_is_this_runs_however_late_the_engines_clock_is() {
    let mut play = Play::new(RestartPolicy::Never);
    play.come_out(Luck::Good);
    play.come_out(Luck::Good);
    // The engine's clock is an hour late.
    let now = play.now;
    play.now = now
        .checked_sub(jiff::SignedDuration::from_hours(1))
        .expect("a time");
    play.come_out(Luck::Good);
    let engines = play.now;
    play.now = now;
    play.settle();
    assert_eq!(play.phase(), Phase::Ready);
    play.command(Command::Restart);
    play.state.record.life.operation = None;
    play.end_at(
        Role::Workload,
        3,
        crate::time::after(engines, Duration::from_secs(9)),
    );
    play.end(Role::Supervisor, 0);
    play.crash();
    play.rest();
    assert!(!play.anything_runs());
}

#[test]
fn l17_a_parked_run_that_comes_back_says_so_and_keeps_the_count_of_its_crash_loop() {
    let mut play = ready(RestartPolicy::Always);
    let ended = play.say(SessionEvent::MainExited(1, play.now, String::new()));
    play.tell(&ended);
    play.end(Role::Workload, 1);
    play.settle();
    assert_eq!(
        (play.generation(), play.state.record.life.restart.count),
        (Generation(2), 1)
    );
    play.tell(&Input::Park);
    while play.come_out(Luck::Good).is_some() {}
    play.crash();
    assert_eq!(
        (play.phase(), play.generation()),
        (Phase::Starting, Generation(3))
    );
    assert!(
        play.message().ends_with("; it is being brought back"),
        "{}",
        play.message()
    );
    assert_eq!(play.state.record.life.restart.count, 1);
}

#[test]
fn l9_what_ends_in_the_very_moment_of_parking_was_ended_by_it() {
    for (before, generation) in [(0, 2), (1, 1)] {
        let mut play = ready(RestartPolicy::Never);
        play.end(Role::Workload, 0);
        play.pass(Duration::from_nanos(before));
        play.tell(&Input::Park);
        while play.come_out(Luck::Good).is_some() {}
        play.crash();
        play.rest();
        assert_eq!(
            play.generation(),
            Generation(generation),
            "{before} ns before"
        );
    }
}
