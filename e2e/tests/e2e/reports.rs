//! What happened to users of systems like this one, tried here: shutdowns that meet creates, exits of five kinds,
//! containers with copied labels, engines that go away while somebody meddles, clients that die.

use std::collections::BTreeSet;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use openshell_e2e::relay::{Calls, Fault};
use openshell_e2e::{command, image, wait};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::world::{Half, PATIENCE, World, cli};

const MAIN: &[&str] = &["sh", "-c", "echo run >> /sandbox/boots; exec sleep 1000000"];

/// The sandboxes that have running containers, by the engine's word.
fn running(world: &World) -> BTreeSet<String> {
    let namespace = &world.gateway.settings().namespace;
    let filter = format!("label=openshell.ai/sandbox-namespace={namespace}");
    let format = r#"{{.Label "openshell.ai/sandbox-name"}}"#;
    let listed = world.docker(&["ps", "--filter", &filter, "--format", format]);
    listed.text().lines().map(str::to_owned).collect()
}

/// The names of the records.
fn recorded(world: &World) -> BTreeSet<String> {
    let listed = world.ok(&["sandbox", "list", "-o", "json"]).json();
    let listed = listed.expect("a list")["sandboxes"].clone();
    let name = |record: &Value| record["name"].as_str().unwrap_or_default().to_owned();
    listed
        .as_array()
        .expect("a list")
        .iter()
        .map(name)
        .collect()
}

#[test]
fn a4_a_shutdown_that_meets_creates_leaves_nothing_running_and_every_record_comes_back() {
    let mut world = World::with("a4", |settings| {
        settings.more =
            "[openshell.lifecycle]\non_shutdown = \"stop\"\nshutdown_grace_secs = 18\n".to_owned();
    });
    let names = ["ada", "bob", "eve"];
    for moment in [0, 60, 160, 400, 800] {
        let mut creates = names.map(|name| {
            let words = [
                "sandbox",
                "create",
                "--name",
                name,
                "--detach",
                "--no-wait",
                "--",
            ];
            cli(&world, &[&words, MAIN].concat())
        });
        let accepted = std::thread::scope(|scope| {
            let creates = creates.each_mut().map(|create| {
                scope.spawn(|| command::run(create).expect("the CLI ends").code == 0)
            });
            wait::pause(Duration::from_millis(moment));
            world.gateway.end(Signal::TERM).expect("it ends");
            creates.map(|create| create.join().expect("the CLI ends"))
        });
        let log = world.gateway.log();
        assert_eq!(
            running(&world),
            BTreeSet::new(),
            "after {moment} ms:\n{log}"
        );
        world.gateway.launch().expect("it comes back");
        let recorded = recorded(&world);
        for (name, accepted) in names.iter().zip(accepted) {
            let kept = recorded.contains(*name);
            assert!(kept || !accepted, "{name} was accepted, and is gone");
            if kept {
                world.wait_phase(name, "Ready", PATIENCE);
            }
        }
        assert_eq!(running(&world), recorded, "after {moment} ms");
        world.ok(&["sandbox", "delete", "--all", "--yes"]);
        world.nothing_is_left();
    }
}

#[test]
fn a7_stop_and_start_in_a_row_are_never_shown_as_an_error() {
    const ROUNDS: usize = 8;
    let world = World::new("a7");
    world.create("box", &[], MAIN);
    let done = AtomicBool::new(false);
    let shown = std::thread::scope(|scope| {
        let watching = scope.spawn(|| {
            let mut shown = BTreeSet::new();
            while !done.load(Ordering::Relaxed) {
                shown.insert(world.phase("box"));
            }
            shown
        });
        for round in 1..=ROUNDS {
            world.wait_boots("box", round);
            world.ok(&["sandbox", "stop", "box"]);
            world.ok(&["sandbox", "start", "box"]);
        }
        done.store(true, Ordering::Relaxed);
        watching.join().expect("it watches to the end")
    });
    let failed = |entry: &Value| entry["new_phase"] == "Error";
    let events = world.events("box");
    assert!(!world.journal("box").iter().any(failed), "{events}");
    assert!(!shown.contains("Error"), "{shown:?}\n{events}");
    world.wait_boots("box", ROUNDS + 1);
    assert_eq!(world.record("box")["generation"], ROUNDS + 1);
    world.delete("box");
    world.nothing_is_left();
}

#[test]
fn a8_five_kinds_of_end_have_five_reasons_and_only_the_users_stop_is_stopped() {
    let world = World::new("a8");
    for name in ["asked", "killed", "halted"] {
        world.create(name, &[], MAIN);
        world.wait_boots(name, 1);
    }
    world.ok(&["sandbox", "stop", "asked"]);
    world.docker(&["kill", &world.container("killed", Half::Workload)]);
    world.docker(&["stop", &world.container("halted", Half::Workload)]);
    world.try_create("chosen", &[], &["sh", "-c", "exit 143"]);
    // It wants to see the end of what has none.
    world.try_create("greedy", &["--memory", "32Mi"], &["tail", "/dev/zero"]);
    for (name, phase, reason, code) in [
        ("asked", "Stopped", "StoppedByUser", None),
        // It is not main's own.
        ("killed", "Error", "ContainerExited", None),
        ("halted", "Error", "ContainerStopped", None),
        ("chosen", "Error", "MainProcessFailed", Some(143)),
        ("greedy", "Error", "OutOfMemory", Some(137)),
    ] {
        let record = world.wait_phase(name, phase, PATIENCE);
        let events = world.events(name);
        assert_eq!(record["reason"], reason, "{record}\n{events}");
        assert_eq!(record["exit_code"], json!(code), "{record}\n{events}");
        assert!(record["message"].as_str().is_some_and(|m| !m.is_empty()));
    }
    for name in ["killed", "halted"] {
        world.ok(&["sandbox", "start", name]);
        world.wait_boots(name, 2);
    }
    world.ok(&["sandbox", "delete", "--all", "--yes"]);
    world.nothing_is_left();
}

#[test]
fn a10_containers_with_copied_labels_count_for_nothing_and_are_left_alone() {
    let mut world = World::new("a10");
    world.create("box", &[], MAIN);
    let copies = [Half::Workload, Half::Supervisor].map(|half| {
        let labels = world.inspect(&world.container("box", half))["Config"]["Labels"].clone();
        let labels = labels.as_object().expect("labels").clone();
        let mut words = vec!["run".to_owned(), "-d".to_owned()];
        for (name, value) in labels {
            let value = value.as_str().unwrap_or_default();
            words.extend(["--label".to_owned(), format!("{name}={value}")]);
        }
        words.extend([image::TEST_IMAGE, "sleep", "1000"].map(str::to_owned));
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        world.docker(&words).text()
    });
    let record = world.record("box");
    // Neither while it runs, nor when it is taken up again, nor by the end of one of them.
    world.gateway.end(Signal::KILL).expect("it dies");
    world.gateway.launch().expect("it comes back");
    world.wait_phase("box", "Ready", PATIENCE);
    world.docker(&["kill", &copies[1]]);
    world.wait_judged("box", "stale", "supervisor", 1);
    let after = world.wait_phase("box", "Ready", PATIENCE);
    assert_eq!(after["generation"], record["generation"]);
    for copy in &copies {
        let told = world.gateway.log().matches(&copy[..12]).count();
        assert_eq!(told, 1, "{}", world.gateway.log());
    }
    world.ok(&["sandbox", "stop", "box"]);
    world.ok(&["sandbox", "start", "box"]);
    world.delete("box");
    assert_eq!(world.inspect(&copies[0])["State"]["Running"], true);
    assert_eq!(world.inspect(&copies[1])["State"]["Running"], false);
    world.docker(&["rm", "-f", &copies[0], &copies[1]]);
    world.nothing_is_left();
}

/// The engine is away; meanwhile, behind the gateway's back, something is done on it.
fn while_away(world: &World, work: impl FnOnce()) {
    let relay = world.relay();
    let away = relay.trap(Calls::all(), Fault::CutCall);
    relay.cut(&Calls::all());
    wait::until("the gateway to miss it", PATIENCE, || {
        let record = world.record("box");
        let said = record["message"].as_str().unwrap_or_default();
        Ok(said.contains("out of sight").then_some(()))
    })
    .unwrap_or_else(|error| panic!("{error:#}\n{}", world.events("box")));
    work();
    away.release();
}

fn kill_both(world: &World) -> String {
    let [workload, supervisor] =
        [Half::Workload, Half::Supervisor].map(|half| world.container("box", half));
    world.docker(&["kill", &workload, &supervisor]);
    workload
}

#[test]
fn a12_an_engine_that_went_down_and_came_back_is_followed_by_a_new_run() {
    let world = World::behind_relay("a12", "");
    world.create("box", &[], MAIN);
    world.wait_boots("box", 1);
    while_away(&world, || drop(kill_both(&world)));
    let record = world.wait_run("box", 2);
    assert_eq!(record["phase"], "Ready", "{record}");
    world.wait_boots("box", 2);
    world.delete("box");
    world.nothing_is_left();
}

#[test]
fn a12_a_workload_that_somebody_started_by_hand_meanwhile_traps_nobody() {
    let world = World::behind_relay("a12-by-hand", "");
    world.create("box", &[], MAIN);
    for (word, phase) in [("stop", "Stopped"), ("start", "Ready")] {
        while_away(&world, || {
            let workload = kill_both(&world);
            world.docker(&["start", &workload]);
        });
        let ends = ["Ready", "Error"];
        wait::until("it to settle", PATIENCE, || {
            let record = world.record("box");
            let settled = record["phase"].as_str().is_some_and(|p| ends.contains(&p));
            let said = record["message"].as_str().unwrap_or_default();
            Ok((settled && !said.contains("out of sight")).then_some(()))
        })
        .unwrap_or_else(|error| panic!("{error:#}\n{}", world.events("box")));
        world.ok(&["sandbox", word, "box"]);
        assert_eq!(world.phase("box"), phase, "{}", world.events("box"));
        world.ok(&["sandbox", "start", "box"]);
        assert!(world.running_since("box", Half::Workload).is_some());
    }
    world.delete("box");
    world.nothing_is_left();
}

#[test]
fn a13_a_client_that_dies_is_nothing_to_the_sandbox_that_it_made_or_watched() {
    let world = World::new("a13");
    let create = ["sandbox", "create", "--name", "box", "--no-tty", "--"];
    let connect = ["sandbox", "connect", "box"];
    for words in [&[&create, MAIN].concat() as &[&str], &connect] {
        let mut client = cli(&world, words);
        client.stdin(Stdio::piped()).stdout(Stdio::null());
        let mut client = client.stderr(Stdio::null()).spawn().expect("the CLI");
        wait::until("the sandbox to be Ready", PATIENCE, || {
            let got = world.run(&["sandbox", "get", "box", "-o", "json"]);
            Ok((got.code == 0 && got.json()?["phase"] == "Ready").then_some(()))
        })
        .expect("Ready");
        client.kill().expect("it ran");
        client.wait().expect("it has ended");
        world.wait_boots("box", 1);
        assert_eq!(world.phase("box"), "Ready");
    }
    world.ok(&["sandbox", "stop", "box"]);
    world.ok(&["sandbox", "start", "box"]);
    world.wait_boots("box", 2);
    let failed = |entry: &Value| entry["new_phase"] == "Error";
    assert!(!world.journal("box").iter().any(failed));
    world.delete("box");
    world.nothing_is_left();
}

/// A gateway that dies when a start has come to this call, which the engine then never hears of; and its successor.
fn dies_before(world: &mut World, calls: Calls, start: impl FnOnce(&World)) {
    let calls = calls.sandbox("box").of(Half::Workload);
    let trap = world.relay().trap(calls, Fault::HoldCall);
    start(world);
    trap.wait_held(1, PATIENCE).expect("the call");
    world.gateway.end(Signal::KILL).expect("it dies");
    wait::until("the call to be forgotten", PATIENCE, || {
        Ok((trap.held() == 0).then_some(()))
    })
    .expect("nobody waits for it");
    trap.release();
    world.gateway.launch().expect("it comes back");
}

#[test]
fn a19_a_start_that_the_gateways_death_interrupts_is_made_anew_and_main_runs_once() {
    let mut world = World::behind_relay("a19", "");
    let create = [
        "sandbox",
        "create",
        "--name",
        "box",
        "--detach",
        "--no-wait",
        "--",
    ];
    // Nothing is made of what is recorded; then all is made, and nothing started.
    for calls in [Calls::creations(), Calls::starts()] {
        world.ok(&["sandbox", "delete", "box"]);
        dies_before(&mut world, calls, |world| {
            world.ok(&[&create, MAIN].concat());
        });
        world.wait_phase("box", "Ready", PATIENCE);
        world.wait_boots("box", 1);
    }
    let start = |world: &World| drop(world.ok(&["sandbox", "start", "box", "--no-wait"]));
    // The same with the container of earlier runs; then one that is started, and knows nothing yet.
    for (calls, boots) in [(Calls::starts(), 2), (Calls::attachments(), 3)] {
        world.ok(&["sandbox", "stop", "box"]);
        dies_before(&mut world, calls, start);
        world.wait_phase("box", "Ready", PATIENCE);
        world.wait_boots("box", boots);
    }
    // And without any death: a start that is given up before its launch leaves nothing for the next one.
    world.ok(&["sandbox", "stop", "box"]);
    let starts = Calls::starts().sandbox("box").of(Half::Workload).once();
    let refused = world.relay().trap(starts, Fault::Answer(500, "not today"));
    assert_ne!(world.run(&["sandbox", "start", "box"]).code, 0);
    assert_eq!(refused.met(), 1);
    world.ok(&["sandbox", "start", "box"]);
    world.wait_boots("box", 4);
    world.delete("box");
    world.nothing_is_left();
}
