//! S4, the gateway goes and comes back: what runs does not feel it, and what users see meanwhile is true.

mod away;
mod ends;
mod shown;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use openshell_e2e::each::each;
use openshell_e2e::ticks::{self, Ticks};
use openshell_e2e::wait;
use rustix::process::Signal;

use crate::ticks::GAP;
use crate::world::{PATIENCE, World, uptime};

/// So long the gateway is away.
const AWAY: Duration = Duration::from_millis(1500);
/// What a busy machine may add.
const NOISE: Duration = Duration::from_secs(2);
const POLICIES: [&str; 3] = ["never", "on-failure", "always"];

/// So many sandboxes that tick, made side by side, each with the next policy.
fn ticking(world: &World, count: usize) -> Vec<String> {
    let names: Vec<String> = (0..count).map(|index| format!("box-{index}")).collect();
    each(&names, |name| {
        let index: usize = name[4..].parse().expect("a number");
        let options = ["--restart-policy", POLICIES[index % POLICIES.len()]];
        world.create(name, &options, ticks::MAIN);
        Ok(())
    })
    .expect("all are made");
    names
}

/// Every container of this gateway's with the time of its start, by the engine's word.
fn incarnations(world: &World) -> BTreeMap<String, String> {
    let namespace = &world.gateway.settings().namespace;
    let filter = format!("label=openshell.ai/sandbox-namespace={namespace}");
    let ids = world.docker(&["ps", "-aq", "--no-trunc", "--filter", &filter]);
    let ids = ids.text();
    let mut words = vec!["inspect"];
    words.extend(ids.lines());
    let seen = world.docker(&words).json().expect("JSON");
    let seen = seen.as_array().expect("a list").iter().map(|container| {
        let word = |value: &serde_json::Value| value.as_str().expect("a word").to_owned();
        let started = format!(
            "{} {}",
            container["State"]["Status"], container["State"]["StartedAt"]
        );
        (word(&container["Id"]), started)
    });
    seen.collect()
}

/// Waits until all are Ready and a command runs in each.
fn all_answer(world: &World, names: &[String]) {
    let mut last = serde_json::Value::Null;
    let ready = wait::until("all to be Ready", PATIENCE, || {
        last = world.ok(&["sandbox", "list", "-o", "json"]).json()?;
        let records = last["sandboxes"].as_array().map_or(&[][..], Vec::as_slice);
        let ready = |record: &&serde_json::Value| record["phase"] == "Ready";
        Ok((records.iter().filter(ready).count() == names.len()).then_some(()))
    });
    ready.unwrap_or_else(|error| panic!("{error:#}: {last:#}"));
    each(names, |name| {
        assert_eq!(world.said(name, "echo here"), "here");
        Ok(())
    })
    .expect("all answer");
}

/// The gateway goes, is away for a while, and comes back; how long until all answer, from its start.
fn outage(world: &mut World, signal: Signal, names: &[String]) -> Duration {
    let code = world.gateway.end(signal).expect("the gateway ends");
    assert_eq!(code, if signal == Signal::TERM { 0 } else { 137 });
    wait::pause(AWAY);
    let started = Instant::now();
    world.gateway.launch().expect("the gateway comes back");
    all_answer(world, names);
    started.elapsed()
}

/// Nothing of it was felt: the same run, the same processes, every tick.
fn unharmed(world: &World, names: &[String], before: &BTreeMap<String, String>) -> f64 {
    assert_eq!(&incarnations(world), before, "not the same processes");
    let now = uptime();
    let largest = std::sync::Mutex::new(0.0_f64);
    each(names, |name| {
        let record = world.record(name);
        assert_eq!(record["generation"], 1, "{record}");
        assert_eq!(record["reason"], "Adopted", "{record}");
        assert_eq!(record["restart_count"], 0, "{record}");
        let boots = world.said(name, &format!("cat {}", ticks::BOOTS));
        assert_eq!(boots, "run", "{name}");
        let text = world.said(name, &format!("cat {}; echo", ticks::TICKS));
        let ticks = Ticks::parse(&text);
        assert!(ticks.last() > now - 1.0, "{name} ticks no more");
        let gap = ticks.longest_pause(0.0);
        assert!(gap < GAP, "{name}: a gap of {gap} s");
        let mut largest = largest.lock().expect("no panic");
        *largest = largest.max(gap);
        Ok(())
    })
    .expect("all are unharmed");
    largest.into_inner().expect("no panic")
}

/// Five outages in a row; how long each took, and the largest gap in the ticks.
fn outages(world: &mut World, signal: Signal, count: usize) -> (Vec<Duration>, f64) {
    let names = ticking(world, count);
    let before = incarnations(world);
    assert_eq!(before.len(), 2 * count);
    let times: Vec<Duration> = (0..5).map(|_| outage(world, signal, &names)).collect();
    let gap = unharmed(world, &names, &before);
    assert!(times[4] < times[0] + NOISE, "it gets slower: {times:?}");
    world.ok(&["sandbox", "delete", "--all", "--yes"]);
    world.nothing_is_left();
    (times, gap)
}

#[test]
fn s4_a_five_kills_in_a_row_are_not_felt_by_what_runs_whatever_its_policy() {
    let seen = outages(&mut World::new("s4-kill"), Signal::KILL, 3);
    println!("{seen:?}");
}

#[test]
fn s4_a_fifty_sandboxes_are_adopted_side_by_side() {
    let mut world = World::new("s4-fifty");
    let names = ticking(&world, 50);
    let before = incarnations(&world);
    let time = outage(&mut world, Signal::KILL, &names);
    let gap = unharmed(&world, &names, &before);
    println!("50 sandboxes: {time:?}; the largest gap: {gap:.2} s");
    world.ok(&["sandbox", "delete", "--all", "--yes"]);
    world.nothing_is_left();
}

#[test]
fn s4_b_five_terminations_in_a_row_are_not_felt_by_what_runs() {
    let seen = outages(&mut World::new("s4-term"), Signal::TERM, 3);
    println!("{seen:?}");
}

const STOP: &str = "[openshell.lifecycle]\non_shutdown = \"stop\"\nstop_grace_secs = 2\n";

#[test]
fn s4_b_what_is_stopped_with_the_gateway_is_stopped_at_once_and_brought_back() {
    let mut world = World::with("s4-stop", |settings| settings.more = STOP.to_owned());
    let mut names = ticking(&world, 3);
    // Some do not heed the first word: they take the whole grace, all at the same time.
    let deaf = "trap '' TERM; echo run >> /sandbox/boots; while :; do usleep 100000; done";
    for index in 3..6 {
        let name = format!("box-{index}");
        world.create(&name, &[], &["sh", "-c", deaf]);
        names.push(name);
    }
    world.create("rests", &[], ticks::MAIN);
    world.ok(&["sandbox", "stop", "rests"]);
    // Nor does it get slower, as if it had failed again and again.
    for run in 2..=4 {
        let asked = Instant::now();
        assert_eq!(world.gateway.end(Signal::TERM).expect("it ends"), 0);
        let took = asked.elapsed();
        println!("6 sandboxes, 3 of them deaf for the grace of 2 s: {took:?}");
        assert!(took < Duration::from_secs(2) + 2 * NOISE, "{took:?}");
        let states = incarnations(&world);
        assert!(
            !states.values().any(|state| state.contains("running")),
            "{states:?}"
        );
        world.gateway.launch().expect("the gateway comes back");
        for name in &names {
            let record = world.wait_run(name, run);
            assert_eq!(record["reason"], "Restored", "{record}");
            assert_eq!(record["restart_count"], 0, "{record}");
            world.wait_boots(name, usize::try_from(run).expect("small"));
        }
    }
    assert_eq!(world.phase("rests"), "Stopped");
    world.ok(&["sandbox", "delete", "--all", "--yes"]);
    world.nothing_is_left();
}
