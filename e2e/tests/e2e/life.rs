//! Life and its accidents: restarts by policy, a killed supervisor, a killed gateway.

use std::time::Duration;

use openshell_e2e::{ticks, wait};
use rustix::process::Signal;
use serde_json::json;

use crate::ticks::{GAP, TICKING, Ticks};
use crate::world::{Half, IDLE, PATIENCE, World, uptime};

#[test]
fn l8_on_failure_restarts_a_main_that_failed_once_and_keeps_its_files() {
    let world = World::new("on-failure");
    let main = "echo run >> /sandbox/boots; [ $(wc -l < /sandbox/boots) -ge 2 ] || exit 17; exec sleep 1000000";
    let created = world.try_create(
        "phoenix",
        &["--restart-policy", "on-failure"],
        &["sh", "-c", main],
    );
    assert_eq!(created.code, 0, "{}", created.errors());
    wait::until("the second run", PATIENCE, || {
        let seen = world.shell("phoenix", "cat /sandbox/boots");
        Ok((seen.code == 0 && seen.text() == "run\nrun").then_some(()))
    })
    .expect("two runs");
    let record = world.wait_phase("phoenix", "Ready", PATIENCE);
    assert_eq!(record["generation"], 2);
    assert_eq!(record["restart_count"], 1);
    let events = world.events("phoenix");
    assert!(
        events.contains("ended with 17"),
        "the journal does not tell:\n{events}"
    );
    world.delete("phoenix");
    world.nothing_is_left();
}

#[test]
fn l8_never_ends_in_completed_or_error_with_the_exit_code() {
    let world = World::new("never");
    for (name, code, phase, reason) in [
        ("good", 0, "Completed", "MainProcessCompleted"),
        ("bad", 3, "Error", "MainProcessFailed"),
        // A program may choose the numbers that look like signals.
        ("odd", 137, "Error", "MainProcessFailed"),
    ] {
        // It may have ended before the command that made it returns.
        world.try_create(name, &[], &["sh", "-c", &format!("exit {code}")]);
        let record = world.wait_phase(name, phase, PATIENCE);
        assert_eq!(record["reason"], reason, "{record}");
        assert_eq!(record["exit_code"], code, "{record}");
        assert_eq!(record["generation"], 1);
    }
    world.ok(&["sandbox", "start", "good"]);
    world.wait_phase("good", "Completed", PATIENCE);
    assert_eq!(world.record("good")["generation"], 2);
    world.ok(&["sandbox", "delete", "good", "bad", "odd"]);
    world.nothing_is_left();
}

#[test]
fn l8_always_restarts_with_growing_pauses_until_it_is_stopped() {
    let world = World::new("always");
    world.try_create(
        "loop",
        &["--restart-policy", "always"],
        &["sh", "-c", "echo run >> /sandbox/boots"],
    );
    wait::until("three restarts", PATIENCE, || {
        Ok((world.record("loop")["restart_count"].as_u64() >= Some(3)).then_some(()))
    })
    .expect("restarts");
    world.ok(&["sandbox", "stop", "loop"]);
    let stopped = world.record("loop");
    assert_eq!(stopped["phase"], "Stopped");
    assert_eq!(
        stopped["next_restart_time"],
        json!(null),
        "a pending restart is cancelled"
    );
    let boots = world.file_by_engine("loop", "/sandbox/boots");
    wait::pause(Duration::from_secs(5));
    assert_eq!(
        world.file_by_engine("loop", "/sandbox/boots"),
        boots,
        "it ran after the stop"
    );
    world.delete("loop");
    world.nothing_is_left();
}

#[test]
fn l11_a_killed_supervisor_freezes_the_workload_and_start_brings_it_back() {
    let world = World::new("contained");
    world.create("box", &[], TICKING);
    wait::until("ticks", PATIENCE, || {
        Ok((world
            .shell("box", "[ $(wc -l < /sandbox/ticks) -ge 5 ]")
            .code
            == 0)
            .then_some(()))
    })
    .expect("ticks");
    world.said("box", "echo kept > /sandbox/note");

    let supervisor = world.container("box", Half::Supervisor);
    world.docker(&["kill", "-s", "KILL", &supervisor]);
    let killed = uptime();
    let record = world.wait_phase("box", "Error", Duration::from_secs(15));
    assert_eq!(record["reason"], "ControlSupervisorExited", "{record}");
    let last = Ticks::parse(&world.file_by_engine("box", ticks::TICKS)).last();
    assert!(last < killed + 1.0, "it ran on for {} s", last - killed);

    world.ok(&["sandbox", "start", "box"]);
    assert_eq!(world.phase("box"), "Ready");
    assert_eq!(world.said("box", "cat /sandbox/note"), "kept");
    let events = world.events("box");
    assert!(
        events.contains("the supervisor ended with 137"),
        "the journal does not tell:\n{events}"
    );
    world.delete("box");
    world.nothing_is_left();
}

#[test]
fn a_killed_gateway_is_not_felt_by_the_workload_and_adopts_it_afterwards() {
    let mut world = World::new("adopted");
    world.create("box", &[], TICKING);
    let before = world.record("box");
    let workload = world.container("box", Half::Workload);
    let started = world.inspect(&workload)["State"]["StartedAt"].clone();

    world.gateway.end(Signal::KILL).expect("the gateway dies");
    wait::pause(Duration::from_secs(2));
    let died = uptime();
    world.gateway.launch().expect("the gateway comes back");
    world.wait_phase("box", "Ready", PATIENCE);

    let after = world.record("box");
    assert_eq!(after["generation"], before["generation"], "the same run");
    assert_eq!(
        world.inspect(&workload)["State"]["StartedAt"],
        started,
        "the same process"
    );
    assert_eq!(world.said("box", "echo still here"), "still here");
    let ticks = Ticks::on_disk(&world.workspace("box"));
    assert!(
        ticks.last() > died,
        "it did not tick while the gateway was away"
    );
    let gap = ticks.longest_pause(0.0);
    assert!(gap < GAP, "a gap of {gap} s in the ticks");
    world.delete("box");
    world.nothing_is_left();
}

#[test]
fn a_terminated_gateway_goes_in_time_and_leaves_what_runs_and_what_is_stopped() {
    let mut world = World::new("terminated");
    world.create("runs", &[], TICKING);
    world.create("rests", &[], IDLE);
    world.ok(&["sandbox", "stop", "rests"]);
    assert_eq!(world.gateway.end(Signal::TERM).expect("it ends"), 0);
    world.gateway.launch().expect("it comes back");
    world.wait_phase("runs", "Ready", PATIENCE);
    assert_eq!(world.record("runs")["generation"], 1);
    assert_eq!(world.phase("rests"), "Stopped");
    world.ok(&["sandbox", "delete", "runs", "rests"]);
    world.nothing_is_left();
}

#[test]
fn l12_delete_wins_from_every_phase() {
    let world = World::new("delete-wins");
    world.create("ready", &[], IDLE);
    world.create("stopped", &[], IDLE);
    world.ok(&["sandbox", "stop", "stopped"]);
    world.try_create("failed", &[], &["false"]);
    world.wait_phase("failed", "Error", PATIENCE);
    world.ok(&["sandbox", "delete", "ready", "stopped", "failed"]);
    world.nothing_is_left();
}
