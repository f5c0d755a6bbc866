//! S2, a stop during recovery: the supervisor is lost, the workload is being cleaned up, and a user's stop meets the
//! failure that it recovers from. A relay on the engine's socket forces every overlap.

use openshell_e2e::command::Outcome;
use openshell_e2e::relay::{Calls, EventTrap, Events, Fault, Trap};
use serde_json::Value;

use crate::world::{Half, PATIENCE, World};

const MAIN: &[&str] = &["sh", "-c", "echo run >> /sandbox/boots; exec sleep 1000000"];
/// So that a containment which is held is soon shown as one that has not succeeded yet.
const SHORT: &str = "[openshell.lifecycle]\ncontainment_limit_secs = 1\n";
const BUSY: &str = "the device is busy with itself";

/// What the gateway is not told of the end of a sandbox `box`.
struct Unheard {
    deaths: EventTrap,
    wait: Trap,
}

impl Unheard {
    fn of(world: &World) -> Self {
        let relay = world.relay();
        let waits = Calls::waits().sandbox("box").of(Half::Workload).once();
        Self {
            deaths: relay.hold_events(Events::of_action("die").sandbox("box")),
            wait: relay.trap(waits, Fault::HoldAnswer),
        }
    }
}

fn of_workload(calls: Calls) -> Calls {
    calls.sandbox("box").of(Half::Workload)
}

fn kill_supervisor(world: &World) {
    let supervisor = world.container("box", Half::Supervisor);
    world.docker(&["kill", "-s", "KILL", &supervisor]);
}

/// The phases that the journal tells after the last command of a kind.
fn phases_since(world: &World, command: &str) -> Vec<String> {
    let journal = world.journal("box");
    let asked = journal.iter().rposition(|e| e["input"] == command);
    let since = &journal[asked.expect("it is in the journal")..];
    let phase = |entry: &Value| entry["new_phase"].as_str().unwrap_or_default().to_owned();
    since.iter().map(phase).collect()
}

/// Runs the CLI while something else is done, and gives its outcome.
fn meanwhile(world: &World, words: &[&str], work: impl FnOnce()) -> Outcome {
    std::thread::scope(|scope| {
        let cli = scope.spawn(|| world.run(words));
        work();
        cli.join().expect("the CLI ends")
    })
}

/// The supervisor is killed; the engine has killed the workload, and the gateway has not heard of that.
fn lost(name: &str) -> (World, Unheard, Trap) {
    let world = World::behind_relay(name, SHORT);
    let unheard = Unheard::of(&world);
    world.create("box", &[], MAIN);
    world.wait_boots("box", 1);
    world.said("box", "echo kept > /sandbox/note");
    let kills = of_workload(Calls::kills());
    let cleanup = world.relay().trap(kills, Fault::HoldAnswer);
    kill_supervisor(&world);
    cleanup.wait_held(1, PATIENCE).expect("the cleanup");
    let record = world.wait_phase("box", "Error", PATIENCE);
    assert_eq!(record["reason"], "ControlSupervisorExited", "{record}");
    unheard
        .deaths
        .wait_met(2, PATIENCE)
        .expect("both halves' ends");
    (world, unheard, cleanup)
}

#[test]
fn s2_a_b_d_a_stop_that_meets_the_failure_it_recovers_from_ends_stopped() {
    let (world, unheard, cleanup) = lost("s2-overlap");
    let before = world.record("box");
    let stop = meanwhile(&world, &["sandbox", "stop", "box"], || {
        world.wait_phase("box", "Stopping", PATIENCE);
        // The failure is observed while the stop is under way …
        assert_eq!(unheard.deaths.repeat(), 1);
        world.wait_judged("box", "superseded", "workload", 1);
        world.wait_judged("box", "superseded", "supervisor", 1);
        assert_eq!(world.phase("box"), "Stopping");
        cleanup.release();
    });
    assert_eq!(stop.code, 0, "{}", stop.errors());
    assert_eq!(world.phase("box"), "Stopped");
    // … and once more after its end.
    let stale = world.judged("box", "stale", "workload");
    unheard.wait.release();
    assert_eq!(unheard.deaths.release(), 1);
    world.wait_judged("box", "stale", "workload", stale + 1);
    assert_eq!(world.phase("box"), "Stopped");
    assert_eq!(world.running_since("box", Half::Workload), None);
    let phases = phases_since(&world, "command stop");
    assert!(
        phases.iter().all(|p| p == "Stopping" || p == "Stopped"),
        "{phases:?}"
    );

    world.ok(&["sandbox", "start", "box"]);
    let after = world.record("box");
    assert_eq!(after["phase"], "Ready", "{after}");
    assert_eq!(after["id"], before["id"]);
    assert_eq!(world.said("box", "cat /sandbox/note"), "kept");
    world.wait_boots("box", 2);
    world.delete("box");
    world.nothing_is_left();
}

#[test]
fn s2_a_the_engines_word_ends_the_stop_and_no_newer_run_begins_before_the_older_answer() {
    let (world, unheard, cleanup) = lost("s2-wait");
    let stop = meanwhile(&world, &["sandbox", "stop", "box"], || {
        world.wait_phase("box", "Stopping", PATIENCE);
        // The cleanup's own answer is still out; the wait's is enough.
        unheard.wait.release();
    });
    assert_eq!(stop.code, 0, "{}", stop.errors());
    assert_eq!(world.phase("box"), "Stopped");
    assert_eq!(world.running_since("box", Half::Workload), None);
    // A kill that is not answered could still hit what is started now: in the time in which another sandbox comes
    // into being, this one is not started.
    let starts = of_workload(Calls::starts());
    let starts = world.relay().trap(starts, Fault::Pass);
    world.ok(&["sandbox", "start", "box", "--no-wait"]);
    world.create("other", &[], MAIN);
    assert_eq!((starts.met(), cleanup.held()), (0, 1));
    cleanup.release();
    world.wait_run("box", 2);
    let since = world.running_since("box", Half::Workload);
    assert_eq!(unheard.deaths.release(), 1);
    world.wait_judged("box", "stale", "workload", 1);
    assert_eq!(world.phase("box"), "Ready");
    assert_eq!(world.running_since("box", Half::Workload), since);
    assert_eq!(world.said("box", "cat /sandbox/note"), "kept");
    world.wait_boots("box", 2);
    world.ok(&["sandbox", "delete", "box", "other"]);
    world.nothing_is_left();
}

#[test]
fn s2_c_a_stop_that_really_fails_says_so_and_can_be_tried_again() {
    let world = World::behind_relay("s2-fails", "");
    world.create("box", &[], MAIN);
    world.wait_boots("box", 1);
    let relay = world.relay();
    let [stops, kills] = [Calls::stops(), Calls::kills()]
        .map(|calls| relay.trap(of_workload(calls), Fault::Answer(500, BUSY)));
    let stop = world.run(&["sandbox", "stop", "box"]);
    assert_ne!(stop.code, 0, "it claims to have stopped");
    assert!(stop.errors().contains(BUSY), "{}", stop.errors());
    let record = world.record("box");
    assert_eq!(record["phase"], "Error", "{record}");
    assert_eq!(record["reason"], "StopFailed", "{record}");
    let message = record["message"].as_str().unwrap_or_default();
    assert!(message.contains("openshell sandbox stop box"), "{message}");
    assert!(world.running_since("box", Half::Workload).is_some());
    assert!(stops.met() + kills.met() > 0);
    stops.release();
    kills.release();
    world.ok(&["sandbox", "stop", "box"]);
    assert_eq!(world.phase("box"), "Stopped");
    assert_eq!(world.running_since("box", Half::Workload), None);
    world.wait_boots("box", 1);
    world.delete("box");
    world.nothing_is_left();
}

#[test]
fn s2_c_containment_goes_on_until_the_engine_obeys() {
    let world = World::behind_relay("s2-contain", "");
    world.create("box", &[], MAIN);
    world.wait_boots("box", 1);
    let kills = of_workload(Calls::kills()).times(2);
    let refused = world.relay().trap(kills, Fault::Answer(500, BUSY));
    kill_supervisor(&world);
    let record = world.wait_phase("box", "Error", PATIENCE);
    assert_eq!(record["reason"], "ControlSupervisorExited", "{record}");
    assert_eq!(refused.met(), 2);
    assert_eq!(world.running_since("box", Half::Workload), None);
    world.delete("box");
    world.nothing_is_left();
}

/// A stop that the engine has done, and whose answer the gateway waits for.
fn stopping(name: &str) -> (World, Unheard, Trap) {
    let world = World::behind_relay(name, "");
    let unheard = Unheard::of(&world);
    world.create("box", &[], MAIN);
    world.wait_boots("box", 1);
    let stops = of_workload(Calls::stops());
    let stop = world.relay().trap(stops, Fault::HoldAnswer);
    world.ok(&["sandbox", "stop", "box", "--no-wait"]);
    stop.wait_held(1, PATIENCE).expect("the stop's answer");
    assert_eq!(world.phase("box"), "Stopping");
    (world, unheard, stop)
}

#[test]
fn s2_c_a_start_during_a_stop_follows_it_and_is_not_trampled() {
    let (world, unheard, stop) = stopping("s2-start");
    world.ok(&["sandbox", "start", "box", "--no-wait"]);
    assert_eq!(world.phase("box"), "Stopping");
    stop.release();
    world.wait_run("box", 2);
    let since = world.running_since("box", Half::Workload);
    unheard.wait.release();
    assert_eq!(unheard.deaths.release(), 1);
    world.wait_judged("box", "stale", "workload", 1);
    assert_eq!(world.phase("box"), "Ready");
    assert_eq!(world.running_since("box", Half::Workload), since);
    world.wait_boots("box", 2);
    world.delete("box");
    world.nothing_is_left();
}

#[test]
fn s2_c_a_delete_during_a_stop_wins_and_leaves_nothing() {
    let (world, unheard, stop) = stopping("s2-delete");
    world.ok(&["sandbox", "delete", "box", "--timeout", "60"]);
    world.nothing_is_left();
    stop.release();
    unheard.wait.release();
    assert_eq!(unheard.deaths.release(), 1);
    // Nothing of it comes back, and the name is free.
    world.create("box", &[], MAIN);
    world.wait_boots("box", 1);
    world.delete("box");
    world.nothing_is_left();
}

#[test]
fn s2_c_a_stop_that_ends_late_is_still_one_stop() {
    let (world, unheard, stop) = stopping("s2-joins");
    // A second one joins; the engine is not asked twice.
    let again = meanwhile(&world, &["sandbox", "stop", "box"], || {
        world.wait_judged("box", "accepted", "command stop", 2);
        unheard.wait.release();
    });
    assert_eq!(again.code, 0, "{}", again.errors());
    assert_eq!(world.phase("box"), "Stopped");
    assert_eq!(stop.met(), 1);
    drop(stop);
    world.delete("box");
    world.nothing_is_left();
}
