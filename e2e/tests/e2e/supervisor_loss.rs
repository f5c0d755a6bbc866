//! A supervisor that is lost at any moment: its workload stands still within a second, is contained within the bound,
//! and then the restart policy decides (L11).

use std::path::Path;
use std::time::{Duration, Instant};

use openshell_e2e::relay::{Calls, Fault};
use openshell_e2e::wait;
use rustix::process::{Pid, Signal};

use crate::ticks::{TICKING, Ticks, run_on, wait_ticking};
use crate::world::{Half, PATIENCE, World, uptime};

/// Frozen, and then contained.
const STILL: f64 = 1.0;
const CONTAINED: Duration = Duration::from_secs(15);

/// Kills it, and says when.
fn kill(process: Pid) -> f64 {
    rustix::process::kill_process(process, Signal::KILL).expect("it is ours");
    uptime()
}

/// Nothing was written later than a second after the loss.
fn stood_still(workspace: &Path, lost: f64) {
    run_on();
    let last = Ticks::on_disk(workspace).last();
    assert!(last < lost + STILL, "it ran on for {} s", last - lost);
}

/// One sandbox for each of two policies: after the loss one is over and the other runs anew.
fn pair(world: &World) {
    for policy in ["never", "on-failure"] {
        world.create(policy, &["--restart-policy", policy], TICKING);
        wait_ticking(&world.workspace(policy));
    }
}

fn policy_decided(world: &World, since: Instant, runs: u64) {
    let record = world.wait_phase("never", "Error", PATIENCE);
    assert!(since.elapsed() < CONTAINED, "after {:?}", since.elapsed());
    assert_eq!(record["reason"], "ControlSupervisorExited", "{record}");
    assert_eq!(world.running_since("never", Half::Workload), None);
    world.wait_run("on-failure", runs);
}

#[test]
fn l11_a_supervisor_lost_while_idle_or_under_load_is_followed_by_what_the_policy_says() {
    let world = World::new("loss-idle");
    pair(&world);
    let workspace = world.workspace("never");
    let lost = kill(world.process("never", Half::Supervisor));
    let since = Instant::now();
    kill(world.process("on-failure", Half::Supervisor));
    stood_still(&workspace, lost);
    policy_decided(&world, since, 2);
    // And with much to do: commands under way, processes that come and go.
    world.ok(&["sandbox", "start", "never"]);
    wait_ticking(&workspace);
    let busy =
        "i=0; while [ $i -lt 8 ]; do (while :; do true | cat; done) & i=$((i+1)); done; wait";
    std::thread::scope(|scope| {
        let commands = ["never", "on-failure"].map(|name| {
            let world = &world;
            scope.spawn(move || world.shell(name, busy))
        });
        run_on();
        let lost = kill(world.process("never", Half::Supervisor));
        let since = Instant::now();
        kill(world.process("on-failure", Half::Supervisor));
        stood_still(&workspace, lost);
        policy_decided(&world, since, 3);
        for command in commands {
            let outcome = command.join().expect("it ends");
            assert_ne!(outcome.code, 0, "it cannot have ended well");
        }
    });
    world.ok(&["sandbox", "delete", "--all", "--yes"]);
    world.nothing_is_left();
}

#[test]
fn l11_a_supervisor_lost_before_its_first_session_or_right_after_ready() {
    let world = World::behind_relay("loss-early", "");
    let starts = Calls::starts().of(Half::Supervisor).times(2);
    let started = world.relay().trap(starts, Fault::HoldAnswer);
    let words = |policy| {
        [
            "sandbox",
            "create",
            "--name",
            policy,
            "--restart-policy",
            policy,
            "--detach",
            "--no-wait",
            "--",
        ]
    };
    for policy in ["never", "on-failure"] {
        world.ok(&[&words(policy), TICKING].concat());
    }
    started.wait_held(2, PATIENCE).expect("both are started");
    for name in ["never", "on-failure"] {
        world.docker(&["kill", &world.container(name, Half::Supervisor)]);
    }
    started.release();
    // What a create has made is removed when it fails.
    let record = world.wait_phase("never", "Error", PATIENCE);
    assert_eq!(record["reason"], "ControlSupervisorStartFailed", "{record}");
    world.wait_phase("on-failure", "Ready", PATIENCE);
    // The same moment as seen from the other side.
    world.ok(&["sandbox", "start", "never"]);
    let lost = kill(world.process("never", Half::Supervisor));
    let since = Instant::now();
    let workspace = world.workspace("never");
    stood_still(&workspace, lost);
    let record = world.wait_phase("never", "Error", PATIENCE);
    assert!(since.elapsed() < CONTAINED, "after {:?}", since.elapsed());
    assert_eq!(record["reason"], "ControlSupervisorExited", "{record}");
    assert_eq!(world.running_since("never", Half::Workload), None);
    world.ok(&["sandbox", "delete", "--all", "--yes"]);
    world.nothing_is_left();
}

#[test]
fn l11_a_supervisor_lost_during_a_stop_does_not_undo_it() {
    let world = World::behind_relay("loss-stop", "");
    world.create("box", &["--restart-policy", "always"], TICKING);
    let workspace = world.workspace("box");
    wait_ticking(&workspace);
    let stops = Calls::stops().sandbox("box").of(Half::Workload);
    let stop = world.relay().trap(stops, Fault::HoldCall);
    world.ok(&["sandbox", "stop", "box", "--no-wait"]);
    stop.wait_held(1, PATIENCE).expect("the stop");
    let lost = kill(world.process("box", Half::Supervisor));
    stood_still(&workspace, lost);
    assert_eq!(world.phase("box"), "Stopping");
    stop.release();
    world.wait_phase("box", "Stopped", PATIENCE);
    assert_eq!(world.running_since("box", Half::Workload), None);
    run_on();
    assert_eq!(world.phase("box"), "Stopped");
    world.wait_boots("box", 1);
    world.delete("box");
    world.nothing_is_left();
}

#[test]
fn l11_a_supervisor_lost_while_the_gateway_is_away() {
    let mut world = World::new("loss-gateway");
    pair(&world);
    let workspace = world.workspace("never");
    let supervisors = ["never", "on-failure"].map(|name| world.process(name, Half::Supervisor));
    world.gateway.end(Signal::KILL).expect("it dies");
    let lost = kill(supervisors[0]);
    kill(supervisors[1]);
    stood_still(&workspace, lost);
    world.gateway.launch().expect("it comes back");
    // A loss while nobody watched is the infrastructure's, and what was meant to run runs again.
    for name in ["never", "on-failure"] {
        world.wait_run(name, 2);
        world.wait_boots(name, 2);
    }
    world.ok(&["sandbox", "delete", "--all", "--yes"]);
    world.nothing_is_left();
}

#[test]
fn l11_a_supervisor_lost_while_the_engine_is_away() {
    let mut world = World::on_own_engine(true, |_| ());
    pair(&world);
    let workspace = world.workspace("never");
    let supervisors = ["never", "on-failure"].map(|name| world.process(name, Half::Supervisor));
    world.engine().end_daemon(Signal::KILL).expect("it ends");
    let lost = kill(supervisors[0]);
    kill(supervisors[1]);
    stood_still(&workspace, lost);
    // It is not called Ready for long, while nobody can say more.
    wait::until("it to be told", PATIENCE, || {
        Ok((world.phase("never") != "Ready").then_some(()))
    })
    .unwrap_or_else(|error| panic!("{error:#}\n{}", world.events("never")));
    world.engine().start_daemon().expect("it comes back");
    policy_decided(&world, Instant::now(), 2);
    world.wait_boots("never", 1);
    world.wait_boots("on-failure", 2);
    world.ok(&["sandbox", "delete", "--all", "--yes"]);
    world.nothing_is_left();
}
