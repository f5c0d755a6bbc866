//! S3, what is asked for while the engine is away: it is accepted, and done when the engine is back or given up at its
//! deadline with plain words; and nothing that is late touches a newer run.

use openshell_e2e::relay::{Calls, Fault, Trap};
use openshell_e2e::wait;
use rustix::process::Signal;
use serde_json::Value;

use crate::s3::SHORT;
use crate::ticks::{TICKING, Ticks, wait_still, wait_ticking};
use crate::world::{Half, IDLE, PATIENCE, World};

#[test]
fn s3_d_what_is_asked_during_the_outage_is_done_when_the_engine_is_back() {
    let mut world = World::on_own_engine(true, |_| ());
    for name in ["stops", "starts", "goes", "again", "runs"] {
        world.create(name, &[], TICKING);
        world.wait_boots(name, 1);
    }
    world.ok(&["sandbox", "stop", "starts"]);
    world.engine().end_daemon(Signal::KILL).expect("it ends");
    for (verb, name) in [
        ("stop", "stops"),
        ("start", "starts"),
        ("delete", "goes"),
        ("restart", "again"),
    ] {
        world.ok(&["sandbox", verb, name, "--no-wait"]);
    }
    for (name, phase) in [
        ("stops", "Stopping"),
        ("starts", "Starting"),
        ("goes", "Deleting"),
        ("runs", "Ready"),
    ] {
        let record = world.record(name);
        assert_eq!(record["phase"], phase, "{record}");
    }
    world.engine().start_daemon().expect("it comes back");
    world.wait_phase("stops", "Stopped", PATIENCE);
    world.wait_run("starts", 2);
    world.wait_run("again", 2);
    wait::until("the delete", PATIENCE, || {
        let got = world.run(&["sandbox", "get", "goes"]);
        Ok((got.code != 0).then_some(()))
    })
    .expect("it goes");
    assert_eq!(world.running_since("stops", Half::Workload), None);
    for (name, runs) in [("stops", 1), ("starts", 2), ("again", 2), ("runs", 1)] {
        world.wait_boots(name, runs);
    }
    assert_eq!(world.record("runs")["generation"], 1);
    world.ok(&["sandbox", "delete", "--all", "--yes"]);
    world.nothing_is_left();
}

#[test]
fn s3_d_a_create_during_the_outage_is_made_when_the_engine_is_back() {
    let world = World::behind_relay("s3-create", "");
    let away = away(&world);
    let words = [
        "sandbox",
        "create",
        "--name",
        "box",
        "--detach",
        "--no-wait",
        "--",
    ];
    world.ok(&[&words, TICKING].concat());
    wait::until("it to say what it waits for", PATIENCE, || {
        let record = world.record("box");
        Ok((record["reason"] == "EngineUnreachable").then_some(()))
    })
    .unwrap_or_else(|error| panic!("{error:#}\n{}", world.events("box")));
    away.release();
    world.wait_phase("box", "Ready", PATIENCE);
    world.wait_boots("box", 1);
    world.delete("box");
    world.nothing_is_left();
}

fn away(world: &World) -> Trap {
    let away = world.relay().trap(Calls::all(), Fault::CutCall);
    world.relay().cut(&Calls::all());
    away
}

#[test]
fn s3_d_a_start_that_meets_its_deadline_says_so_and_can_be_asked_again() {
    let more = "[openshell.lifecycle]\nprovisioning_timeout_secs = 3\n";
    let world = World::behind_relay("s3-deadline", more);
    world.create("box", &[], IDLE);
    world.ok(&["sandbox", "stop", "box"]);
    let away = away(&world);
    let start = world.run(&["sandbox", "start", "box"]);
    assert_ne!(start.code, 0, "it claims to have started");
    let said = start.errors();
    assert!(
        said.contains("engine") || said.contains("connection"),
        "{said}"
    );
    let record = world.record("box");
    assert_eq!(record["phase"], "Error", "{record}");
    assert_eq!(record["reason"], "ProvisioningTimedOut", "{record}");
    away.release();
    world.ok(&["sandbox", "start", "box"]);
    let since = world.running_since("box", Half::Workload);
    // Nothing of the start that was given up comes late.
    world.create("other", &[], IDLE);
    assert_eq!(world.phase("box"), "Ready");
    assert_eq!(world.running_since("box", Half::Workload), since);
    world.ok(&["sandbox", "delete", "box", "other"]);
    world.nothing_is_left();
}

#[test]
fn s3_d_a_late_word_of_before_the_outage_does_not_touch_what_was_started_after_it() {
    let world = World::behind_relay("s3-late", "");
    let relay = world.relay();
    let deaths = relay.hold_events(openshell_e2e::relay::Events::of_action("die").sandbox("box"));
    world.create("box", &[], TICKING);
    world.wait_boots("box", 1);
    let outage = away(&world);
    world.ok(&["sandbox", "restart", "box", "--no-wait"]);
    outage.release();
    world.wait_run("box", 2);
    let since = world.running_since("box", Half::Workload);
    deaths.release();
    world.create("other", &[], IDLE);
    let record = world.wait_run("box", 2);
    assert_eq!(
        world.running_since("box", Half::Workload),
        since,
        "{record}"
    );
    world.wait_boots("box", 2);
    world.ok(&["sandbox", "delete", "box", "other"]);
    world.nothing_is_left();
}

/// The workload is frozen by an outage; meanwhile something is done behind the gateway's back.
fn frozen_meanwhile(name: &str, options: &[&str], work: impl FnOnce(&World)) -> World {
    let world = World::behind_relay(name, SHORT);
    world.create("box", options, TICKING);
    let workspace = world.workspace("box");
    wait_ticking(&workspace);
    let outage = away(&world);
    world.wait_phase("box", "Unknown", PATIENCE);
    wait_still(&workspace);
    work(&world);
    outage.release();
    world
}

/// The phases that the journal tells after this one.
fn phases_after(world: &World, phase: &str) -> Vec<String> {
    let journal = world.journal("box");
    let at = journal.iter().rposition(|e| e["new_phase"] == phase);
    let since = &journal[at.expect("it is in the journal") + 1..];
    let phase = |entry: &Value| entry["new_phase"].as_str().map(str::to_owned);
    let mut phases: Vec<_> = since.iter().filter_map(phase).collect();
    phases.dedup();
    phases
}

#[test]
fn s3_c_a_workload_that_somebody_restarted_meanwhile_is_not_thawed_but_contained() {
    let world = frozen_meanwhile("s3-by-hand", &[], |world| {
        let workload = world.container("box", Half::Workload);
        world.docker(&["restart", "-t", "0", &workload]);
    });
    // Its container runs, and proves nothing: what it is now is stopped.
    let settled = wait::until("it to settle", PATIENCE, || {
        let record = world.record("box");
        let over =
            record["phase"] == "Error" || record["generation"] == 2 && record["phase"] == "Ready";
        Ok(over.then_some(record))
    })
    .unwrap_or_else(|error| panic!("{error:#}\n{}", world.events("box")));
    assert_ne!(
        phases_after(&world, "Unknown").first().map(String::as_str),
        Some("Ready"),
        "{}",
        world.events("box")
    );
    if settled["phase"] == "Error" {
        assert_eq!(world.running_since("box", Half::Workload), None);
    }
    world.ok(&["sandbox", "start", "box"]);
    assert_eq!(world.phase("box"), "Ready");
    world.delete("box");
    world.nothing_is_left();
}

#[test]
fn s3_c_a_workload_whose_supervisor_ended_meanwhile_is_contained_and_the_policy_decides() {
    for (policy, phase) in [("never", "Error"), ("on-failure", "Ready")] {
        let world = frozen_meanwhile(
            &format!("s3-{policy}"),
            &["--restart-policy", policy],
            |world| {
                let supervisor = world.container("box", Half::Supervisor);
                world.docker(&["kill", &supervisor]);
            },
        );
        if policy == "never" {
            let record = world.wait_phase("box", phase, PATIENCE);
            assert_eq!(record["reason"], "ControlSupervisorExited", "{record}");
            assert_eq!(world.running_since("box", Half::Workload), None);
            world.ok(&["sandbox", "start", "box"]);
        }
        world.wait_run("box", 2);
        world.wait_boots("box", 2);
        world.delete("box");
        world.nothing_is_left();
    }
}

#[test]
fn s3_c_a_container_that_runs_without_its_supervisors_word_proves_nothing() {
    let mut paused = String::new();
    let world = frozen_meanwhile("s3-paused", &[], |world| {
        paused = world.container("box", Half::Supervisor);
        world.docker(&["pause", &paused]);
    });
    let workspace = world.workspace("box");
    let still = wait_still(&workspace);
    let record = world.wait_phase("box", "Error", PATIENCE * 2);
    assert_eq!(record["reason"], "ControlSupervisorExited", "{record}");
    assert_eq!(world.running_since("box", Half::Workload), None);
    assert!(
        Ticks::on_disk(&workspace).last() <= still,
        "it was thawed: {}",
        world.events("box")
    );
    world.ok(&["sandbox", "start", "box"]);
    world.wait_boots("box", 2);
    world.delete("box");
    world.nothing_is_left();
}
