//! Random inputs in random order: what must hold, holds after every step, and it always comes to rest.

use openshell_core::journal::Verdict;
use openshell_core::{
    ContainerId, Generation, Incarnation, Intent, Phase, RestartPolicy, Timestamp,
};
use proptest::prelude::*;

use super::play::{Luck, Play};
use crate::driver::{EngineExit, Role, WaitOutcome};
use crate::machine::{Command, Course, Input, Stage};
use crate::ports::SessionEvent;

#[derive(Clone, Debug)]
enum Move {
    Command(Command),
    ComeOut(Luck),
    Reorder,
    Supervise,
    Observe,
    End(Role, i32),
    Report(i32),
    Session(SessionEvent),
    StaleExit(Role),
    StaleSession,
    EngineLost,
    EngineConnected,
    Timer,
    Crash,
    Park,
    Hold,
    Release,
    StartOutside,
}

fn moves() -> impl Strategy<Value = Move> {
    let luck = prop_oneof![
        6 => Just(Luck::Good),
        1 => Just(Luck::Refused),
        1 => Just(Luck::Unreachable),
        1 => Just(Luck::Lost),
    ];
    let role = || prop_oneof![Just(Role::Workload), Just(Role::Supervisor)];
    let code = || prop_oneof![Just(0), Just(1), Just(137)];
    let event = prop_oneof![
        Just(SessionEvent::Link(false)),
        Just(SessionEvent::Link(true)),
        Just(SessionEvent::Failed(
            "LinkLost".to_owned(),
            "gone".to_owned()
        )),
        Just(SessionEvent::Closed("eof".to_owned())),
    ];
    prop_oneof![
        3 => prop::sample::select(&Command::ALL[..3]).prop_map(Move::Command),
        1 => prop_oneof![8 => Just(Command::Stop), 1 => Just(Command::Delete)].prop_map(Move::Command),
        16 => luck.prop_map(Move::ComeOut),
        2 => Just(Move::Reorder),
        6 => Just(Move::Supervise),
        6 => Just(Move::Observe),
        2 => (role(), code()).prop_map(|(r, c)| Move::End(r, c)),
        2 => code().prop_map(Move::Report),
        2 => event.prop_map(Move::Session),
        2 => role().prop_map(Move::StaleExit),
        1 => Just(Move::StaleSession),
        1 => Just(Move::EngineLost),
        1 => Just(Move::EngineConnected),
        4 => Just(Move::Timer),
        1 => Just(Move::Crash),
        1 => Just(Move::Park),
        1 => Just(Move::Hold),
        2 => Just(Move::Release),
        1 => Just(Move::StartOutside),
    ]
}

fn stale_exit(play: &Play, role: Role) -> Input {
    let container = play
        .id(role)
        .unwrap_or_else(|| ContainerId("old".to_owned()));
    let incarnation = Incarnation {
        container,
        started_at: Timestamp::UNIX_EPOCH,
    };
    let exit = EngineExit {
        code: 1,
        oom_killed: false,
        finished_at: Timestamp::UNIX_EPOCH,
    };
    Input::Waited(
        role,
        incarnation.clone(),
        WaitOutcome::Exited(incarnation, exit),
    )
}

fn must_be_stale(play: &mut Play, input: &Input) {
    let before = play.state.record.clone();
    let step = play.tell(input);
    assert_eq!(step.verdict, Verdict::Stale, "{input:?}");
    assert_eq!(play.state.record, before, "{input:?}");
}

fn apply(play: &mut Play, chosen: &Move) {
    match chosen {
        Move::Command(command) => {
            play.command(*command);
        }
        Move::ComeOut(luck) => {
            play.come_out(*luck);
        }
        Move::Reorder => play.pending.rotate_left(play.pending.len().min(1)),
        Move::Supervise => {
            play.supervise();
        }
        Move::Observe => play.observe(),
        Move::End(role, code) => play.end(*role, *code),
        Move::Report(code) => {
            // A report is true: main has ended, so PID 1 ends too.
            if play.id(Role::Workload).is_some_and(|id| play.runs(&id))
                && play.state.session.is_some()
            {
                let report = SessionEvent::MainExited(*code, play.now, String::new());
                let input = play.say(report);
                play.end(Role::Workload, *code);
                play.tell(&input);
            }
        }
        Move::Session(event) => {
            let input = play.say(event.clone());
            play.tell(&input);
        }
        Move::StaleExit(role) => {
            let input = stale_exit(play, *role);
            must_be_stale(play, &input);
        }
        Move::StaleSession => {
            let event = SessionEvent::MainExited(0, play.now, String::new());
            let instance = super::play::instance(Generation(99));
            must_be_stale(play, &Input::SessionEvent(Generation(99), instance, event));
        }
        Move::EngineLost => {
            play.tell(&Input::EngineLost("gone".to_owned()));
        }
        Move::EngineConnected => {
            let engine = openshell_core::EngineId("e".to_owned());
            play.tell(&Input::EngineConnected(engine));
        }
        Move::Timer => {
            play.fire_next();
        }
        Move::Crash => play.crash(),
        Move::Park => {
            play.tell(&Input::Park);
        }
        Move::Hold => {
            play.tell(&Input::Hold {
                by: "ada".to_owned(),
                reason: String::new(),
            });
        }
        Move::Release => {
            play.tell(&Input::Release);
        }
        Move::StartOutside => play.start_outside(Role::Workload),
    }
}

fn invariants(play: &Play, before: (Intent, Generation, Phase), chosen: &Move) {
    let life = &play.state.record.life;
    let (intent, generation, phase) = before;
    if !matches!(chosen, Move::Command(_) | Move::Hold) {
        assert_eq!(life.intent, intent, "only a command changes the intent");
    }
    assert!(life.generation >= generation, "generations only grow");
    if phase == Phase::Deleting {
        assert_eq!(life.phase, Phase::Deleting, "L12");
    }
    if matches!(phase, Phase::Stopped | Phase::Completed | Phase::Error) {
        assert_ne!(life.phase, Phase::Ready, "L17: no flicker to Ready");
    }
    if life.phase == Phase::Ready {
        let run = life.run.as_ref().expect("Ready has a run");
        assert!(run.workload_started.is_some() && run.main_started.is_some());
        assert!(matches!(play.state.course, Course::Run));
    }
    if life.phase == Phase::Stopped {
        let runs = play.id(Role::Workload).is_some_and(|id| play.runs(&id));
        assert!(!runs || play.outside, "L6");
        assert!(life.operation.is_none());
    }
    if let Course::Bring(Stage::Launch) = play.state.course {
        assert!(play.id(Role::Supervisor).is_some(), "L2: ids before start");
    }
    if life.hold.is_some() {
        assert_ne!(
            life.intent,
            Intent::Running,
            "what is held is not meant to run"
        );
    }
    for (generation, times) in &play.launched {
        assert!(
            *times <= 1,
            "L10: run {generation} was launched {times} times"
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_iters: 4000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_happens_it_holds_its_promises_and_comes_to_rest(
        policy in prop_oneof![Just(RestartPolicy::Never), Just(RestartPolicy::OnFailure), Just(RestartPolicy::Always)],
        moves in prop::collection::vec(moves(), 1..60),
    ) {
        let mut play = Play::new(policy);
        for chosen in &moves {
            if play.gone {
                break;
            }
            let life = &play.state.record.life;
            let before = (life.intent, life.generation, life.phase);
            apply(&mut play, chosen);
            invariants(&play, before, chosen);
        }
        // A parked life waits for the gateway's next start.
        if !play.gone {
            play.crash();
            play.find_engine();
        }
        play.rest();
        let life = &play.state.record.life;
        match life.intent {
            Intent::Deleted => {
                prop_assert!(play.gone);
                prop_assert_eq!(play.containers(), 0);
            }
            Intent::Stopped => {
                prop_assert!(matches!(life.phase, Phase::Stopped | Phase::Error), "{:?}", life);
            }
            Intent::Running => {
                prop_assert!(
                    matches!(life.phase, Phase::Ready | Phase::Completed | Phase::Error),
                    "{:?}", life
                );
            }
        }
        if life.phase != Phase::Ready && life.condition.reason != openshell_core::Reason::StopFailed {
            prop_assert!(!play.anything_runs(), "{:#?}", play.state);
        }
    }
}
