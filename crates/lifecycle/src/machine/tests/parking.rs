//! The gateway ends, and runs with it: what that ends, what it leaves, and what is taken up again (L9).

use std::time::Duration;

use openshell_core::journal::Verdict;
use openshell_core::{Generation, Intent, OperationKind, Phase, Reason, RestartPolicy};

use super::play::{Luck, Play};
use crate::config::FenceConfig;
use crate::driver::Role;
use crate::machine::{Activity, Command, Course, Effect, Halt, Input, Step, Then, Timer, Work};
use crate::ports::SessionEvent;
use crate::time::after;

fn ready(policy: RestartPolicy) -> Play {
    let mut play = Play::new(policy);
    play.settle();
    assert_eq!(play.phase(), Phase::Ready);
    play
}

fn park(play: &mut Play) -> Step {
    play.tell(&Input::Park)
}

fn work(play: &Play) -> Option<Work> {
    play.state.activity.map(|a: Activity| a.work)
}

fn after_a_restart_of_the_gateway(mut play: Play) -> Play {
    while play.come_out(Luck::Good).is_some() {}
    play.crash();
    play.rest();
    play
}

#[test]
fn l16_a_parked_run_is_stopped_within_the_shutdowns_bound_and_shows_why() {
    let mut play = ready(RestartPolicy::Never);
    let step = park(&mut play);
    assert_eq!(
        (play.phase(), play.reason()),
        (Phase::Stopping, Reason::ContainerRuntimeRestart)
    );
    assert_eq!(
        (step.verdict, step.note.as_str()),
        (Verdict::Accepted, "it is stopped together with the gateway")
    );
    let grace = FenceConfig::default().stop_grace;
    assert!(matches!(step.effects[..], [Effect::StopWorkload(_, _, g)] if g == grace));
    let limit = after(play.now, FenceConfig::default().shutdown_limit());
    assert_eq!(play.state.timers.get(&Timer::Deadline), Some(&limit));
    play.come_out(Luck::Good);
    assert_eq!(
        (play.phase(), play.reason(), &play.state.course),
        (
            Phase::Starting,
            Reason::ContainerRuntimeRestart,
            &Course::Rest
        )
    );
    let workload = play.id(Role::Workload).expect("it is kept");
    assert!(!play.runs(&workload));
    assert_eq!(play.state.record.life.intent, Intent::Running);
    let play = after_a_restart_of_the_gateway(play);
    assert_eq!(
        (play.phase(), play.reason(), play.generation()),
        (Phase::Ready, Reason::Restored, Generation(2))
    );
}

#[test]
fn l1_parking_leaves_alone_what_its_user_has_stopped_or_deleted() {
    for (command, course) in [
        (Command::Stop, None),
        (Command::Delete, Some(Course::Remove)),
    ] {
        let mut play = ready(RestartPolicy::Never);
        play.command(command);
        let before = play.state.clone();
        let step = park(&mut play);
        assert_eq!((&step.state, &step.effects), (&before, &Vec::new()));
        assert!(!play.state.parking && !step.journaled, "{command:?}");
        assert!(course.is_none_or(|c| c == play.state.course));
    }
}

#[test]
fn l17_parking_changes_nothing_of_what_rests_but_begins_no_restart_any_more() {
    let mut play = ready(RestartPolicy::Never);
    let ended = play.say(SessionEvent::MainExited(3, play.now, String::new()));
    play.tell(&ended);
    play.end(Role::Workload, 3);
    play.settle();
    assert_eq!(play.phase(), Phase::Error);
    let before = play.state.record.clone();
    let step = park(&mut play);
    assert_eq!((&step.state.record, &step.effects), (&before, &Vec::new()));
    assert!(step.state.parking && step.state.timers.is_empty());
}

#[test]
fn l9_a_restart_that_falls_due_while_the_gateway_ends_is_left_to_the_next() {
    let mut play = ready(RestartPolicy::Always);
    for _ in 0..2 {
        let ended = play.say(SessionEvent::MainExited(1, play.now, String::new()));
        play.tell(&ended);
        play.end(Role::Workload, 1);
        play.settle();
    }
    assert_eq!(play.reason(), Reason::RestartBackOff);
    let (generation, next) = (play.generation(), play.state.record.life.restart.next);
    park(&mut play);
    assert!(play.fire_next(), "the restart falls due");
    assert_eq!(play.generation(), generation);
    assert_eq!(play.state.course, Course::Rest);
    assert_eq!(play.state.record.life.restart.next, next);
    let play = after_a_restart_of_the_gateway(play);
    assert_eq!(
        (play.phase(), play.generation()),
        (Phase::Ready, generation.next())
    );
}

#[test]
fn l9_a_containment_that_ends_while_the_gateway_does_begins_no_restart_at_once() {
    let mut play = ready(RestartPolicy::OnFailure);
    play.end(Role::Supervisor, 137);
    play.observe();
    play.come_out(Luck::Good);
    let stop = play.state.activity;
    assert_eq!(work(&play), Some(Work::Stop));
    let step = park(&mut play);
    assert_eq!(step.note, "its run is being ended already");
    assert_eq!((step.effects, play.state.activity), (Vec::new(), stop));
    while play.come_out(Luck::Good).is_some() {}
    assert_eq!(
        (play.phase(), play.reason(), play.generation()),
        (Phase::Starting, Reason::RestartBackOff, Generation(1))
    );
    assert_eq!(play.state.record.life.restart.count, 1);
    let play = after_a_restart_of_the_gateway(play);
    assert_eq!(
        (play.phase(), play.generation()),
        (Phase::Ready, Generation(2))
    );
    assert_eq!(play.state.record.life.restart.count, 1);
}

#[test]
fn l2_a_start_that_is_parked_before_anything_runs_is_taken_up_by_the_next_gateway() {
    let mut play = Play::new(RestartPolicy::Never);
    let operation = play.state.record.life.operation.clone();
    let ticket = play.state.activity.expect("a pull").ticket;
    let step = park(&mut play);
    assert_eq!(step.effects, [Effect::Cancel(ticket)]);
    assert_eq!(play.state.course, Course::Rest);
    assert_eq!(play.phase(), Phase::Provisioning);
    assert_eq!(play.state.record.life.operation, operation);
    let play = after_a_restart_of_the_gateway(play);
    assert_eq!(play.phase(), Phase::Ready);
    assert_eq!(play.launched.len(), 1);
}

#[test]
fn l10_a_launch_that_is_parked_comes_out_first_and_is_then_stopped() {
    for lost in [false, true] {
        let mut play = Play::new(RestartPolicy::Never);
        play.come_out(Luck::Good);
        play.come_out(Luck::Good);
        let step = park(&mut play);
        assert_eq!(step.effects, [], "a launch cannot be given up");
        assert_eq!(work(&play), Some(Work::Launch));
        assert_eq!(play.phase(), Phase::Provisioning, "it was not Ready");
        play.come_out(if lost { Luck::Lost } else { Luck::Good });
        assert_eq!(work(&play), Some(Work::Stop), "lost: {lost}");
        while play.come_out(Luck::Good).is_some() {}
        assert!(!play.anything_runs());
        assert_eq!(play.phase(), Phase::Starting);
        let play = after_a_restart_of_the_gateway(play);
        assert_eq!(
            (play.phase(), play.generation()),
            (Phase::Ready, Generation(2))
        );
    }
}

#[test]
fn l6_a_stop_that_is_under_way_goes_on_and_only_what_follows_is_another() {
    for command in [Command::Restart, Command::Stop] {
        let mut play = ready(RestartPolicy::Never);
        play.command(Command::Restart);
        let stop = play.state.activity;
        let step = match command {
            Command::Stop => play.command(Command::Stop),
            _ => park(&mut play),
        };
        assert_eq!((step.effects, play.state.activity), (Vec::new(), stop));
        let Course::Halt(Halt { then, .. }) = &play.state.course else {
            panic!("it is still being stopped");
        };
        match command {
            Command::Stop => assert_eq!(then, &Then::Stopped),
            _ => assert_eq!(then, &Then::Park(play.now)),
        }
        play.come_out(Luck::Good);
        assert_eq!(play.state.course, Course::Rest);
        assert_eq!(play.generation(), Generation(1), "no new run follows");
    }
}

#[test]
fn l11_what_somebody_else_started_is_stopped_again_also_while_the_gateway_ends() {
    let mut play = ready(RestartPolicy::Never);
    let ended = play.say(SessionEvent::MainExited(3, play.now, String::new()));
    play.tell(&ended);
    play.end(Role::Workload, 3);
    play.settle();
    play.start_outside(Role::Workload);
    play.find_engine();
    play.come_out(Luck::Good);
    let before = play.state.course.clone();
    assert!(matches!(
        &before,
        Course::Halt(Halt {
            then: Then::Rest,
            ..
        })
    ));
    let step = park(&mut play);
    assert_eq!((&step.state.course, step.effects.len()), (&before, 0));
    while play.come_out(Luck::Good).is_some() {}
    assert!(!play.anything_runs());
    assert_eq!(
        (play.phase(), play.reason()),
        (Phase::Error, Reason::MainProcessFailed)
    );
}

#[test]
fn l6_a_park_that_the_engine_does_not_confirm_in_time_says_so_and_the_next_gateway_asks() {
    let mut play = ready(RestartPolicy::Never);
    park(&mut play);
    let ticket = play.state.activity.expect("a stop").ticket;
    play.pass(FenceConfig::default().shutdown_limit());
    let step = play.tell(&Input::Timer(Timer::Deadline));
    assert_eq!(step.effects, [Effect::Cancel(ticket)]);
    assert_eq!(step.finished, [], "no operation of its user's was given up");
    assert_eq!(
        (play.phase(), play.reason(), &play.state.course),
        (
            Phase::Provisioning,
            Reason::ContainerRuntimeRestart,
            &Course::Rest
        )
    );
    assert!(
        play.message()
            .starts_with("it could not be stopped together with the gateway: "),
        "{}",
        play.message()
    );
    let play = after_a_restart_of_the_gateway(play);
    assert_eq!(
        (play.phase(), play.generation()),
        (Phase::Ready, Generation(1)),
        "it runs still, and is adopted"
    );
}

#[test]
fn l16_a_park_that_cannot_reach_the_engine_is_tried_until_its_deadline_and_no_longer() {
    let mut play = ready(RestartPolicy::Never);
    park(&mut play);
    play.come_out(Luck::Unreachable);
    assert!(play.state.timers.contains_key(&Timer::Retry));
    play.pass(FenceConfig::default().shutdown_limit());
    play.tell(&Input::Timer(Timer::Deadline));
    assert_eq!(play.state.course, Course::Rest);
    assert!(!play.state.timers.contains_key(&Timer::Retry));
    assert!(play.message().contains("scripted"), "{}", play.message());
}

#[test]
fn l17_a_parked_operation_is_over_and_said_to_be_parked() {
    let mut play = ready(RestartPolicy::Never);
    play.command(Command::Restart);
    park(&mut play);
    let step = play.come_out(Luck::Good).expect("the stop comes out");
    assert_eq!(step.finished, [(OperationKind::Restart, "parked")]);
    assert_eq!(play.state.record.life.operation, None);
}

#[test]
fn l11_what_is_out_of_sight_and_frozen_is_stopped_and_waits_for_nothing_else() {
    for park_it in [false, true] {
        let mut play = ready(RestartPolicy::Never);
        play.lose_engine("gone");
        while play.phase() == Phase::Ready {
            play.fire_next();
            while play.come_out(Luck::Unreachable).is_some() {}
        }
        assert!(play.state.frozen);
        play.tell(&Input::Timer(Timer::Look));
        let step = if park_it {
            park(&mut play)
        } else {
            play.command(Command::Restart)
        };
        // Not thawed by that: what cannot be observed is not set free in order to be stopped.
        assert!(!step.effects.iter().any(|e| matches!(e, Effect::Freeze(_))));
        assert_eq!(
            (play.phase(), work(&play)),
            (Phase::Stopping, Some(Work::Stop))
        );
        assert!(!play.state.frozen);
        let waits: Vec<Timer> = play.state.timers.keys().copied().collect();
        assert_eq!(waits, [Timer::Deadline], "parked: {park_it}");
        assert!(play.state.looking.is_empty() && play.state.unseen.is_empty());
    }
}

#[test]
fn l13_a_retired_supervisors_removal_is_tried_again_whatever_is_asked_meanwhile() {
    let mut play = ready(RestartPolicy::Never);
    play.command(Command::Restart);
    play.come_out(Luck::Good);
    let removal = play
        .pending
        .iter()
        .position(|e| matches!(e, Effect::RemoveSupervisor(..)))
        .expect("the earlier run's supervisor is removed");
    let removal = play.pending.remove(removal).expect("it is there");
    let failed = play.outcome(removal, Luck::Refused);
    play.tell(&failed);
    let due = play.state.timers.get(&Timer::Retire).copied();
    assert_eq!(due, Some(after(play.now, Duration::from_secs(5))));
    play.settle();
    play.command(Command::Stop);
    assert_eq!(play.state.timers.get(&Timer::Retire).copied(), due);
}
