//! S3, an engine restart is no death: what breaks with it is told apart from an exit, what survives it is watched again
//! by one wait each, and what cannot be proven is contained.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use openshell_e2e::relay::{Calls, Fault, Relay};
use openshell_e2e::wait;
use rustix::process::Signal;
use serde_json::Value;

use crate::ticks::{GAP, TICKING, Ticks, run_on, wait_still, wait_ticking};
use crate::world::{Half, PATIENCE, World, uptime};

/// From the engine's first answer until everything on it is observed again.
const SEEN_AGAIN: Duration = Duration::from_secs(5);

fn waits(name: &str, half: Half) -> Calls {
    Calls::waits().sandbox(name).of(half)
}

/// How many waits there are for each half, and how many streams of events.
fn monitors(relay: &Relay, names: &[&str]) -> Vec<usize> {
    let halves = names.iter().flat_map(|name| {
        [Half::Workload, Half::Supervisor].map(|half| relay.under_way(&waits(name, half)))
    });
    halves.chain([relay.under_way(&Calls::events())]).collect()
}

/// Waits until there is one of each, and says how long that took.
fn wait_observed(world: &World, names: &[&str], limit: Duration) -> Duration {
    let began = Instant::now();
    let mut seen = Vec::new();
    let observed = wait::until("one monitor each", limit, || {
        seen = monitors(world.relay(), names);
        let all = seen.iter().all(|count| *count == 1);
        Ok((all && said_running(world, names)).then_some(()))
    });
    observed.unwrap_or_else(|error| panic!("{error:#}: {seen:?} {}", world.events(names[0])));
    began.elapsed()
}

fn said_running(world: &World, names: &[&str]) -> bool {
    let record = |name: &&str| world.record(name);
    let runs = |r: Value| r["phase"] == "Ready" && r["message"] == "running";
    names.iter().map(record).all(runs)
}

/// Every phase that the journal tells since this sandbox was first Ready.
pub(crate) fn phases_since_ready(world: &World, name: &str) -> Vec<String> {
    let journal = world.journal(name);
    let ready = journal.iter().position(|e| e["new_phase"] == "Ready");
    let since = &journal[ready.expect("it was Ready")..];
    let phase = |entry: &Value| entry["new_phase"].as_str().map(str::to_owned);
    let mut phases: Vec<_> = since.iter().filter_map(phase).collect();
    phases.dedup();
    phases
}

#[test]
fn s3_a_a_cut_connection_is_no_exit_and_is_made_again_once() {
    let world = World::behind_relay("s3-cut", "");
    world.create("box", &[], TICKING);
    let workspace = world.workspace("box");
    wait_ticking(&workspace);
    let began = uptime();
    wait_observed(&world, &["box"], PATIENCE);
    let relay = world.relay();
    for cut in [
        vec![waits("box", Half::Workload)],
        vec![waits("box", Half::Supervisor)],
        vec![Calls::events()],
        vec![Calls::waits(), Calls::events()],
    ] {
        let again: Vec<_> = cut
            .iter()
            .map(|c| relay.trap(c.clone(), Fault::Pass))
            .collect();
        for calls in &cut {
            assert!(relay.cut(calls) > 0, "{calls:?}");
        }
        let made = || Ok(again.iter().all(|trap| trap.met() > 0).then_some(()));
        wait::until("them to be made again", PATIENCE, made).expect("new connections");
        wait_observed(&world, &["box"], PATIENCE);
    }
    // In the time in which another one comes into being, no second monitor does.
    world.create("other", &[], TICKING);
    assert_eq!(monitors(relay, &["box"]), [1, 1, 1]);
    assert!(
        world.judged("box", "unknown", "") >= 3,
        "{}",
        world.events("box")
    );
    assert_eq!(phases_since_ready(&world, "box"), ["Ready"]);
    assert_eq!(world.record("box")["generation"], 1);
    let pause = Ticks::on_disk(&workspace).longest_pause(began);
    assert!(pause < GAP, "it paused for {pause} s");
    world.wait_boots("box", 1);
    world.ok(&["sandbox", "delete", "box", "other"]);
    world.nothing_is_left();
}

/// Polls the list while something is done; nothing in it may be anything but Ready.
fn ready_while(world: &mut World, work: impl FnOnce(&mut World)) {
    let done = AtomicBool::new(false);
    let mut lists = world.gateway.cli();
    lists.args(["sandbox", "list", "-o", "json"]);
    let seen = std::thread::scope(|scope| {
        let watcher = scope.spawn(|| {
            let mut seen = Vec::new();
            while !done.load(Ordering::Relaxed) {
                let listed = openshell_e2e::command::ok(&mut lists).expect("a list");
                let listed = listed.json().expect("JSON")["sandboxes"].clone();
                let listed = listed.as_array().expect("sandboxes").clone();
                seen.extend(listed.into_iter().filter(|r| r["phase"] != "Ready"));
                wait::pause(Duration::from_millis(100));
            }
            seen
        });
        // A panic in here must end the watcher, too.
        let worked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| work(world)));
        done.store(true, Ordering::Relaxed);
        let seen = watcher.join().expect("the lists");
        if let Err(panic) = worked {
            std::panic::resume_unwind(panic);
        }
        seen
    });
    assert!(seen.is_empty(), "not Ready meanwhile: {seen:#?}");
}

/// The engine's daemon ends by a signal, is away for a moment, and comes back. Says how long it took to see everything.
fn restart_engine(
    world: &mut World,
    signal: Signal,
    names: &[&str],
    away: impl FnOnce(&World),
) -> Duration {
    world.engine().end_daemon(signal).expect("it ends");
    away(world);
    world.engine().start_daemon().expect("it comes back");
    wait_observed(world, names, SEEN_AGAIN)
}

#[test]
fn s3_b_f_an_engine_that_restarts_under_its_containers_is_not_felt() {
    let mut world = World::on_own_engine(true, |_| ());
    let names = ["ada", "bob", "eve"];
    for (name, policy) in names.iter().zip(["never", "on-failure", "always"]) {
        world.create(name, &["--restart-policy", policy], TICKING);
    }
    let before = names.map(|name| world.record(name));
    let workspaces = names.map(|name| world.workspace(name));
    workspaces.iter().for_each(|w| wait_ticking(w));
    let began = uptime();
    wait_observed(&world, &names, PATIENCE);
    for signal in [Signal::TERM, Signal::KILL] {
        ready_while(&mut world, |world| {
            let took = restart_engine(world, signal, &names, |world| {
                assert_eq!(world.said("ada", "echo meanwhile"), "meanwhile");
                run_on();
            });
            println!("{signal:?}: observed again after {took:?}");
            run_on();
        });
    }
    for ((name, before), workspace) in names.iter().zip(before).zip(workspaces) {
        let after = world.record(name);
        for same in ["id", "generation", "restart_count"] {
            assert_eq!(after[same], before[same], "{same}");
        }
        world.wait_boots(name, 1);
        let pause = Ticks::on_disk(&workspace).longest_pause(began);
        println!("{name}: longest pause {pause:.2} s");
        assert!(pause < GAP, "{name} paused for {pause} s");
        assert_eq!(phases_since_ready(&world, name), ["Ready"]);
    }
    assert_eq!(world.said("ada", "cat /sandbox/boots"), "run");
    refuses_a_connect(&mut world, "ada");
    world.ok(&["sandbox", "delete", "--all", "--yes"]);
    world.nothing_is_left();
}

/// The policy decides: a connect to a listener of ours, which sees nothing of it, is refused.
pub(crate) fn refuses_a_connect(world: &mut World, name: &str) {
    let address = world.engine().bridge_address().expect("a bridge");
    let listener = std::net::TcpListener::bind((address.as_str(), 0)).expect("a listener");
    listener.set_nonblocking(true).expect("non-blocking");
    let port = listener.local_addr().expect("an address").port();
    let refused = world.shell(name, &format!("nc {address} {port} </dev/null"));
    assert_ne!(refused.code, 0);
    assert!(refused.errors().contains("refused"), "{}", refused.errors());
    let seen = listener.accept().expect_err("a connection was seen");
    assert_eq!(seen.kind(), std::io::ErrorKind::WouldBlock);
}

/// Of one that is frozen by this outage, soon.
pub(crate) const SHORT: &str =
    "[openshell.lifecycle]\nengine_outage_limit_secs = 2\nadoption_window_secs = 3\n";

#[test]
fn s3_c_an_engine_that_stays_away_has_the_workload_frozen_until_it_is_back() {
    let mut world = World::on_own_engine(true, |settings| SHORT.clone_into(&mut settings.more));
    world.create("box", &[], TICKING);
    let workspace = world.workspace("box");
    wait_ticking(&workspace);
    world.engine().end_daemon(Signal::KILL).expect("it ends");
    let record = world.wait_phase("box", "Unknown", PATIENCE);
    assert_eq!(record["reason"], "EngineUnreachable", "{record}");
    let message = record["message"].as_str().unwrap_or_default();
    assert!(message.contains("frozen"), "{message}");
    let still = wait_still(&workspace);
    // It stays so.
    run_on();
    assert!(Ticks::on_disk(&workspace).last() <= still);
    crate::s3_sight::everybody_is_told(&world);
    world.engine().start_daemon().expect("it comes back");
    world.wait_phase("box", "Ready", PATIENCE);
    wait_ticking(&workspace);
    wait_observed(&world, &["box"], PATIENCE);
    assert_eq!(world.record("box")["generation"], 1);
    assert_eq!(
        phases_since_ready(&world, "box"),
        ["Ready", "Unknown", "Ready"]
    );
    world.wait_boots("box", 1);
    refuses_a_connect(&mut world, "box");
    world.delete("box");
    world.nothing_is_left();
}
