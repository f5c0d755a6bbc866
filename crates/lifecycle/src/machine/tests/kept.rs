//! What a command leaves as it is, and what is told apart.

use std::collections::BTreeSet;
use std::time::Duration;

use openshell_core::{Phase, RestartPolicy};

use super::play::{Luck, Play};
use crate::driver::{EngineExit, Role};
use crate::machine::{Command, Course, Effect, Supervisor, Timer};
use crate::time::after;

fn ready() -> Play {
    let mut play = Play::new(RestartPolicy::Never);
    play.settle();
    assert_eq!(play.phase(), Phase::Ready);
    play
}

#[test]
fn a_start_of_what_runs_is_a_success_and_changes_nothing() {
    let mut play = ready();
    let before = play.state.clone();
    let step = play.command(Command::Start);
    assert_eq!((step.state, step.effects), (before, Vec::new()));
    assert_eq!(step.note, "it is running, or on its way there");
}

#[test]
fn a_stop_of_what_is_stopped_is_a_success_and_moves_nothing() {
    let mut play = ready();
    play.command(Command::Stop);
    play.settle();
    let before = play.state.record.clone();
    let step = play.command(Command::Stop);
    assert_eq!(step.state.course, Course::Rest);
    assert_eq!(step.state.record, before);
    assert_eq!(step.note, "it is stopped already");
}

#[test]
fn a_start_of_what_is_out_of_sight_asks_before_it_begins_another_run() {
    let mut play = ready();
    play.lose_engine("gone");
    while play.phase() == Phase::Ready {
        play.fire_next();
        while play.come_out(Luck::Unreachable).is_some() {}
    }
    play.command(Command::Start);
    assert_eq!(play.phase(), Phase::Unknown);
    assert!(matches!(&play.state.course, Course::Prove(proof) if proof.asked.is_some()));
}

#[test]
fn a_start_while_it_is_being_stopped_shows_the_stop_until_it_is_done() {
    let mut play = ready();
    play.command(Command::Stop);
    let stopping = play.state.record.life.condition.clone();
    play.pass(Duration::from_secs(3));
    let step = play.command(Command::Start);
    let life = &step.state.record.life;
    assert_eq!(life.phase, Phase::Stopping);
    assert_eq!(life.condition.reason, stopping.reason);
    assert_eq!(
        life.condition.message,
        "it is being stopped; a new run starts afterwards"
    );
    // It still shows since when it is being stopped, however much later another word is added.
    assert_eq!(life.condition.since, stopping.since);
}

#[test]
fn since_is_when_it_became_what_it_is() {
    let mut play = ready();
    let since = play.state.record.life.condition.since;
    play.now = after(play.now, Duration::from_secs(60));
    play.command(Command::Stop);
    assert_eq!(play.state.record.life.condition.since, play.now);
    assert_ne!(play.state.record.life.condition.since, since);
}

#[test]
fn a_stop_waits_for_nothing_but_its_own_end() {
    let mut play = ready();
    play.lose_engine("gone");
    assert!(!play.state.timers.is_empty());
    play.command(Command::Stop);
    let waits: Vec<Timer> = play.state.timers.keys().copied().collect();
    assert_eq!(waits, [Timer::Deadline]);
    assert!(play.state.looking.is_empty() && play.state.unseen.is_empty());
}

#[test]
fn l3_no_two_calls_and_no_two_questions_have_one_serial() {
    let mut play = Play::new(RestartPolicy::Never);
    let mut serials = BTreeSet::new();
    let mut all = 0;
    let mut note = |effects: &[Effect]| {
        for effect in effects {
            let serial = match effect {
                Effect::PrepareImage(t)
                | Effect::PrepareRun(t)
                | Effect::Launch(t, _)
                | Effect::StopWorkload(t, ..)
                | Effect::RemoveAll(t, _) => t.serial,
                Effect::Look(_, _, serial) => *serial,
                _ => continue,
            };
            serials.insert(serial);
            all += 1;
        }
    };
    note(&play.pending.iter().cloned().collect::<Vec<_>>());
    while let Some(step) = play.come_out(Luck::Good) {
        note(&step.effects);
    }
    play.settle();
    for _ in 0..3 {
        play.end(Role::Supervisor, 137);
        play.lose_engine("gone");
        play.find_engine();
        note(&play.pending.drain(..).collect::<Vec<_>>());
    }
    note(&play.command(Command::Stop).effects);
    assert!(all >= 5, "{all} are too few to tell");
    assert_eq!(serials.len(), all);
}

#[test]
fn two_ends_a_moment_apart_are_not_one() {
    let at = |play: &Play, apart| EngineExit {
        code: 1,
        oom_killed: false,
        finished_at: after(play.now, apart),
    };
    let play = ready();
    let workload = at(&play, Duration::ZERO);
    for (apart, expected) in [
        (Duration::from_millis(999), Supervisor::EndedTogether),
        (Duration::from_secs(1), Supervisor::EndedAfter),
    ] {
        assert_eq!(Supervisor::compare(&at(&play, apart), &workload), expected);
    }
    let before = Supervisor::compare(&workload, &at(&play, Duration::from_secs(1)));
    assert_eq!(before, Supervisor::EndedBefore);
}
