//! S1, an exit that is told late: main fails, its replacement runs, and only then does the gateway hear of the first
//! run's end. The order is forced: a relay on the engine's socket keeps the events and the wait's answer back.

use openshell_e2e::relay::{Calls, EventTrap, Events, Fault, Trap};
use serde_json::Value;

use crate::world::{Half, PATIENCE, World};

/// Notes each run, and fails when it is told to.
const MAIN: &str = "touch /sandbox/boots; n=$(($(wc -l < /sandbox/boots) + 1)); echo \"of run $n\" > /sandbox/file-$n; echo run >> /sandbox/boots; \
    while [ ! -e /sandbox/end-$n ]; do usleep 50000; done; exit 17";

/// A sandbox whose second run is Ready, and what the gateway has not yet heard of the first.
struct Replaced {
    deaths: EventTrap,
    waits: Trap,
    world: World,
}

fn replaced(name: &str) -> Replaced {
    let world = World::behind_relay(name, "");
    let relay = world.relay();
    let deaths = relay.hold_events(Events::of_action("die").sandbox("phoenix"));
    let waits = Calls::waits().sandbox("phoenix").of(Half::Workload);
    let waits = relay.trap(waits, Fault::HoldAnswer);
    let policy = ["--restart-policy", "on-failure"];
    world.create("phoenix", &policy, &["sh", "-c", MAIN]);
    end_run(&world, 1);
    deaths.wait_met(1, PATIENCE).expect("the first run's end");
    waits.wait_held(1, PATIENCE).expect("the wait's answer");
    // A stream that breaks has the gateway ask the engine: what is held is not what the restart waits for.
    assert_eq!(relay.cut(&Calls::events()), 1);
    let record = world.wait_run("phoenix", 2);
    assert_eq!(record["restart_count"], 1, "{record}");
    assert_eq!(stale_deaths(&world), 0);
    Replaced {
        deaths,
        waits,
        world,
    }
}

/// Has main fail. It may be gone before it is known that it was told so.
fn end_run(world: &World, run: u32) {
    world.shell("phoenix", &format!("touch /sandbox/end-{run}"));
}

fn stale_deaths(world: &World) -> usize {
    world.judged("phoenix", "stale", "workload")
}

/// What must not change: the record but for its version, and both processes by the engine's own word.
fn standing(world: &World) -> (Value, [Option<String>; 2]) {
    let mut record = world.record("phoenix");
    record["resource_version"] = Value::Null;
    let since = |half| world.running_since("phoenix", half);
    (record, [since(Half::Workload), since(Half::Supervisor)])
}

#[test]
fn s1_a_b_an_exit_that_is_told_after_the_replacement_is_ready_changes_nothing() {
    let Replaced {
        deaths,
        waits,
        world,
    } = replaced("s1-late");
    let before = standing(&world);
    assert!(before.1.iter().all(Option::is_some), "{before:?}");
    // Twice, for what is told late may be told again.
    assert_eq!(deaths.repeat(), 1);
    world.wait_judged("phoenix", "stale", "workload", 1);
    waits.release();
    assert_eq!(deaths.release(), 1);
    world.wait_judged("phoenix", "stale", "workload", 2);
    assert_eq!(standing(&world), before);
    let files = "cat /sandbox/file-1 /sandbox/file-2";
    world.wait_boots("phoenix", 2);
    assert_eq!(world.said("phoenix", files), "of run 1\nof run 2");
    world.delete("phoenix");
    world.nothing_is_left();
}

#[test]
fn s1_c_a_genuine_exit_right_behind_the_stale_one_is_acted_on() {
    let Replaced {
        deaths,
        waits,
        world,
    } = replaced("s1-genuine");
    let told = deaths.met();
    end_run(&world, 2);
    deaths
        .wait_met(told + 1, PATIENCE)
        .expect("the second run's end");
    waits.wait_held(1, PATIENCE).expect("the wait's answer");
    // Nothing else tells of it, and its report alone moves nothing.
    assert_eq!(world.phase("phoenix"), "Ready");
    assert_eq!(deaths.release(), 1);
    let record = world.wait_run("phoenix", 3);
    assert_eq!(record["restart_count"], 2, "{record}");
    world.wait_judged("phoenix", "stale", "workload", 1);
    waits.release();
    world.wait_boots("phoenix", 3);
    assert_eq!(world.said("phoenix", "cat /sandbox/file-3"), "of run 3");
    assert!(world.running_since("phoenix", Half::Workload).is_some());
    world.delete("phoenix");
    world.nothing_is_left();
}

#[test]
fn s1_d_a_genuine_loss_of_the_supervisor_after_the_stale_exit_still_contains() {
    let Replaced {
        deaths,
        waits,
        world,
    } = replaced("s1-loss");
    waits.release();
    assert_eq!(deaths.release(), 1);
    world.wait_judged("phoenix", "stale", "workload", 1);
    world.wait_boots("phoenix", 2);
    let since = world.running_since("phoenix", Half::Workload);
    let supervisor = world.container("phoenix", Half::Supervisor);
    world.docker(&["kill", "-s", "KILL", &supervisor]);
    // Its policy has it started again once it is contained; main does not run on.
    world.wait_run("phoenix", 3);
    let contained = |entry: &Value| entry["reason"] == "ControlSupervisorExited";
    let events = world.events("phoenix");
    assert!(world.journal("phoenix").iter().any(contained), "{events}");
    let again = world.running_since("phoenix", Half::Workload);
    assert!(again.is_some() && again != since, "{since:?} {again:?}");
    world.wait_boots("phoenix", 3);
    world.delete("phoenix");
    world.nothing_is_left();
}
