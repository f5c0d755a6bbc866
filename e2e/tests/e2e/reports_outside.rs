//! What happened to users of systems like this one when somebody went to the engine behind the gateway's back, tried
//! here: containers that are stopped, started and paused by hand; and what a gateway says of what rests.

use std::collections::BTreeMap;

use rustix::process::Signal;

use crate::ticks::{TICKING, run_on, wait_still, wait_ticking};
use crate::world::{Half, PATIENCE, World};

#[test]
fn b5_a_container_that_is_stopped_and_started_by_hand_is_stopped_again_and_start_works() {
    let world = World::new("b5");
    world.create("box", &[], TICKING);
    let container = world.container("box", Half::Workload);
    world.docker(&["stop", &container]);
    world.docker(&["start", &container]);
    let record = world.wait_phase("box", "Error", PATIENCE);
    assert_eq!(record["reason"], "ContainerStopped", "{record}");
    // Nothing governs it.
    world.wait_gone("box", Half::Workload);
    world.ok(&["sandbox", "start", "box"]);
    world.wait_boots("box", 2);
    assert_eq!(world.container("box", Half::Workload), container);
    world.delete("box");
    world.nothing_is_left();
}

#[test]
fn b6_a_pause_is_no_end_and_one_that_lasts_is_contained_and_says_so() {
    let world = World::new("b6");
    world.create("box", &[], TICKING);
    let workspace = world.workspace("box");
    let container = world.container("box", Half::Workload);
    wait_ticking(&workspace);
    world.docker(&["pause", &container]);
    wait_still(&workspace);
    run_on();
    world.docker(&["unpause", &container]);
    wait_ticking(&workspace);
    assert_eq!(world.phase("box"), "Ready");
    assert_eq!(world.said("box", "echo on"), "on");
    world.docker(&["pause", &container]);
    let record = world.wait_phase("box", "Error", 2 * PATIENCE);
    println!("{record}\n{}", world.events("box"));
    world.ok(&["sandbox", "start", "box"]);
    world.wait_boots("box", 2);
    world.delete("box");
    world.nothing_is_left();
}

#[test]
fn b7_a_stopped_sandbox_whose_container_is_started_by_hand_rests_again_and_starts_at_once() {
    let world = World::new("b7");
    world.create("box", &[], TICKING);
    world.ok(&["sandbox", "stop", "box"]);
    let container = world.container("box", Half::Workload);
    world.docker(&["start", &container]);
    world.ok(&["sandbox", "start", "box"]);
    world.wait_phase("box", "Ready", PATIENCE);
    world.wait_boots("box", 2);
    world.ok(&["sandbox", "stop", "box"]);
    world.docker(&["start", &container]);
    world.wait_gone("box", Half::Workload);
    world.wait_phase("box", "Stopped", PATIENCE);
    world.wait_boots("box", 2);
    world.delete("box");
    world.nothing_is_left();
}

#[test]
fn b20_what_rests_is_looked_at_once_after_a_restart_and_nothing_is_said_twice() {
    let mut world = World::new("b20");
    let names = ["ada", "bob", "eve"];
    for name in names {
        world.create(name, &[], TICKING);
        world.ok(&["sandbox", "stop", name]);
    }
    for _ in 0..2 {
        world.gateway.end(Signal::TERM).expect("it ends");
        world.gateway.launch().expect("it comes back");
        run_on();
    }
    let entries = names.map(|name| world.journal(name).len());
    let mut warnings = BTreeMap::<String, usize>::new();
    for line in world.gateway.log().lines() {
        if let Some((_, said)) = line.split_once(" WARN ") {
            *warnings.entry(said.to_owned()).or_default() += 1;
        }
    }
    let often = |said: &(&String, &usize)| *said.1 > 1;
    let repeated: Vec<_> = warnings.iter().filter(often).collect();
    assert!(repeated.is_empty(), "{repeated:#?}");
    // The journal has come to rest, too.
    run_on();
    assert_eq!(names.map(|name| world.journal(name).len()), entries);
    for name in names {
        assert_eq!(world.phase(name), "Stopped");
    }
    world.ok(&["sandbox", "delete", "--all", "--yes"]);
    world.nothing_is_left();
}
