//! What ended while the gateway was away, what cannot be brought back, and what was being done when it died.

use std::io::Write as _;
use std::process::{Command, Stdio};

use openshell_e2e::relay::{Calls, Fault};
use openshell_e2e::ticks::{self, Ticks};
use openshell_e2e::wait;
use rustix::process::Signal;
use serde_json::Value;

use super::POLICIES;
use crate::ticks::run_on;
use crate::world::{Half, IDLE, PATIENCE, World, uptime};

const MAIN: &[&str] = &["sh", "-c", "echo run >> /sandbox/boots; exec sleep 1000000"];

/// Kills a half past the gateway.
fn kill(world: &World, name: &str, half: Half) {
    world.docker(&["kill", "-s", "KILL", &world.container(name, half)]);
}

#[test]
fn s4_c_a_supervisor_that_dies_meanwhile_is_contained_and_its_run_made_anew() {
    let mut world = World::new("s4-c");
    for policy in POLICIES {
        world.create(policy, &["--restart-policy", policy], ticks::MAIN);
    }
    world.gateway.end(Signal::KILL).expect("it dies");
    let mut killed = Vec::new();
    for policy in POLICIES {
        kill(&world, policy, Half::Supervisor);
        killed.push(uptime());
    }
    // Nobody governs them: they freeze without the gateway.
    run_on();
    for (policy, killed) in POLICIES.iter().zip(killed) {
        let last = Ticks::parse(&world.file_by_engine(policy, ticks::TICKS)).last();
        assert!(
            last < killed + 1.0,
            "{policy} ran on for {} s",
            last - killed
        );
    }
    world.gateway.launch().expect("it comes back");
    for policy in POLICIES {
        let record = world.wait_run(policy, 2);
        assert_eq!(record["reason"], "Restored", "{record}");
        world.wait_boots(policy, 2);
        assert_eq!(world.said(policy, "echo here"), "here");
    }
    world.ok(&["sandbox", "delete", "--all", "--yes"]);
    world.nothing_is_left();
}

#[test]
fn s4_c_by_policy_a_lost_supervisor_leaves_an_error_from_which_start_leads() {
    let mut world = World::with("s4-c-policy", |settings| {
        settings.more = "[openshell.lifecycle]\nrestore = \"policy\"\n".to_owned();
    });
    for policy in POLICIES {
        world.create(policy, &["--restart-policy", policy], MAIN);
    }
    world.gateway.end(Signal::KILL).expect("it dies");
    for policy in POLICIES {
        kill(&world, policy, Half::Supervisor);
    }
    world.gateway.launch().expect("it comes back");
    for policy in ["on-failure", "always"] {
        world.wait_run(policy, 2);
    }
    let record = world.wait_phase("never", "Error", PATIENCE);
    assert_eq!(record["reason"], "ControlSupervisorExited", "{record}");
    assert_eq!(world.running_since("never", Half::Workload), None);
    world.ok(&["sandbox", "start", "never"]);
    assert_eq!(world.record("never")["generation"], 2);
    for policy in POLICIES {
        world.wait_boots(policy, 2);
    }
    world.ok(&["sandbox", "delete", "--all", "--yes"]);
    world.nothing_is_left();
}

/// Ends with the code in a file, once that is there; a second run goes on.
const ENDS: &[&str] = &[
    "sh",
    "-c",
    "echo run >> /sandbox/boots; [ $(wc -l < /sandbox/boots) -lt 2 ] || exec sleep 1000000; \
     until [ -s /sandbox/end ]; do usleep 50000; done; read code < /sandbox/end; exit $code",
];

/// Writes the file past the gateway.
fn tell_end(world: &World, name: &str, code: u8) {
    let mut archive = tar::Builder::new(Vec::new());
    let text = format!("{code}\n");
    let mut header = tar::Header::new_gnu();
    header.set_size(text.len() as u64);
    header.set_mode(0o644);
    archive
        .append_data(&mut header, "end", text.as_bytes())
        .expect("an archive in memory");
    let archive = archive.into_inner().expect("an archive in memory");
    let to = format!("{}:/sandbox", world.container(name, Half::Workload));
    let mut docker: Command = world.gateway.docker();
    let mut docker = docker
        .args(["cp", "-", &to])
        .stdin(Stdio::piped())
        .spawn()
        .expect("the engine's client");
    let mut stdin = docker.stdin.take().expect("a pipe");
    stdin.write_all(&archive).expect("it reads");
    drop(stdin);
    assert!(docker.wait().expect("it ends").success());
}

#[test]
fn s4_d_a_main_that_ends_meanwhile_goes_to_its_policy_with_its_own_code() {
    let mut world = World::new("s4-d");
    let cases = [
        ("never", 0, "Completed", "MainProcessCompleted"),
        ("never", 17, "Error", "MainProcessFailed"),
        // Numbers that look like signals are main's to choose.
        ("never", 137, "Error", "MainProcessFailed"),
        ("on-failure", 0, "Completed", "MainProcessCompleted"),
        ("on-failure", 17, "Ready", "Running"),
        ("always", 0, "Ready", "Running"),
        ("always", 143, "Ready", "Running"),
    ];
    let name = |policy: &str, code: u8| format!("{policy}-{code}");
    for (policy, code, ..) in cases {
        world.create(&name(policy, code), &["--restart-policy", policy], ENDS);
    }
    world.gateway.end(Signal::KILL).expect("it dies");
    for (policy, code, ..) in cases {
        tell_end(&world, &name(policy, code), code);
    }
    for (policy, code, ..) in cases {
        world.wait_gone(&name(policy, code), Half::Workload);
    }
    world.gateway.launch().expect("it comes back");
    for (policy, code, phase, reason) in cases {
        let name = name(policy, code);
        let record = world.wait_phase(&name, phase, PATIENCE);
        assert_eq!(record["reason"], reason, "{record}");
        assert_eq!(record["last_exit"]["code"], code, "{record}");
        assert_eq!(record["last_exit"]["cause"], "main", "{record}");
        let again = u64::from(phase == "Ready");
        assert_eq!(record["restart_count"], again, "{record}");
        assert_eq!(record["generation"], 1 + again, "{record}");
        world.wait_boots(&name, 1 + usize::from(phase == "Ready"));
    }
    world.ok(&["sandbox", "delete", "--all", "--yes"]);
    world.nothing_is_left();
}

#[test]
fn s4_d_the_back_off_of_a_crash_loop_goes_on_where_it_was() {
    let mut world = World::new("s4-d-loop");
    let options = ["--restart-policy", "on-failure"];
    let main = ["sh", "-c", "echo run >> /sandbox/boots; exit 3"];
    world.try_create("box", &options, &main);
    let count = |record: &Value| record["restart_count"].as_u64().unwrap_or(0);
    let waiting = |world: &World, least: u64| {
        let mut last = Value::Null;
        let found = wait::until("a restart to be due", PATIENCE, || {
            last = world.record("box");
            let due = last["reason"] == "RestartBackOff" && count(&last) >= least;
            Ok(due.then(|| last.clone()))
        });
        found.unwrap_or_else(|error| panic!("{error:#}: {last}"))
    };
    // The first restart comes at once, the third after 2 s, the fourth after 4 s.
    let before = waiting(&world, 4);
    world.gateway.end(Signal::KILL).expect("it dies");
    world.gateway.launch().expect("it comes back");
    let after = world.record("box");
    assert_eq!(count(&after), count(&before), "{after}");
    assert_eq!(after["next_restart_time"], before["next_restart_time"]);
    let next = waiting(&world, count(&before) + 1);
    assert_eq!(count(&next), count(&before) + 1);
    let runs = usize::try_from(count(&before)).expect("small") + 1;
    world.wait_boots("box", runs);
    // And a stop during the wait ends it, over a restart of the gateway.
    world.ok(&["sandbox", "stop", "box"]);
    world.gateway.end(Signal::KILL).expect("it dies");
    world.gateway.launch().expect("it comes back");
    let record = world.record("box");
    assert_eq!(record["phase"], "Stopped", "{record}");
    assert_eq!(record["next_restart_time"], Value::Null, "{record}");
    world.delete("box");
    world.nothing_is_left();
}

const NOT_TODAY: &str = "the device is busy with itself";

#[test]
fn s4_e_a_restore_that_fails_is_tried_again_by_policy_and_start_always_works() {
    let mut world = World::behind_relay("s4-e", "");
    for policy in POLICIES {
        world.create(policy, &["--restart-policy", policy], MAIN);
    }
    world.gateway.end(Signal::KILL).expect("it dies");
    for policy in POLICIES {
        kill(&world, policy, Half::Supervisor);
    }
    let starts = |name: &str| Calls::starts().sandbox(name).of(Half::Workload);
    let refused = POLICIES.map(|policy| {
        let fault = Fault::Answer(500, NOT_TODAY);
        world.relay().trap(starts(policy), fault)
    });
    world.gateway.launch().expect("it comes back");
    let record = world.wait_phase("never", "Error", PATIENCE);
    assert_eq!(record["reason"], "StartFailed", "{record}");
    let message = record["message"].as_str().unwrap_or_default();
    assert!(message.contains(NOT_TODAY), "{message}");
    let [never, others @ ..] = refused;
    assert_eq!(never.met(), 1);
    for trap in &others {
        trap.wait_met(3, PATIENCE).expect("it is tried again");
    }
    for policy in ["on-failure", "always"] {
        let record = world.record(policy);
        let tries = record["restart_count"].as_u64().unwrap_or(0);
        assert!(tries >= 2, "{record}");
        let parked = |entry: &Value| entry["new_phase"] == "Error";
        assert!(!world.journal(policy).iter().any(parked), "{record}");
    }
    // A start says why it fails, and works as soon as it can, without anything else.
    let start = world.run(&["sandbox", "start", "never"]);
    assert_ne!(start.code, 0, "it claims to have started");
    assert!(start.errors().contains(NOT_TODAY), "{}", start.errors());
    never.release();
    drop(others);
    world.ok(&["sandbox", "start", "never"]);
    for policy in POLICIES {
        world.wait_phase(policy, "Ready", PATIENCE);
        world.wait_boots(policy, 2);
    }
    world.ok(&["sandbox", "delete", "--all", "--yes"]);
    world.nothing_is_left();
}

#[test]
fn s4_f_what_was_being_done_when_the_gateway_died_ends_as_its_user_asked() {
    let mut world = World::behind_relay("s4-f", "");
    for name in ["rests", "halted", "gone", "again"] {
        world.create(name, &[], MAIN);
        world.wait_boots(name, 1);
    }
    world.ok(&["sandbox", "stop", "rests"]);
    let workload = |calls: Calls, name: &str| calls.sandbox(name).of(Half::Workload);
    let held = [
        workload(Calls::creations(), "made"),
        workload(Calls::stops(), "halted"),
        workload(Calls::stops(), "again"),
        Calls::removals().sandbox("gone"),
    ]
    .map(|calls| world.relay().trap(calls, Fault::HoldCall));
    let create = [
        "sandbox",
        "create",
        "--name",
        "made",
        "--detach",
        "--no-wait",
        "--",
    ];
    world.ok(&[&create, MAIN].concat());
    world.ok(&["sandbox", "stop", "halted", "--no-wait"]);
    world.ok(&["sandbox", "restart", "again", "--no-wait"]);
    world.ok(&["sandbox", "delete", "gone", "--no-wait"]);
    for trap in &held[..3] {
        trap.wait_held(1, PATIENCE).expect("the call");
    }
    world.gateway.end(Signal::KILL).expect("it dies");
    drop(held);
    world.gateway.launch().expect("it comes back");
    world.wait_phase("made", "Ready", PATIENCE);
    world.wait_phase("halted", "Stopped", PATIENCE);
    world.wait_run("again", 2);
    wait::until("the deleted one to be gone", PATIENCE, || {
        Ok((world.run(&["sandbox", "get", "gone"]).code == 3).then_some(()))
    })
    .expect("it is gone");
    for (name, boots) in [("made", 1), ("halted", 1), ("again", 2), ("rests", 1)] {
        world.wait_boots(name, boots);
    }
    assert_eq!(world.phase("rests"), "Stopped");
    assert_eq!(world.running_since("rests", Half::Workload), None);
    // The name is free.
    world.create("gone", &[], IDLE);
    world.ok(&["sandbox", "delete", "--all", "--yes"]);
    world.nothing_is_left();
}

#[test]
fn s4_f_a_hold_outlives_the_gateway() {
    let mut world = World::new("s4-f-hold");
    world.create("box", &["--restart-policy", "always"], MAIN);
    world.ok(&["sandbox", "stop", "box", "--hold", "--reason", "odd"]);
    world.gateway.end(Signal::KILL).expect("it dies");
    let workload = world.container("box", Half::Workload);
    world.docker(&["start", &workload]);
    world.gateway.launch().expect("it comes back");
    world.wait_gone("box", Half::Workload);
    let record = world.wait_phase("box", "Stopped", PATIENCE);
    assert_eq!(record["reason"], "Held", "{record}");
    assert_ne!(world.run(&["sandbox", "start", "box"]).code, 0);
    world.delete("box");
    world.nothing_is_left();
}
