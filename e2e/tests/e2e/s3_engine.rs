//! S3, an engine that takes its containers down with it, one that stays away, and what ends at the same time.

use std::time::{Duration, Instant};

use openshell_e2e::wait;
use rustix::process::Signal;

use crate::s3::refuses_a_connect;
use crate::ticks::{GAP, TICKING, Ticks, run_on, wait_ticking};
use crate::world::{Half, PATIENCE, World, uptime};

#[test]
fn s3_e_f_what_the_engine_took_down_is_relaunched_whatever_the_policy() {
    let mut world = World::on_own_engine(false, |_| ());
    let policies = ["never", "on-failure", "always"];
    for policy in policies {
        world.create(policy, &["--restart-policy", policy], TICKING);
        world.said(policy, "echo kept > /sandbox/note");
    }
    let before = policies.map(|name| world.record(name));
    for (run, signal) in [(2, Signal::TERM), (3, Signal::KILL)] {
        world.engine().end_daemon(signal).expect("it ends");
        world.engine().start_daemon().expect("it comes back");
        for name in policies {
            world.wait_run(name, run);
        }
    }
    for (name, before) in policies.iter().zip(before) {
        assert_eq!(world.record(name)["id"], before["id"]);
        assert_eq!(world.said(name, "cat /sandbox/note"), "kept");
        world.wait_boots(name, 3);
    }
    refuses_a_connect(&mut world, "never");
    world.ok(&["sandbox", "delete", "--all", "--yes"]);
    world.nothing_is_left();
}

#[test]
fn s3_e_what_is_relaunched_may_be_left_to_the_policy() {
    let more = "[openshell.lifecycle]\nrestore = \"policy\"\n";
    let mut world = World::on_own_engine(false, |settings| more.clone_into(&mut settings.more));
    for policy in ["never", "always"] {
        world.create(policy, &["--restart-policy", policy], TICKING);
    }
    world.engine().end_daemon(Signal::TERM).expect("it ends");
    world.engine().start_daemon().expect("it comes back");
    let record = world.wait_phase("never", "Error", PATIENCE);
    assert_eq!(record["reason"], "ContainerRuntimeRestart", "{record}");
    world.wait_run("always", 2);
    world.wait_boots("never", 1);
    world.ok(&["sandbox", "start", "never"]);
    world.wait_boots("never", 2);
    world.ok(&["sandbox", "delete", "--all", "--yes"]);
    world.nothing_is_left();
}

#[test]
fn s3_e_a_gateway_that_ends_while_the_engine_is_away_finds_everything_again() {
    let mut world = World::on_own_engine(true, |_| ());
    world.create("box", &[], TICKING);
    world.create("rests", &[], TICKING);
    world.ok(&["sandbox", "stop", "rests"]);
    let workspace = world.workspace("box");
    wait_ticking(&workspace);
    let began = uptime();
    for signal in [Signal::TERM, Signal::KILL] {
        world.engine().end_daemon(Signal::KILL).expect("it ends");
        let asked = Instant::now();
        let code = world.gateway.end(signal).expect("it ends");
        if signal == Signal::TERM {
            assert_eq!(code, 0);
            assert!(
                asked.elapsed() < Duration::from_secs(3),
                "{:?}",
                asked.elapsed()
            );
        }
        world.gateway.spawn().expect("it starts");
        let record = wait::until("it to be served", PATIENCE, || {
            let got = world.run(&["sandbox", "get", "box", "-o", "json"]);
            Ok(if got.code == 0 {
                Some(got.json()?)
            } else {
                None
            })
        })
        .expect("a record");
        // Never Ready, before it is proven; and no failure.
        assert!(
            ["Provisioning", "Unknown"].contains(&record["phase"].as_str().expect("a phase")),
            "{record}"
        );
        assert_eq!(world.phase("rests"), "Stopped");
        let said = || Ok((world.record("box")["reason"] == "EngineUnreachable").then_some(()));
        wait::until("it to say what is awaited", PATIENCE, said)
            .unwrap_or_else(|error| panic!("{error:#}\n{}", world.events("box")));
        world.engine().start_daemon().expect("it comes back");
        world.gateway.wait_ready().expect("it is ready");
        let record = world.wait_phase("box", "Ready", PATIENCE);
        assert_eq!(record["generation"], 1, "{record}");
        assert_eq!(world.said("box", "echo on"), "on");
    }
    let pause = Ticks::on_disk(&workspace).longest_pause(began);
    assert!(pause < GAP, "it paused for {pause} s");
    world.wait_boots("box", 1);
    world.ok(&["sandbox", "delete", "--all", "--yes"]);
    world.nothing_is_left();
}

#[test]
fn s3_e_an_engine_that_stays_away_fails_what_was_asked_and_traps_nothing() {
    let more = "[openshell.lifecycle]\nengine_outage_limit_secs = 2\nstop_grace_secs = 1\n";
    let mut world = World::on_own_engine(true, |settings| more.clone_into(&mut settings.more));
    for name in ["stops", "runs"] {
        world.create(name, &[], TICKING);
    }
    let workspace = world.workspace("runs");
    wait_ticking(&workspace);
    world.engine().end_daemon(Signal::KILL).expect("it ends");
    // Its bound is that of an engine call, and its grace.
    let stop = world.run(&["sandbox", "stop", "stops"]);
    assert_ne!(stop.code, 0, "it claims to have stopped");
    assert!(stop.errors().contains("engine"), "{}", stop.errors());
    let record = world.record("stops");
    assert_eq!(record["reason"], "StopFailed", "{record}");
    assert_eq!(world.phase("runs"), "Unknown");
    world.engine().start_daemon().expect("it comes back");
    world.wait_phase("runs", "Ready", PATIENCE);
    wait_ticking(&workspace);
    world.ok(&["sandbox", "stop", "stops"]);
    assert_eq!(world.running_since("stops", Half::Workload), None);
    world.ok(&["sandbox", "start", "stops"]);
    for (name, runs) in [("stops", 2), ("runs", 1)] {
        world.wait_boots(name, runs);
    }
    world.ok(&["sandbox", "delete", "--all", "--yes"]);
    world.nothing_is_left();
}

/// Ends with 17 when it is told to, once for each time.
const OBEDIENT: &[&str] = &[
    "sh",
    "-c",
    "echo run >> /sandbox/boots; until [ -e /sandbox/go ]; do usleep 50000; done; rm /sandbox/go; exit 17",
];

#[test]
fn s3_e_a_main_that_ends_by_itself_during_the_outage_goes_to_the_policy() {
    let mut world = World::on_own_engine(true, |_| ());
    for policy in ["never", "on-failure"] {
        world.create(policy, &["--restart-policy", policy], OBEDIENT);
    }
    world.engine().end_daemon(Signal::TERM).expect("it ends");
    for name in ["never", "on-failure"] {
        world.said(name, "touch /sandbox/go");
    }
    run_on();
    world.engine().start_daemon().expect("it comes back");
    let record = world.wait_phase("never", "Error", PATIENCE);
    assert_eq!(record["reason"], "MainProcessFailed", "{record}");
    assert_eq!(record["exit_code"], 17, "{record}");
    // An engine may have lost the input of what ended meanwhile; that costs no run.
    let record = world.wait_run("on-failure", 2);
    assert_eq!(record["restart_count"], 1, "{record}");
    assert_eq!(record["last_exit"]["code"], 17, "{record}");
    world.ok(&["sandbox", "start", "never"]);
    for name in ["never", "on-failure"] {
        world.wait_boots(name, 2);
        assert_eq!(world.record(name)["generation"], 2);
    }
    world.ok(&["sandbox", "delete", "--all", "--yes"]);
    world.nothing_is_left();
}
