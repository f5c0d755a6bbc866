//! L3, L4, L5: what speaks of another run, what is only a hint, what an operation outranks.

use std::time::Duration;

use openshell_core::journal::Verdict;
use openshell_core::{Generation, Incarnation, Phase, Reason, RestartPolicy, Timestamp};

use super::play::{Luck, Play, instance};
use crate::driver::{
    EngineEvent, EngineEventKind, EngineExit, Launched, Prepared, Role, Sighting, WaitOutcome,
};
use crate::fence::SessionRefused;
use crate::machine::{Answer, Command, Effect, Input, Opened, Outcome};
use crate::ports::{MainReport, SessionEvent};
use crate::time::after;

fn ready() -> Play {
    let mut play = Play::new(RestartPolicy::OnFailure);
    play.settle();
    assert_eq!(play.phase(), Phase::Ready);
    play
}

fn exit_of(play: &Play, role: Role, started_at: Timestamp) -> Input {
    let incarnation = Incarnation {
        container: play.id(role).expect("made"),
        started_at,
    };
    let exit = EngineExit {
        code: 17,
        oom_killed: false,
        finished_at: after(started_at, Duration::from_secs(1)),
    };
    Input::Waited(
        role,
        incarnation.clone(),
        WaitOutcome::Exited(incarnation, exit),
    )
}

#[test]
fn l3_an_exit_of_another_incarnation_changes_nothing_and_asks_nothing() {
    let mut play = ready();
    let before = play.state.record.clone();
    let stale = exit_of(&play, Role::Workload, Timestamp::UNIX_EPOCH);
    let step = play.tell(&stale);
    assert_eq!(step.verdict, Verdict::Stale);
    assert!(step.journaled);
    assert_eq!(step.effects, []);
    assert_eq!(play.state.record, before);
}

#[test]
fn l3_a_session_of_another_run_or_of_another_instance_is_refused() {
    let mut play = ready();
    let opened = |generation, instance| {
        Input::SessionOpened(Opened {
            generation,
            instance,
            enforced: true,
            main: MainReport::NotStarted,
        })
    };
    let present = play.generation();
    let stale = opened(Generation(0), instance(present));
    let step = play.tell(&stale);
    assert_eq!(step.verdict, Verdict::Stale);
    assert!(matches!(
        step.answer,
        Answer::SessionRefused(SessionRefused::StaleGeneration { .. })
    ));
    let step = play.tell(&opened(present, instance(Generation(77))));
    assert_eq!(
        step.answer,
        Answer::SessionRefused(SessionRefused::OtherInstance(present))
    );
    assert_eq!(play.phase(), Phase::Ready);
}

#[test]
fn an_unproven_posture_fails_the_start() {
    let mut play = Play::new(RestartPolicy::Never);
    for _ in 0..3 {
        play.come_out(Luck::Good);
    }
    let generation = play.generation();
    let step = play.tell(&Input::SessionOpened(Opened {
        generation,
        instance: instance(generation),
        enforced: false,
        main: MainReport::NotStarted,
    }));
    assert_eq!(
        step.answer,
        Answer::SessionRefused(SessionRefused::NotEnforced)
    );
    play.settle();
    assert_eq!(play.phase(), Phase::Error);
    assert_eq!(play.containers(), 0);
}

#[test]
fn l4_a_confirmed_looking_exit_is_asked_about_before_anything_moves() {
    let mut play = ready();
    let started = play.state.record.life.run.as_ref();
    let started = started
        .and_then(|r| r.workload_started)
        .expect("it was started");
    let hint = exit_of(&play, Role::Workload, started);
    let step = play.tell(&hint);
    assert_eq!(step.verdict, Verdict::NeedsALook);
    assert!(matches!(
        step.effects[..],
        [Effect::Look(Role::Workload, ..)]
    ));
    assert_eq!(play.phase(), Phase::Ready);
    // The engine says that it is alive: nothing has happened, and it is watched again.
    play.come_out(Luck::Good);
    assert_eq!(play.phase(), Phase::Ready);
    assert_eq!(play.state.watching.len(), 2);
}

#[test]
fn l4_an_answer_that_is_not_one_is_unknown_and_asked_again() {
    let mut play = ready();
    play.end(Role::Workload, 17);
    play.observe();
    for _ in 0..5 {
        let step = play.come_out(Luck::Unreachable).expect("a look");
        assert_eq!(step.verdict, Verdict::Unknown);
        assert_eq!(play.phase(), Phase::Ready);
        play.fire_next();
    }
}

#[test]
fn l18_an_engine_that_is_another_one_is_no_evidence() {
    let mut play = ready();
    let started = play.state.record.life.run.as_ref();
    let started = started
        .and_then(|r| r.workload_started)
        .expect("it was started");
    let hint = exit_of(&play, Role::Workload, started);
    play.tell(&hint);
    let serial = play.state.looking[&Role::Workload];
    let other = openshell_core::EngineId("another".to_owned());
    let step = play.tell(&Input::Looked {
        role: Role::Workload,
        serial,
        answer: Ok(Sighting::Missing(other)),
    });
    assert_eq!(step.verdict, Verdict::Unknown);
    assert_eq!(play.phase(), Phase::Ready);
}

#[test]
fn l5_observations_during_a_stop_change_no_phase() {
    let mut play = ready();
    let run = play.state.record.life.run.clone().expect("a run");
    play.command(Command::Stop);
    let lost = exit_of(
        &play,
        Role::Supervisor,
        run.supervisor_started.expect("started"),
    );
    let step = play.tell(&lost);
    assert_eq!(step.verdict, Verdict::Superseded);
    assert_eq!(step.effects, []);
    let failed = play.say(SessionEvent::Failed("LinkLost".to_owned(), String::new()));
    assert_eq!(play.tell(&failed).verdict, Verdict::Superseded);
    assert_eq!(play.phase(), Phase::Stopping);
    play.settle();
    assert_eq!(play.phase(), Phase::Stopped);
}

#[test]
fn l14_a_container_with_our_labels_that_is_not_recorded_is_left_alone() {
    let mut play = ready();
    let step = play.tell(&Input::Event(EngineEvent {
        sandbox: play.state.record.meta.id,
        role: Role::Workload,
        container: openshell_core::ContainerId("foreign".to_owned()),
        kind: EngineEventKind::Died { code: 1 },
        time: play.now,
    }));
    assert_eq!(step.verdict, Verdict::Stale);
    assert_eq!(step.effects, []);
}

#[test]
fn an_exit_without_a_report_is_mains_unless_a_signal_did_it() {
    for (code, reason) in [
        (17, Reason::MainProcessFailed),
        (0, Reason::MainProcessCompleted),
        (137, Reason::ContainerExited),
    ] {
        let mut play = Play::new(RestartPolicy::Never);
        play.settle();
        play.end(Role::Workload, code);
        play.rest();
        assert_eq!(play.state.record.life.condition.reason, reason, "{code}");
    }
}

#[test]
fn both_halves_gone_after_a_crash_without_a_report_is_an_infrastructure_loss() {
    let mut play = Play::new(RestartPolicy::Never);
    play.settle();
    play.end(Role::Workload, 137);
    play.end(Role::Supervisor, 137);
    play.crash();
    play.rest();
    assert_eq!(play.phase(), Phase::Ready);
    assert_eq!(play.generation(), Generation(2));
}

#[test]
fn containers_without_ids_and_launches_of_others_are_no_answer() {
    let mut play = Play::new(RestartPolicy::Never);
    play.come_out(Luck::Good);
    let Some(Effect::PrepareRun(ticket)) = play.pending.pop_front() else {
        panic!("it is being prepared");
    };
    let id = |s: &str| openshell_core::ContainerId(s.to_owned());
    for (workload, supervisor) in [("w", ""), ("w", "w"), ("", "s")] {
        let mut play = play.clone();
        let prepared = Prepared {
            workload: id(workload),
            supervisor: id(supervisor),
            engine: openshell_core::EngineId("e".to_owned()),
        };
        play.tell(&Input::Outcome(ticket, Outcome::Prepared(Ok(prepared))));
        assert_eq!(play.id(Role::Workload), None, "{workload:?} {supervisor:?}");
    }
    play.tell(&Input::Outcome(
        ticket,
        Outcome::Prepared(Ok(Prepared {
            workload: id(""),
            supervisor: id("s"),
            engine: openshell_core::EngineId("e".to_owned()),
        })),
    ));
    play.rest();
    assert_eq!(play.phase(), Phase::Error);
    assert!(
        play.message().contains("makes no sense"),
        "{}",
        play.message()
    );
    play.command(Command::Start);
    play.come_out(Luck::Good);
    play.come_out(Luck::Good);
    let Some(Effect::Launch(ticket, prepared)) = play.pending.pop_front() else {
        panic!("it is being launched: {:?}", play.pending);
    };
    let seen = |container| Incarnation {
        container,
        started_at: play.now,
    };
    let launched = Launched {
        workload: seen(id("")),
        supervisor: seen(prepared.supervisor),
    };
    play.tell(&Input::Outcome(ticket, Outcome::Launched(Ok(launched))));
    play.rest();
    assert_eq!(
        play.phase(),
        Phase::Ready,
        "the engine was asked instead (L10)"
    );
}

#[test]
fn an_exit_before_its_own_start_is_still_an_end_and_no_long_life() {
    let mut play = Play::new(RestartPolicy::Always);
    play.settle();
    let run = play.state.record.life.run.clone().expect("a run");
    let seen = run.workload_incarnation().expect("started");
    play.end_at(Role::Workload, 1, Timestamp::UNIX_EPOCH);
    let exit = EngineExit {
        code: 1,
        oom_killed: false,
        finished_at: Timestamp::UNIX_EPOCH,
    };
    play.tell(&Input::Waited(
        Role::Workload,
        seen.clone(),
        WaitOutcome::Exited(seen, exit),
    ));
    play.rest();
    assert_eq!(play.phase(), Phase::Ready);
    assert_eq!(play.generation(), Generation(2));
    assert_eq!(play.state.record.life.restart.count, 1);
}

#[test]
fn l16_what_is_due_moves_with_the_clock_in_either_direction() {
    for by in [-3600, 86_400] {
        let mut play = ready();
        play.command(Command::Stop);
        let before = play.state.timers.clone();
        let deadline = play
            .state
            .record
            .life
            .operation
            .clone()
            .expect("a stop")
            .deadline;
        let by = jiff::SignedDuration::from_secs(by);
        play.tell(&Input::ClockMoved(by));
        for (timer, due) in &play.state.timers {
            assert_eq!(due.duration_since(before[timer]), by);
        }
        let after = play
            .state
            .record
            .life
            .operation
            .clone()
            .expect("a stop")
            .deadline;
        assert_eq!(after.duration_since(deadline), by);
    }
}
