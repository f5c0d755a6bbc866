//! What tells one situation from the next: each of these is a condition that no other test would miss.

use std::time::Duration;

use openshell_core::journal::Verdict;
use openshell_core::{ContainerId, Generation, Phase, Reason, RestartPolicy, Timestamp};

use super::play::{Luck, Play};
use crate::driver::{
    DriverError, DriverErrorKind, EngineEvent, EngineEventKind, Role, Sighting, StopOutcome,
};
use crate::machine::{Command, Course, Effect, Input, Outcome, Stage, Step, Timer};
use crate::ports::SessionEvent;
use crate::time::after;

fn ready(policy: RestartPolicy) -> Play {
    let mut play = Play::new(policy);
    play.settle();
    assert_eq!(play.phase(), Phase::Ready);
    play
}

fn due(play: &mut Play, timer: Timer) -> Step {
    let due = play.state.timers.get(&timer).copied();
    play.now = play.now.max(due.expect("it is set"));
    play.tell(&Input::Timer(timer))
}

fn event(play: &Play, role: Role, kind: EngineEventKind, time: Timestamp) -> Input {
    Input::Event(EngineEvent {
        sandbox: play.state.record.meta.id,
        role,
        container: play.id(role).expect("it is recorded"),
        kind,
        time,
    })
}

/// The oldest effect of one kind.
fn take(play: &mut Play, what: impl Fn(&Effect) -> bool) -> Effect {
    let at = play.pending.iter().position(what);
    let at = at.unwrap_or_else(|| panic!("it is under way: {:?}", play.pending));
    play.pending.remove(at).expect("it is there")
}

fn stop_fails(play: &mut Play) {
    play.command(Command::Stop);
    due(play, Timer::Deadline);
    assert_eq!(play.reason(), Reason::StopFailed);
}

#[test]
fn what_changes_nothing_is_in_the_journal_if_it_says_something() {
    let mut play = ready(RestartPolicy::Never);
    let oom = event(
        &play,
        Role::Workload,
        EngineEventKind::OutOfMemory,
        play.now,
    );
    let step = play.tell(&oom);
    assert_eq!(step.verdict, Verdict::Applied);
    assert!(
        step.journaled && step.note.contains("memory"),
        "{}",
        step.note
    );
    // An engine's word about a start of our own says nothing.
    let started = event(&play, Role::Workload, EngineEventKind::Started, play.now);
    assert!(!play.tell(&started).journaled);
}

#[test]
fn l3_a_death_before_the_present_start_is_stale_and_one_at_it_or_after_it_is_asked_about() {
    let play = ready(RestartPolicy::Never);
    let run = play.state.record.life.run.clone().expect("a run");
    let started = run.workload_started.expect("started");
    let moment = Duration::from_millis(1);
    for (time, verdict) in [
        (Timestamp::UNIX_EPOCH, Verdict::Stale),
        (started, Verdict::NeedsALook),
        (after(started, moment), Verdict::NeedsALook),
    ] {
        let mut play = play.clone();
        let died = event(
            &play,
            Role::Workload,
            EngineEventKind::Died { code: 1 },
            time,
        );
        let step = play.tell(&died);
        assert_eq!(step.verdict, verdict, "{time}");
        assert_eq!(step.effects.len(), usize::from(verdict != Verdict::Stale));
    }
}

#[test]
fn l6_the_loss_of_a_supervisor_after_a_failed_stop_does_not_forget_the_workload() {
    let mut play = ready(RestartPolicy::Never);
    stop_fails(&mut play);
    let removed = event(&play, Role::Supervisor, EngineEventKind::Removed, play.now);
    play.remove(Role::Supervisor);
    play.tell(&removed);
    let look = take(&mut play, |e| {
        matches!(e, Effect::Look(Role::Supervisor, ..))
    });
    let answer = play.outcome(look, Luck::Good);
    assert_eq!(play.tell(&answer).verdict, Verdict::Superseded);
    assert!(play.id(Role::Workload).is_some_and(|id| play.runs(&id)));
    play.command(Command::Stop);
    play.settle();
    assert_eq!(play.phase(), Phase::Stopped);
    assert!(!play.anything_runs());
}

#[test]
fn l16_what_rests_is_asked_about_a_few_times_and_then_only_when_the_engine_is_back() {
    let mut play = ready(RestartPolicy::Never);
    play.end(Role::Workload, 3);
    play.rest();
    assert_eq!(play.state.course, Course::Rest);
    for _ in 0..2 {
        play.find_engine();
        let mut looks = 0;
        while let Some(step) = play.come_out(Luck::Unreachable) {
            looks += 1;
            assert_eq!(step.verdict, Verdict::Unknown);
            assert!(looks < 10, "it does not end");
            if play.state.timers.contains_key(&Timer::Look) {
                let asked = due(&mut play, Timer::Look);
                assert!(matches!(
                    asked.effects[..],
                    [Effect::Look(Role::Workload, ..)]
                ));
            }
        }
        assert_eq!(looks, 4, "once, and three times more");
        assert!(play.state.timers.is_empty());
    }
}

#[test]
fn l6_a_stop_whose_container_is_called_missing_ends_by_what_the_engine_says_when_asked() {
    for created in [false, true] {
        let mut play = ready(RestartPolicy::Never);
        play.command(Command::Stop);
        let Effect::StopWorkload(ticket, ..) =
            take(&mut play, |e| matches!(e, Effect::StopWorkload(..)))
        else {
            unreachable!("it was asked for");
        };
        let missing = Outcome::Stopped(Ok(StopOutcome::Missing));
        let step = play.tell(&Input::Outcome(ticket, missing));
        assert_eq!(step.verdict, Verdict::NeedsALook);
        assert_eq!(play.phase(), Phase::Stopping);
        if created {
            let serial = play.state.looking[&Role::Workload];
            let answer = Ok(Sighting::Created);
            let role = Role::Workload;
            play.tell(&Input::Looked {
                role,
                serial,
                answer,
            });
        } else {
            play.end(Role::Workload, 0);
            let look = take(&mut play, |e| matches!(e, Effect::Look(Role::Workload, ..)));
            let answer = play.outcome(look, Luck::Good);
            play.tell(&answer);
        }
        assert_eq!(play.phase(), Phase::Stopped, "created: {created}");
        assert!(play.id(Role::Workload).is_some(), "it is kept (L7)");
    }
}

#[test]
fn a_workload_that_somebody_restarted_goes_to_the_policy_unless_main_had_ended_by_itself() {
    for reported in [false, true] {
        let mut play = ready(RestartPolicy::Never);
        if reported {
            let ended = play.say(SessionEvent::MainExited(0, play.now, String::new()));
            play.tell(&ended);
        }
        play.end(Role::Workload, 0);
        play.pass(Duration::from_secs(1));
        play.start_outside(Role::Workload);
        play.observe();
        while play.come_out(Luck::Good).is_some() {}
        let expected = if reported {
            (Phase::Completed, Reason::MainProcessCompleted)
        } else {
            (Phase::Error, Reason::ContainerExited)
        };
        assert_eq!((play.phase(), play.reason()), expected);
        assert_eq!(play.generation(), Generation(1), "it is not relaunched");
        assert!(reported || play.message().contains("by somebody else"));
        let workload = play.id(Role::Workload).expect("it is kept");
        assert!(!play.runs(&workload));
    }
}

#[test]
fn l9_a_main_that_was_told_to_end_while_nobody_watched_is_relaunched_without_a_wait() {
    let mut play = ready(RestartPolicy::Never);
    play.crash();
    while play.come_out(Luck::Good).is_some() {}
    assert!(play.state.adopting && play.state.course == Course::Run);
    let Input::SessionOpened(mut opened) = play.open() else {
        unreachable!("a session");
    };
    opened.main = crate::ports::MainReport::Stopped(143, play.now);
    play.tell(&Input::SessionOpened(opened));
    play.end(Role::Workload, 143);
    play.observe();
    while !play.state.looking.is_empty() {
        play.come_out(Luck::Good);
    }
    assert_eq!(play.generation(), Generation(2));
    assert_eq!(play.phase(), Phase::Starting);
}

fn fails(play: &mut Play, kind: DriverErrorKind) {
    let ticket = play.state.activity.expect("it is being brought up").ticket;
    play.pending.clear();
    let error = DriverError::new(kind, "no such image");
    play.tell(&Input::Outcome(ticket, Outcome::Image(Err(error))));
    play.settle();
}

#[test]
fn l8_an_image_that_cannot_be_pulled_fails_a_create_for_good_and_a_start_by_the_policy() {
    let mut play = Play::new(RestartPolicy::Always);
    fails(&mut play, DriverErrorKind::ImagePull);
    assert_eq!(
        (play.phase(), play.reason()),
        (Phase::Error, Reason::ImagePullFailed)
    );
    play.command(Command::Start);
    fails(&mut play, DriverErrorKind::ImagePull);
    assert_eq!(
        play.phase(),
        Phase::Ready,
        "it was tried again, and could be pulled"
    );
    assert_eq!(play.state.record.life.restart.count, 1);
}

#[test]
fn l13_a_stray_is_removed_once_unless_a_start_may_be_just_making_it() {
    let id = |s: &str| ContainerId(s.to_owned());
    let mut play = ready(RestartPolicy::Never);
    let stray = |play: &Play, container: &str, generation| {
        let mut play = play.clone();
        play.tell(&Input::Stray(id(container), Generation(generation)));
        play.state.record.life.retired.len()
    };
    assert_eq!(stray(&play, "stray", 1), 1);
    assert_eq!(stray(&play, "stray", 0), 1);
    assert_eq!(stray(&play, "stray", 2), 0, "of a run to come");
    let own = play.id(Role::Supervisor).expect("it runs").0;
    assert_eq!(stray(&play, &own, 1), 0, "the present one");
    play.command(Command::Restart);
    assert_eq!(stray(&play, "stray", 1), 0, "a call is in flight");
    assert_eq!(
        stray(&play, "stray", 0),
        1,
        "of an earlier run nothing is made"
    );
    // What is retired already, whether it is just being removed or to be tried again.
    play.come_out(Luck::Good);
    assert_eq!(play.state.record.life.retired, [id(&own)]);
    assert_eq!(stray(&play, &own, 1), 1);
    let removal = take(&mut play, |e| matches!(e, Effect::RemoveSupervisor(..)));
    let failed = play.outcome(removal, Luck::Refused);
    play.tell(&failed);
    assert!(play.state.retiring.is_empty());
    assert_eq!(stray(&play, &own, 1), 1);
    play.command(Command::Delete);
    assert_eq!(
        stray(&play, "stray", 0),
        1,
        "a delete removes everything anyway"
    );
}

#[test]
fn l10_a_launch_that_never_happens_is_tried_three_times_and_no_more() {
    let mut play = Play::new(RestartPolicy::Never);
    let mut launches = 0;
    for _ in 0..60 {
        let launch = matches!(play.pending.front(), Some(Effect::Launch(..)));
        launches += usize::from(launch);
        let luck = if launch {
            Luck::Unreachable
        } else {
            Luck::Good
        };
        if play.come_out(luck).is_none() && !play.fire_next() {
            break;
        }
    }
    assert_eq!(launches, 3);
    assert_eq!(
        (play.phase(), play.reason()),
        (Phase::Error, Reason::StartFailed)
    );
    assert!(
        play.message().contains("did not start them"),
        "{}",
        play.message()
    );
}

#[test]
fn l10_a_launch_of_which_only_the_supervisor_happened_is_not_tried_again() {
    let mut play = Play::new(RestartPolicy::Never);
    play.come_out(Luck::Good);
    play.come_out(Luck::Good);
    play.start_outside(Role::Supervisor);
    play.come_out(Luck::Unreachable);
    while play.come_out(Luck::Good).is_some() {}
    assert_eq!(
        (play.phase(), play.reason()),
        (Phase::Error, Reason::StartFailed)
    );
    assert_eq!(play.generation(), Generation(1));
}

#[test]
fn a_session_that_ends_is_asked_about_only_while_nothing_is_known_of_an_end() {
    let mut play = ready(RestartPolicy::Never);
    let closed = play.say(SessionEvent::Closed("reset".to_owned()));
    let step = play.clone().tell(&closed);
    assert!(matches!(
        step.effects[..],
        [Effect::Look(Role::Supervisor, ..)]
    ));
    assert!(step.state.timers.contains_key(&Timer::SessionGrace));
    for ended in [false, true] {
        let mut play = play.clone();
        if ended {
            play.end(Role::Workload, 3);
            play.observe();
            play.come_out(Luck::Good);
            assert!(play.state.ended.is_some());
        } else {
            let exited = play.say(SessionEvent::MainExited(3, play.now, String::new()));
            play.tell(&exited);
        }
        let step = play.tell(&closed);
        assert_eq!(step.effects, []);
        assert!(!step.state.timers.contains_key(&Timer::SessionGrace));
    }
    // It may still come back: then what was awaited is not.
    play.tell(&closed);
    let opened = play.open();
    play.tell(&opened);
    assert!(!play.state.timers.contains_key(&Timer::SessionGrace));
}

#[test]
fn l17_a_containment_is_shown_of_what_was_up_and_not_of_what_was_only_coming_up() {
    let mut play = ready(RestartPolicy::Never);
    let closed = play.say(SessionEvent::Closed("reset".to_owned()));
    play.tell(&closed);
    while play.come_out(Luck::Good).is_some() {}
    due(&mut play, Timer::SessionGrace);
    assert_eq!(play.phase(), Phase::Provisioning);
    due(&mut play, Timer::Adoption);
    assert_eq!(
        (play.phase(), play.reason()),
        (Phase::Stopping, Reason::ControlSupervisorExited)
    );
    let mut play = Play::new(RestartPolicy::Never);
    for _ in 0..3 {
        play.come_out(Luck::Good);
    }
    assert_eq!(play.state.course, Course::Bring(Stage::Session));
    due(&mut play, Timer::Deadline);
    assert!(matches!(play.state.course, Course::Halt(_)));
    assert_eq!(play.phase(), Phase::Provisioning);
}

#[test]
fn l7_a_failed_start_keeps_what_there_was_and_a_failed_create_leaves_nothing() {
    let refuse_launch = |play: &mut Play| {
        while !matches!(play.pending.front(), Some(Effect::Launch(..))) {
            assert!(play.come_out(Luck::Good).is_some());
        }
        play.come_out(Luck::Refused);
        play.settle();
        assert_eq!(
            (play.phase(), play.reason()),
            (Phase::Error, Reason::StartFailed)
        );
    };
    let mut play = Play::new(RestartPolicy::Never);
    refuse_launch(&mut play);
    assert_eq!((play.containers(), &play.state.record.life.run), (0, &None));
    // A start of the same: what it has made may be looked into, and is begun with the next time.
    play.command(Command::Start);
    refuse_launch(&mut play);
    assert!(play.id(Role::Workload).is_some());
    assert_eq!(play.containers(), 1);
    let mut play = ready(RestartPolicy::Never);
    play.command(Command::Stop);
    play.settle();
    let kept = play.id(Role::Workload);
    play.command(Command::Start);
    refuse_launch(&mut play);
    assert_eq!(play.id(Role::Workload), kept, "its files are its user's");
    assert_eq!(play.containers(), 1);
}

#[test]
fn a_grace_that_runs_out_while_the_run_is_being_proven_is_of_no_account() {
    let mut play = ready(RestartPolicy::Never);
    let closed = play.say(SessionEvent::Closed("reset".to_owned()));
    play.tell(&closed);
    while play.come_out(Luck::Good).is_some() {}
    play.lose_engine("gone");
    play.end(Role::Supervisor, 137);
    play.find_engine();
    play.pending
        .retain(|e| !matches!(e, Effect::Look(Role::Workload, ..)));
    play.come_out(Luck::Good);
    assert!(matches!(play.state.course, Course::Prove(_)));
    let before = play.state.record.clone();
    due(&mut play, Timer::SessionGrace);
    assert_eq!(play.state.record, before);
    assert!(!play.state.timers.contains_key(&Timer::Adoption));
}
