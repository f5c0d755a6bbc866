//! One seed, from an empty world to nothing left.

use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use openshell_lifecycle::simulated::{SimulatedDriver, SimulatedEnvironment};
use openshell_store::Store;

use super::chance::Chance;
use super::oracle::{Oracle, finale};
use super::plan::Plan;
use super::timeline::Timeline;
use super::world::{Witness, World};
use super::wrong::Planted;
use super::{blows, clients, gateway};

/// A stop that hangs is given up after its bound and its grace.
const GIVEN_UP: Duration = Duration::from_secs(75);

/// What came of one seed.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// What was broken, first things first.
    pub violations: Vec<String>,
    /// Steps of all cells.
    pub steps: u64,
    /// How long it was, by its own clock.
    pub length: Duration,
    /// For people, if it was kept.
    pub timeline: String,
}

/// Runs a seed, with or without something planted in the wiring.
pub fn run(seed: u64, planted: Option<Planted>, keep: bool) -> anyhow::Result<Outcome> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()?;
    runtime.block_on(whole(seed, planted, keep))
}

async fn whole(seed: u64, planted: Option<Planted>, keep: bool) -> anyhow::Result<Outcome> {
    let chance = Chance::new(seed);
    let plan = Plan::draw(&chance);
    let timeline = Arc::new(Timeline::new(keep));
    timeline.say("plan", || format!("seed {seed}: {plan:#?}"));
    let environment = Arc::new(SimulatedEnvironment::new());
    let witness = Arc::new(Witness(Mutex::new(Weak::new())));
    let engine = Arc::new(SimulatedDriver::observed(
        Arc::clone(&environment) as _,
        Some(Arc::clone(&witness) as _),
    ));
    let oracle = Arc::new(Oracle::new(
        plan.config.clone(),
        Arc::clone(&engine),
        Arc::clone(&environment),
        Arc::clone(&timeline),
    ));
    let world = Arc::new(World::new(
        plan,
        chance,
        Arc::clone(&timeline),
        environment,
        engine,
        Store::in_memory()?,
        Arc::clone(&oracle),
        planted,
    ));
    witness.see(&world);
    tokio::select! {
        biased;
        () = oracle.broken().cancelled() => {}
        () = story(&world) => {}
    }
    // What holds the world is the gateway's; the rest ends with the runtime.
    world.gateway.change(|g| *g = None);
    Ok(Outcome {
        violations: oracle.violations(),
        steps: oracle.steps(),
        length: timeline.elapsed(),
        timeline: timeline.text(),
    })
}

async fn story(world: &Arc<World>) {
    // Ends with the runtime.
    tokio::spawn(gateway::keep(Arc::clone(world)));
    let mut clients = clients::begin(world);
    blows::begin(world);
    tokio::time::sleep(world.plan.length).await;
    world.calm_down();
    world.engine.come_up();
    if world.engine.identity().0 != blows::OWN {
        world
            .engine
            .present_as(openshell_core::EngineId(blows::OWN.to_owned()));
    }
    while clients.join_next().await.is_some() {}
    // Calls that never come back are given up by now.
    tokio::time::sleep(GIVEN_UP).await;
    finale(world).await;
}
