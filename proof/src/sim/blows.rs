//! What befalls the world in the time of trouble, each at a moment that the seed chooses.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use openshell_core::{EngineId, SandboxId};
use openshell_lifecycle::driver::{Role, Sighting};

use super::gateway;
use super::world::{World, locked, short};

/// One kind of blow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Blow {
    GatewayKill,
    GatewayEnd,
    EngineRestart,
    EngineEmpty,
    StreamsBreak,
    SupervisorDies,
    WorkloadDies,
    LinkBreaks,
    Hand,
    Foreigner,
    StoreOutage,
    Hang,
}

/// Strikes as often as planned.
pub(crate) fn begin(world: &Arc<World>) {
    let blows = &world.plan.blows;
    for (blow, times) in [
        (Blow::GatewayKill, blows.gateway_kills),
        (Blow::GatewayEnd, blows.gateway_ends),
        (Blow::EngineRestart, blows.engine_restarts),
        (Blow::EngineEmpty, blows.engine_empty),
        (Blow::StreamsBreak, blows.streams_break),
        (Blow::SupervisorDies, blows.supervisor_deaths),
        (Blow::WorkloadDies, blows.workload_deaths),
        (Blow::LinkBreaks, blows.link_breaks),
        (Blow::Hand, blows.hands),
        (Blow::Foreigner, blows.foreigners),
        (Blow::StoreOutage, blows.store_outages),
        (Blow::Hang, blows.hung_sandboxes),
    ] {
        for _ in 0..times {
            let length = u64::try_from(world.plan.length.as_millis()).unwrap_or(u64::MAX);
            let at = Duration::from_millis(world.chance.below(length));
            let world = Arc::clone(world);
            // Ends with the run, or by itself.
            tokio::spawn(async move {
                tokio::time::sleep(at).await;
                if !world.is_calm() {
                    strike(&world, blow).await;
                }
            });
        }
    }
}

async fn strike(world: &Arc<World>, blow: Blow) {
    world.timeline.say("trouble", || format!("{blow:?}"));
    match blow {
        Blow::GatewayKill => {
            if let Some(gateway) = world.serving() {
                gateway.fence.kill();
            }
        }
        Blow::GatewayEnd => gateway::end(world).await,
        Blow::EngineRestart => engine_restart(world).await,
        Blow::EngineEmpty => engine_empty(world).await,
        Blow::StreamsBreak => streams_break(world),
        Blow::SupervisorDies => dies(world, Role::Supervisor),
        Blow::WorkloadDies => dies(world, Role::Workload),
        Blow::LinkBreaks => link_breaks(world).await,
        Blow::Hand => hand(world),
        Blow::Foreigner => foreigner(world),
        Blow::StoreOutage => {
            world.store_down.store(true, Ordering::Relaxed);
            tokio::time::sleep(world.chance.spread(50, 30_000)).await;
            world.store_down.store(false, Ordering::Relaxed);
        }
        Blow::Hang => {
            if let Some(id) = some_sandbox(world) {
                locked(&world.hung).insert(id);
            }
        }
    }
}

fn some_sandbox(world: &World) -> Option<SandboxId> {
    let known = world.oracle.sandboxes();
    world.chance.pick(&known).copied()
}

fn streams_break(world: &World) {
    world.engine.break_waits();
    let feeds = locked(&world.feeds).clone();
    for feed in feeds.iter().filter_map(std::sync::Weak::upgrade) {
        feed.break_off();
    }
}

/// With live-restore what runs goes on; without, it ends with the engine, or when the engine is back.
async fn engine_restart(world: &Arc<World>) {
    if !world.engine.is_up() {
        return;
    }
    let survives = world.chance.per_mille(500);
    let early = world.chance.per_mille(500);
    world.oracle.engine_disturbed();
    world.engine.go_down();
    streams_break(world);
    if !survives && early {
        everything_ends(world);
    }
    tokio::time::sleep(world.chance.spread(100, 200_000)).await;
    if !survives && !early && !world.is_calm() {
        everything_ends(world);
    }
    world.engine.come_up();
    world.oracle.engine_disturbed();
    world.timeline.say("engine", || "answers again".to_owned());
}

fn everything_ends(world: &World) {
    for (container, _, _, running) in world.engine.holdings() {
        if running {
            let code = match world.chance.below(3) {
                0 => 137,
                1 => 143,
                _ => 255,
            };
            world.engine.end(&container, code, false);
        }
    }
}

/// Another engine, or fresh storage, answers for a while.
async fn engine_empty(world: &Arc<World>) {
    let own = world.engine.identity();
    if own.0 != OWN || !world.engine.is_up() {
        return;
    }
    world.oracle.engine_disturbed();
    world.engine.present_as(EngineId("engine-2".to_owned()));
    streams_break(world);
    tokio::time::sleep(world.chance.spread(500, 90_000)).await;
    world.engine.present_as(own);
    streams_break(world);
    world.oracle.engine_disturbed();
    world
        .timeline
        .say("engine", || "is the former one again".to_owned());
}

/// The engine that holds everything.
pub(crate) const OWN: &str = "engine-1";

fn dies(world: &World, role: Role) {
    let running: Vec<_> = world
        .engine
        .holdings()
        .into_iter()
        .filter(|(_, _, r, running)| *r == role && *running)
        .collect();
    let Some((container, ..)) = world.chance.pick(&running) else {
        return;
    };
    let code = match world.chance.below(4) {
        0 => 143,
        1 => 1,
        _ => 137,
    };
    world
        .engine
        .end(container, code, code == 137 && world.chance.per_mille(200));
}

async fn link_breaks(world: &Arc<World>) {
    let workloads: Vec<_> = locked(&world.workloads).values().cloned().collect();
    let Some(workload) = world.chance.pick(&workloads) else {
        return;
    };
    let Some(pinned) = workload.inside().pinned else {
        return;
    };
    world.timeline.say("workload", || {
        format!("{} loses its link", short(&workload.container))
    });
    if let Some(run) = workload.generation {
        world.oracle.broke(workload.sandbox, run);
    }
    workload.detach();
    if world.chance.per_mille(700) {
        tokio::time::sleep(world.chance.spread(10, 20_000)).await;
        // The same supervisor, if it still runs.
        if !workload.end().is_cancelled() && world.oracle.supervisor_runs(workload.sandbox) {
            workload.attach(pinned);
        }
    }
}

/// Somebody uses the engine beside the gateway.
fn hand(world: &World) {
    let holdings = world.engine.holdings();
    let Some((container, _, role, running)) = world.chance.pick(&holdings) else {
        return;
    };
    match (running, world.chance.below(3)) {
        (_, 0) => {
            world.oracle.removed_by_hand(container);
            world.engine.remove_by_hand(container);
        }
        (false, _) if matches!(world.engine.truth(container), Sighting::Exited(..)) => {
            world.engine.start_by_hand(container);
        }
        (false, _) => {}
        (true, 1) if *role == Role::Workload => {
            // docker restart
            world.engine.end(container, 143, false);
            world.engine.start_by_hand(container);
        }
        (true, _) => {
            world.engine.end(container, 137, false);
        }
    }
}

fn foreigner(world: &World) {
    let Some(id) = some_sandbox(world) else {
        return;
    };
    let role = if world.chance.per_mille(500) {
        Role::Workload
    } else {
        Role::Supervisor
    };
    let planted = world
        .engine
        .plant_foreign(id, role, world.chance.between(1, 3));
    world.oracle.planted(id, &planted);
    if world.chance.per_mille(400) {
        world.engine.end(&planted, 1, false);
        world.oracle.planted(id, &planted);
    }
}
