//! What the engine's answers mean for a run that was found, or is being ended (L6, L9, L10).

use std::time::Duration;

use openshell_core::journal::Verdict;
use openshell_core::{Generation, Phase, Reason, RestartPolicy};

use super::play::{Luck, Play};
use crate::driver::{DriverError, DriverErrorKind, EngineEvent, EngineEventKind, Role};
use crate::machine::{Command, Course, Effect, Halt, Input, Outcome, Stage, Step, Then, Timer};
use crate::ports::{MainReport, SessionEvent};

fn ready(policy: RestartPolicy) -> Play {
    let mut play = Play::new(policy);
    play.settle();
    assert_eq!(play.phase(), Phase::Ready);
    play
}

/// Launched, and not in session yet.
fn launched() -> Play {
    let mut play = Play::new(RestartPolicy::Never);
    for _ in 0..3 {
        play.come_out(Luck::Good);
    }
    assert_eq!(play.state.course, Course::Bring(Stage::Session));
    play
}

fn due(play: &mut Play, timer: Timer) -> Step {
    let due = play.state.timers.get(&timer).copied();
    play.now = play.now.max(due.expect("it is set"));
    play.tell(&Input::Timer(timer))
}

fn died(play: &Play, role: Role) -> Input {
    Input::Event(EngineEvent {
        sandbox: play.state.record.meta.id,
        role,
        container: play.id(role).expect("it is recorded"),
        kind: EngineEventKind::Died { code: 1 },
        time: play.now,
    })
}

#[test]
fn l6_an_answer_about_the_supervisor_does_not_confirm_the_workloads_stop() {
    let mut play = ready(RestartPolicy::Never);
    let lost = play.say(SessionEvent::Link(false));
    play.tell(&lost);
    let closed = play.say(SessionEvent::Closed("reset".to_owned()));
    play.tell(&closed);
    play.end(Role::Workload, 1);
    play.pass(Duration::from_secs(1));
    play.start_outside(Role::Workload);
    play.end(Role::Supervisor, 1);
    // Somebody has restarted the workload: it is contained, and then the other answer comes.
    play.come_out(Luck::Good);
    let course = play.state.course.clone();
    assert!(matches!(course, Course::Halt(_)));
    let step = play.come_out(Luck::Good).expect("the other answer");
    assert_eq!(
        (step.verdict, &step.state.course),
        (Verdict::Superseded, &course)
    );
    play.settle();
    assert!(!play.anything_runs());
}

#[test]
fn l10_a_death_while_it_is_being_launched_is_told_by_the_launchs_own_answer() {
    let mut play = Play::new(RestartPolicy::Never);
    play.come_out(Luck::Good);
    play.come_out(Luck::Good);
    assert_eq!(play.state.course, Course::Bring(Stage::Launch));
    let step = play.clone().tell(&died(&play, Role::Workload));
    assert!(!step.journaled && step.effects.is_empty());
    play.come_out(Luck::Good);
    let step = play.clone().tell(&died(&play, Role::Workload));
    assert!(matches!(
        step.effects[..],
        [Effect::Look(Role::Workload, ..)]
    ));
}

#[test]
fn l9_an_end_of_this_run_is_its_own_however_late_the_engines_clock_is() {
    let mut play = Play::new(RestartPolicy::Never);
    play.come_out(Luck::Good);
    play.come_out(Luck::Good);
    let now = play.now;
    let hour = jiff::SignedDuration::from_hours(1);
    play.now = now.checked_sub(hour).expect("a time");
    play.come_out(Luck::Good);
    let end = play.now;
    play.now = now;
    let opened = play.open();
    play.tell(&opened);
    for said in [SessionEvent::Link(false), SessionEvent::MainStarted(now)] {
        let said = play.say(said);
        play.tell(&said);
    }
    play.end_at(
        Role::Workload,
        3,
        crate::time::after(end, Duration::from_secs(9)),
    );
    play.crash();
    play.end(Role::Supervisor, 0);
    play.rest();
    assert_eq!(
        (play.phase(), play.reason()),
        (Phase::Error, Reason::MainProcessFailed)
    );
    assert_eq!(play.generation(), Generation(1));
}

#[test]
fn l3_a_half_that_was_restarted_while_the_gateway_was_away_is_not_adopted() {
    for role in [Role::Workload, Role::Supervisor] {
        let mut play = ready(RestartPolicy::Never);
        play.end(role, 0);
        play.pass(Duration::from_secs(1));
        play.start_outside(role);
        play.crash();
        play.come_out(Luck::Good);
        play.come_out(Luck::Good);
        assert!(matches!(play.state.course, Course::Halt(_)), "{role}");
        assert!(play.message().contains("somebody else") || play.phase() == Phase::Provisioning);
        play.rest();
        assert_eq!(
            (play.phase(), play.generation()),
            (Phase::Ready, Generation(2))
        );
    }
}

#[test]
fn l9_a_run_that_ended_before_it_was_ready_while_nobody_watched_had_ended_by_itself() {
    let mut play = launched();
    play.end(Role::Workload, 3);
    play.pass(Duration::from_secs(5));
    play.end(Role::Supervisor, 0);
    play.crash();
    play.rest();
    assert_eq!(
        (play.phase(), play.reason()),
        (Phase::Error, Reason::MainProcessFailed)
    );
    assert_eq!(play.generation(), Generation(1));
}

#[test]
fn l11_a_launch_that_was_lost_with_the_engine_is_contained_by_the_next_gateway() {
    let mut play = Play::new(RestartPolicy::Never);
    play.come_out(Luck::Good);
    play.come_out(Luck::Good);
    play.come_out(Luck::Lost);
    for _ in 0..2000 {
        if play.phase() == Phase::Error {
            break;
        }
        if play.come_out(Luck::Unreachable).is_none() {
            play.fire_next();
        }
    }
    assert_eq!(play.reason(), Reason::ProvisioningTimedOut);
    assert!(play.anything_runs());
    play.crash();
    assert!(!play.state.idle);
    play.rest();
    assert!(!play.anything_runs());
    assert_eq!(
        (play.phase(), play.generation()),
        (Phase::Error, Generation(1))
    );
}

#[test]
fn l13_a_prepare_that_is_parked_comes_out_first_and_what_it_made_is_recorded() {
    let mut play = Play::new(RestartPolicy::Never);
    play.come_out(Luck::Good);
    play.tell(&Input::Park);
    assert!(matches!(
        play.state.course,
        Course::Halt(Halt {
            then: Then::Park(_),
            ..
        })
    ));
    play.come_out(Luck::Good);
    assert!(play.id(Role::Workload).is_some());
    assert_eq!(play.state.course, Course::Rest);
    while play.come_out(Luck::Good).is_some() {}
    play.crash();
    play.rest();
    assert_eq!(play.phase(), Phase::Ready);
    assert_eq!(play.containers(), 2);
}

#[test]
fn l10_a_run_whose_launch_was_not_answered_and_that_has_ended_was_started_once() {
    let mut play = Play::new(RestartPolicy::Never);
    play.come_out(Luck::Good);
    play.come_out(Luck::Good);
    play.come_out(Luck::Lost);
    play.end(Role::Workload, 3);
    play.end(Role::Supervisor, 0);
    play.rest();
    assert_eq!(
        (play.phase(), play.reason()),
        (Phase::Error, Reason::StartFailed)
    );
    assert_eq!(play.generation(), Generation(1));
    assert!(
        play.message().contains("ended with 3"),
        "{}",
        play.message()
    );
}

#[test]
fn l3_the_end_of_what_somebody_else_started_is_not_taken_for_this_runs() {
    let mut play = ready(RestartPolicy::Never);
    play.end(Role::Workload, 0);
    play.pass(Duration::from_secs(1));
    play.start_outside(Role::Workload);
    play.end(Role::Workload, 3);
    play.observe();
    while play.generation() == Generation(1) && play.come_out(Luck::Good).is_some() {}
    assert_eq!(
        play.generation(),
        Generation(2),
        "nothing says how it ended"
    );
    assert_eq!(play.state.record.life.last_exit, None);
}

#[test]
fn l18_a_container_that_cannot_be_prepared_anew_is_asked_about_and_nothing_else_is() {
    let mut play = ready(RestartPolicy::Never);
    play.command(Command::Stop);
    play.settle();
    play.remove(Role::Workload);
    play.command(Command::Start);
    let ticket = play.state.activity.expect("it is being prepared").ticket;
    play.pending.clear();
    let gone = DriverError::new(DriverErrorKind::RuntimeMissing, "no such container");
    let step = play.tell(&Input::Outcome(ticket, Outcome::Prepared(Err(gone))));
    assert!(matches!(
        step.effects[..],
        [Effect::Look(Role::Workload, ..)]
    ));
    play.come_out(Luck::Good);
    assert_eq!(
        (play.phase(), play.reason()),
        (Phase::Error, Reason::RuntimeMissing)
    );
}

#[test]
fn l9_a_reported_end_stays_what_it_was_whatever_its_containment_finds() {
    let mut play = ready(RestartPolicy::Never);
    let exited = play.say(SessionEvent::MainExited(0, play.now, String::new()));
    play.tell(&exited);
    due(&mut play, Timer::ExitConfirmation);
    play.come_out(Luck::Good);
    assert!(
        matches!(play.state.course, Course::Halt(_)),
        "it is alive, and contained"
    );
    play.end(Role::Workload, 3);
    while play.come_out(Luck::Good).is_some() {}
    assert_eq!(
        (play.phase(), play.reason()),
        (Phase::Completed, Reason::MainProcessCompleted)
    );
}

#[test]
fn l9_a_zero_that_nobody_saw_beside_its_supervisors_end_is_no_completion() {
    let mut play = ready(RestartPolicy::Never);
    play.crash();
    play.end(Role::Supervisor, 1);
    play.come_out(Luck::Good);
    play.come_out(Luck::Good);
    assert!(matches!(play.state.course, Course::Halt(_)));
    play.end(Role::Workload, 0);
    play.rest();
    assert_eq!(
        (play.phase(), play.generation()),
        (Phase::Ready, Generation(2))
    );
}

#[test]
fn l16_the_leftovers_of_a_failed_create_are_removed_in_four_tries_or_stay_recorded() {
    let mut play = Play::new(RestartPolicy::Never);
    play.come_out(Luck::Good);
    play.come_out(Luck::Good);
    play.come_out(Luck::Refused);
    let mut tries = 0;
    while let Some(Effect::RemoveAll(..)) = play.pending.front() {
        tries += 1;
        assert!(tries < 10, "it never gives up");
        play.come_out(Luck::Refused);
        if play.state.timers.contains_key(&Timer::Retry) {
            assert!(play.pending.is_empty(), "it waits before it is tried again");
            due(&mut play, Timer::Retry);
        }
    }
    assert_eq!(tries, 4);
    play.settle();
    assert_eq!(
        (play.phase(), play.reason()),
        (Phase::Error, Reason::StartFailed)
    );
    assert!(play.id(Role::Workload).is_some());
    play.command(Command::Delete);
    play.settle();
    assert!(play.gone && play.containers() == 0);
}

#[test]
fn a_run_that_is_brought_back_says_so_and_a_restart_says_which_it_is() {
    let mut play = ready(RestartPolicy::OnFailure);
    play.pass(Duration::from_secs(60));
    play.end(Role::Workload, 137);
    play.end(Role::Supervisor, 137);
    play.crash();
    while play.generation() == Generation(1) {
        play.come_out(Luck::Good);
    }
    assert!(
        play.message().ends_with("; it is being brought back"),
        "{}",
        play.message()
    );
    play.settle();
    let exited = play.say(SessionEvent::MainExited(1, play.now, String::new()));
    play.tell(&exited);
    play.end(Role::Workload, 1);
    play.observe();
    play.come_out(Luck::Good);
    assert!(
        play.message().ends_with("; restart 1"),
        "{}",
        play.message()
    );
}

#[test]
fn l7_a_main_that_ended_before_it_was_heard_of_has_run_and_its_files_are_kept() {
    let mut play = launched();
    let Input::SessionOpened(mut opened) = play.open() else {
        unreachable!("a session");
    };
    opened.main = MainReport::Exited(0, play.now);
    play.end(Role::Workload, 0);
    play.tell(&Input::SessionOpened(opened));
    play.observe();
    while play.come_out(Luck::Good).is_some() {}
    assert_eq!(
        (play.phase(), play.reason()),
        (Phase::Completed, Reason::MainProcessCompleted)
    );
    assert!(play.id(Role::Workload).is_some());
    assert_eq!(play.containers(), 1);
}

#[test]
fn l13_the_removal_of_a_retired_supervisor_is_our_own_doing_and_worth_no_line() {
    let mut play = ready(RestartPolicy::Never);
    let ended = died(&play, Role::Supervisor);
    play.command(Command::Stop);
    play.come_out(Luck::Good);
    assert!(!play.clone().tell(&ended).journaled);
    // It could not be removed yet, and is to be tried again.
    play.come_out(Luck::Refused);
    assert!(play.state.retiring.is_empty() && !play.state.record.life.retired.is_empty());
    assert!(!play.tell(&ended).journaled);
}

#[test]
fn what_falls_due_while_the_run_is_being_proven_or_has_ended_changes_nothing() {
    let mut play = ready(RestartPolicy::Never);
    let lost = play.say(SessionEvent::Link(false));
    play.tell(&lost);
    while play.come_out(Luck::Good).is_some() {}
    let mut ended = play.clone();
    let exited = ended.say(SessionEvent::MainExited(0, ended.now, String::new()));
    ended.tell(&exited);
    due(&mut ended, Timer::SessionGrace);
    assert_eq!(ended.phase(), Phase::Ready);
    due(&mut play, Timer::SessionGrace);
    assert_eq!(play.phase(), Phase::Provisioning);
    play.lose_engine("gone");
    assert!(play.state.timers.contains_key(&Timer::Outage));
    play.end(Role::Supervisor, 137);
    play.find_engine();
    play.pending
        .retain(|e| !matches!(e, Effect::Look(Role::Workload, ..)));
    play.come_out(Luck::Good);
    assert!(matches!(play.state.course, Course::Prove(_)));
    play.pending.clear();
    let before = play.state.record.clone();
    for timer in [Timer::Adoption, Timer::Outage] {
        let step = due(&mut play, timer);
        assert_eq!((&step.state.record, &step.effects), (&before, &Vec::new()));
    }
}

#[test]
fn since_is_renewed_with_the_phase_and_with_the_reason() {
    let mut play = ready(RestartPolicy::Never);
    play.tell(&Input::Park);
    play.pass(Duration::from_secs(3));
    play.come_out(Luck::Good);
    let condition = play.state.record.life.condition.clone();
    assert_eq!(condition.reason, Reason::ContainerRuntimeRestart);
    assert_eq!((play.phase(), condition.since), (Phase::Starting, play.now));
    let mut play = Play::new(RestartPolicy::Never);
    play.pass(Duration::from_secs(3));
    play.come_out(Luck::Good);
    play.come_out(Luck::Good);
    assert_eq!(play.state.record.life.condition.since, play.now);
}

#[test]
fn l8_an_end_under_a_start_that_had_failed_already_stays_that_starts_failure() {
    let mut play = ready(RestartPolicy::Never);
    play.command(Command::Stop);
    play.settle();
    play.command(Command::Start);
    while play.state.course != Course::Bring(Stage::Session) {
        play.come_out(Luck::Good);
    }
    play.pending.clear();
    due(&mut play, Timer::Deadline);
    assert!(matches!(play.state.course, Course::Halt(_)));
    play.end(Role::Workload, 3);
    play.settle();
    assert_eq!(
        (play.phase(), play.reason()),
        (Phase::Error, Reason::ControlSupervisorStartFailed)
    );
}

#[test]
fn l3_the_last_end_of_a_kept_container_is_not_that_of_a_run_that_never_started() {
    let mut play = ready(RestartPolicy::Never);
    play.command(Command::Stop);
    play.settle();
    let last = play.state.record.life.last_exit.clone();
    assert_eq!(last.as_ref().map(|e| e.generation), Some(Generation(1)));
    play.command(Command::Start);
    while play.state.course != Course::Bring(Stage::Launch) {
        play.come_out(Luck::Good);
    }
    play.pending
        .retain(|e| !matches!(e, Effect::RemoveSupervisor(..)));
    play.command(Command::Stop);
    play.come_out(Luck::Unreachable);
    play.settle();
    assert_eq!(play.phase(), Phase::Stopped);
    assert_eq!(play.state.record.life.last_exit, last);
}

#[test]
fn a_link_that_is_lost_is_asked_about_only_while_main_runs() {
    let play = ready(RestartPolicy::Never);
    let lost = play.say(SessionEvent::Link(false));
    let mut ended = play.clone();
    let exited = ended.say(SessionEvent::MainExited(0, ended.now, String::new()));
    ended.tell(&exited);
    let mut coming = launched();
    let opened = coming.open();
    coming.tell(&opened);
    for mut play in [ended, coming] {
        let step = play.tell(&lost);
        assert_eq!(step.effects, []);
        assert!(!step.state.timers.contains_key(&Timer::SessionGrace));
    }
}

#[test]
fn l16_a_timer_that_is_told_too_early_is_not_due() {
    let mut play = ready(RestartPolicy::Never);
    play.command(Command::Stop);
    let before = play.state.clone();
    let step = play.tell(&Input::Timer(Timer::Deadline));
    assert_eq!((step.state, step.effects), (before, Vec::new()));
}
