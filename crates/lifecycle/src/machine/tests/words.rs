//! What the journal says of each input, and of which run it is.

use openshell_core::{ContainerId, EngineId, Generation, Incarnation, RestartPolicy, Timestamp};

use super::play::{Luck, Play, instance};
use crate::driver::{EngineExit, Role, Sighting, WaitOutcome};
use crate::machine::{Command, Input, Opened, Timer};
use crate::ports::{MainReport, SessionEvent};

const AT: Timestamp = Timestamp::UNIX_EPOCH;

fn incarnation() -> Incarnation {
    Incarnation {
        container: ContainerId("abc".to_owned()),
        started_at: AT,
    }
}

fn exit(oom_killed: bool) -> EngineExit {
    EngineExit {
        code: 137,
        oom_killed,
        finished_at: AT,
    }
}

fn looked(answer: Result<Sighting, String>) -> String {
    let role = Role::Workload;
    let serial = 1;
    Input::Looked {
        role,
        serial,
        answer,
    }
    .describe()
}

#[test]
fn every_answer_of_the_engine_has_its_words() {
    let words = [
        (
            Ok(Sighting::Running(incarnation())),
            "looked at workload: running",
        ),
        (Ok(Sighting::Created), "looked at workload: never started"),
        (
            Ok(Sighting::Exited(incarnation(), exit(false))),
            "looked at workload: exited(137)",
        ),
        (
            Ok(Sighting::Exited(incarnation(), exit(true))),
            "looked at workload: exited(137, out of memory)",
        ),
        (
            Ok(Sighting::InTransition),
            "looked at workload: in transition",
        ),
        (
            Ok(Sighting::Missing(EngineId("e".to_owned()))),
            "looked at workload: missing",
        ),
        (Err("no answer".to_owned()), "looked at workload: unknown"),
    ];
    for (answer, expected) in words {
        assert_eq!(looked(answer), expected);
    }
    let ended = WaitOutcome::Exited(incarnation(), exit(false));
    let waited = Input::Waited(Role::Supervisor, incarnation(), ended).describe();
    assert!(waited.starts_with("observed supervisor "), "{waited}");
    assert!(waited.ends_with(" exited(137)"), "{waited}");
}

#[test]
fn every_word_of_a_session_has_its_words_and_its_run() {
    let words = [
        (SessionEvent::MainStarted(AT), "session main started"),
        (
            SessionEvent::MainExited(17, AT, String::new()),
            "session main exited(17)",
        ),
        (
            SessionEvent::MainStopped(143, AT),
            "session main stopped(143)",
        ),
        (SessionEvent::Link(true), "session link attached"),
        (SessionEvent::Link(false), "session link lost"),
        (
            SessionEvent::Failed("LinkTimedOut".to_owned(), String::new()),
            "session run failed (LinkTimedOut)",
        ),
        (SessionEvent::Closed("gone".to_owned()), "session closed"),
    ];
    for (event, expected) in words {
        let input = Input::SessionEvent(Generation(4), instance(Generation(4)), event);
        assert_eq!(input.describe(), expected);
        assert_eq!(input.generation(), Some(Generation(4)));
    }
    let opened = Input::SessionOpened(Opened {
        generation: Generation(5),
        instance: instance(Generation(5)),
        enforced: true,
        main: MainReport::NotStarted,
    });
    assert_eq!(opened.generation(), Some(Generation(5)));
    assert_eq!(Input::Restore.generation(), None);
}

/// What a play's next outcome is called, and of which run it is.
fn next(play: &mut Play, luck: Luck) -> (String, Option<Generation>) {
    let effect = play.pending.pop_front().expect("something is under way");
    let input = play.outcome(effect, luck);
    play.tell(&input);
    (input.describe(), input.generation())
}

#[test]
fn every_outcome_has_its_words_and_its_run() {
    let run = Some(Generation(1));
    let mut play = Play::new(RestartPolicy::Never);
    for (good, bad) in [
        ("outcome image ready", "outcome image failed"),
        ("outcome prepared", "outcome prepare failed"),
        ("outcome launched", "outcome launch failed"),
    ] {
        let failed = next(&mut play.clone(), Luck::Refused);
        assert_eq!(failed, (bad.to_owned(), run));
        assert_eq!(next(&mut play, Luck::Good), (good.to_owned(), run));
    }
    play.settle();
    for (command, good, bad) in [
        (Command::Stop, "outcome not running", "outcome stop failed"),
        (Command::Delete, "outcome removed", "outcome remove failed"),
    ] {
        let mut play = play.clone();
        play.command(command);
        let failed = next(&mut play.clone(), Luck::Refused);
        assert_eq!(failed, (bad.to_owned(), run));
        assert_eq!(next(&mut play, Luck::Good), (good.to_owned(), run));
    }
}

#[test]
fn every_refusal_says_what_cannot_be_done() {
    let mut play = Play::new(RestartPolicy::Never);
    play.settle();
    play.command(Command::Delete);
    let hold = Input::Hold {
        by: "me".to_owned(),
        reason: String::new(),
    };
    for (input, word) in [
        (Input::Command(Command::Start), "started"),
        (Input::Command(Command::Stop), "stopped"),
        (Input::Command(Command::Restart), "restarted"),
        (hold, "held"),
        (Input::Release, "released"),
    ] {
        let note = play.tell(&input).note;
        let expected = format!("sandbox a is being deleted and cannot be {word}; ");
        assert!(note.starts_with(&expected), "{note}");
    }
}

#[test]
fn every_timer_has_its_word() {
    let words: Vec<String> = Timer::ALL
        .iter()
        .map(|timer| Input::Timer(*timer).describe())
        .collect();
    let expected = [
        "timer retry",
        "timer look",
        "timer retire",
        "timer exit-report",
        "timer restart",
        "timer session-grace",
        "timer exit-confirmation",
        "timer adoption",
        "timer outage",
        "timer deadline",
    ];
    assert_eq!(words, expected);
}
