//! L7: from every phase, start, stop, restart and delete each lead somewhere.

use openshell_core::{Intent, Phase, RestartPolicy};

use super::play::{Luck, Play};
use crate::driver::Role;
use crate::machine::{Answer, Command, Course, Stage};
use crate::ports::SessionEvent;

/// Every situation a command may meet, by name.
fn situations() -> Vec<(&'static str, Phase, Play)> {
    let never = || Play::new(RestartPolicy::Never);
    let ready = |policy| {
        let mut play = Play::new(policy);
        play.settle();
        assert_eq!(play.phase(), Phase::Ready);
        play
    };
    let ended = |policy, code| {
        let mut play = ready(policy);
        let exit = play.say(SessionEvent::MainExited(code, play.now, String::new()));
        play.tell(&exit);
        play.end(Role::Workload, code);
        play
    };
    let mut all = vec![
        ("pulling", Phase::Provisioning, never()),
        ("ready", Phase::Ready, ready(RestartPolicy::Never)),
    ];
    for (name, steps) in [("preparing", 1), ("launching", 2), ("awaiting", 3)] {
        let mut play = never();
        for _ in 0..steps {
            play.come_out(Luck::Good);
        }
        all.push((name, Phase::Provisioning, play));
    }
    let mut play = ready(RestartPolicy::Never);
    play.command(Command::Stop);
    all.push(("stopping", Phase::Stopping, play));
    let mut play = ready(RestartPolicy::Never);
    play.command(Command::Stop);
    play.settle();
    all.push(("stopped", Phase::Stopped, play));
    let mut play = ready(RestartPolicy::Never);
    play.command(Command::Stop);
    play.settle();
    play.command(Command::Start);
    all.push(("starting again", Phase::Starting, play));
    for (name, code, phase) in [
        ("completed", 0, Phase::Completed),
        ("failed", 3, Phase::Error),
    ] {
        let mut play = ended(RestartPolicy::Never, code);
        play.settle();
        all.push((name, phase, play));
    }
    let mut play = ended(RestartPolicy::Always, 1);
    play.settle();
    let exit = play.say(SessionEvent::MainExited(1, play.now, String::new()));
    play.tell(&exit);
    play.end(Role::Workload, 1);
    play.settle();
    all.push(("backing off", Phase::Starting, play));
    let mut play = ready(RestartPolicy::Never);
    play.end(Role::Supervisor, 137);
    play.observe();
    play.come_out(Luck::Good);
    all.push(("containing", Phase::Stopping, play));
    let mut play = ready(RestartPolicy::Never);
    play.end(Role::Supervisor, 137);
    play.settle();
    all.push(("contained", Phase::Error, play));
    let mut play = ready(RestartPolicy::Never);
    play.command(Command::Stop);
    for _ in 0..4 {
        play.come_out(Luck::Refused);
        if play.phase() == Phase::Stopping {
            play.fire_next();
        }
    }
    all.push(("not stopped", Phase::Error, play));
    let mut play = ready(RestartPolicy::Never);
    play.tell(&crate::machine::Input::EngineLost("gone".to_owned()));
    while play.phase() == Phase::Ready {
        play.fire_next();
        play.come_out(Luck::Unreachable);
        play.come_out(Luck::Unreachable);
    }
    all.push(("out of sight", Phase::Unknown, play));
    let mut play = ready(RestartPolicy::Never);
    let told = play.say(SessionEvent::MainStopped(143, play.now));
    play.tell(&told);
    play.end(Role::Workload, 143);
    play.end(Role::Supervisor, 0);
    play.settle();
    all.push(("told to end", Phase::Stopping, play));
    let mut play = ready(RestartPolicy::Never);
    play.lose_engine("gone");
    play.end(Role::Supervisor, 137);
    play.find_engine();
    play.pending.rotate_left(1);
    play.come_out(Luck::Good);
    all.push(("proving", Phase::Provisioning, play));
    let mut play = ready(RestartPolicy::Never);
    play.lose_engine("gone");
    while play.phase() == Phase::Ready {
        play.fire_next();
        while play.come_out(Luck::Unreachable).is_some() {}
    }
    play.end(Role::Workload, 137);
    play.end(Role::Supervisor, 137);
    all.push(("lost out of sight", Phase::Unknown, play));
    let mut play = ended(RestartPolicy::Never, 3);
    play.settle();
    play.start_outside(Role::Workload);
    play.find_engine();
    play.come_out(Luck::Good);
    all.push(("stopping again", Phase::Error, play));
    let mut play = ready(RestartPolicy::Never);
    play.tell(&crate::machine::Input::Park);
    play.settle();
    play.crash();
    all.push(("parked", Phase::Starting, play));
    let mut play = ready(RestartPolicy::Never);
    play.command(Command::Delete);
    all.push(("deleting", Phase::Deleting, play));
    let mut play = ready(RestartPolicy::Never);
    play.crash();
    all.push(("restoring", Phase::Provisioning, play));
    all
}

#[test]
fn every_situation_is_what_it_is_called() {
    for (name, phase, play) in situations() {
        assert_eq!(play.phase(), phase, "{name}");
    }
}

#[test]
fn l7_every_command_in_every_phase_leads_where_the_table_says() {
    for command in Command::ALL {
        for (name, before, mut play) in situations() {
            let step = play.command(command);
            let refused = matches!(step.answer, Answer::Refused(_));
            let deleting = before == Phase::Deleting;
            assert_eq!(
                refused,
                deleting && command != Command::Delete,
                "{command:?} while {name}"
            );
            play.rest();
            let after = play.phase();
            match command {
                _ if deleting => assert!(play.gone, "{command:?} while {name}"),
                Command::Start | Command::Restart => {
                    assert_eq!(after, Phase::Ready, "{command:?} while {name}");
                }
                Command::Stop => {
                    assert_eq!(after, Phase::Stopped, "while {name}");
                    assert!(!play.anything_runs(), "while {name}");
                    assert_eq!(play.state.record.life.intent, Intent::Stopped);
                }
                Command::Delete => {
                    assert!(play.gone, "while {name}");
                    assert_eq!(play.containers(), 0, "while {name}");
                }
            }
        }
    }
}

#[test]
fn two_commands_in_a_row_end_as_the_later_one_asks() {
    for first in Command::ALL {
        for second in Command::ALL {
            for (name, _, mut play) in situations() {
                play.command(first);
                play.command(second);
                play.rest();
                let deleted = [first, second].contains(&Command::Delete) || name == "deleting";
                let expected = match second {
                    Command::Stop => Phase::Stopped,
                    _ => Phase::Ready,
                };
                assert_eq!(play.gone, deleted, "{first:?}, {second:?} while {name}");
                if !deleted {
                    assert_eq!(play.phase(), expected, "{first:?}, {second:?} while {name}");
                }
            }
        }
    }
}

#[test]
fn l2_after_a_crash_at_any_step_a_command_still_ends_as_asked() {
    for command in Command::ALL {
        for crash_after in 0..6 {
            for (name, before, mut play) in situations() {
                play.command(command);
                for _ in 0..crash_after {
                    if !play.gone && play.come_out(Luck::Good).is_none() {
                        play.supervise();
                    }
                }
                if play.gone {
                    continue;
                }
                play.crash();
                play.rest();
                let context = format!("{command:?}, crash after {crash_after}, while {name}");
                match command {
                    _ if before == Phase::Deleting => assert!(play.gone, "{context}"),
                    Command::Stop => assert_eq!(play.phase(), Phase::Stopped, "{context}"),
                    Command::Delete => assert!(play.gone, "{context}"),
                    _ => assert_eq!(play.phase(), Phase::Ready, "{context}"),
                }
                for (generation, times) in &play.launched {
                    assert_eq!(*times, 1, "L10: run {generation}: {context}");
                }
            }
        }
    }
}

#[test]
fn a_session_may_open_before_the_launch_is_answered() {
    let mut play = Play::new(RestartPolicy::Never);
    play.come_out(Luck::Good);
    play.come_out(Luck::Good);
    assert_eq!(play.state.course, Course::Bring(Stage::Launch));
    let opened = play.open();
    let step = play.tell(&opened);
    assert_eq!(step.answer, Answer::Accepted);
    let started = play.say(SessionEvent::MainStarted(play.now));
    play.tell(&started);
    assert_eq!(
        play.phase(),
        Phase::Provisioning,
        "not before it is known to run"
    );
    play.come_out(Luck::Good);
    assert_eq!(play.phase(), Phase::Ready);
}
