//! One gateway process after another on the same store and engine: begun, killed, ended, begun again.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use openshell_core::{Generation, SandboxId, SandboxRecord, SupervisorInstance};
use openshell_lifecycle::fence::SessionRefused;
use openshell_lifecycle::ports::{SessionEvent, SessionHello};
use openshell_lifecycle::simulated::SimulatedIssuer;
use openshell_lifecycle::{Fence, LifecycleFence as _};
use tokio_util::sync::CancellationToken;

use super::network::Network;
use super::session::Handle;
use super::weather::Weather;
use super::world::{World, locked};
use super::wrong;

/// A gateway process.
pub(crate) struct Gateway {
    pub(crate) number: u64,
    pub(crate) fence: Fence<Network>,
    /// The newest open session of each supervisor.
    sessions: Mutex<BTreeMap<SupervisorInstance, Arc<Handle>>>,
}

impl Gateway {
    /// Cancelled when the process is killed.
    pub(crate) fn killed(&self) -> &CancellationToken {
        self.fence.killed()
    }

    /// A supervisor asks for a session; nothing if the process dies meanwhile.
    pub(crate) async fn open(
        &self,
        world: &World,
        hello: SessionHello,
        handle: &Arc<Handle>,
    ) -> Option<Result<Arc<SandboxRecord>, SessionRefused>> {
        let earlier = locked(&self.sessions).insert(hello.instance, Arc::clone(handle));
        if let Some(earlier) = earlier {
            earlier.displace();
        }
        let opened = self
            .killed()
            .run_until_cancelled(self.fence.session_opened(wrong::hello(world, hello)))
            .await;
        if self.killed().is_cancelled() {
            return None;
        }
        opened
    }

    /// A word of a session; whether it was heard.
    pub(crate) async fn tell(
        &self,
        world: &World,
        sandbox: SandboxId,
        generation: Generation,
        instance: SupervisorInstance,
        event: SessionEvent,
    ) -> bool {
        let event = wrong::word(world, event);
        let told = self
            .fence
            .session_event(sandbox, generation, instance, event);
        self.killed().run_until_cancelled(told).await;
        !self.killed().is_cancelled()
    }
}

/// Keeps a gateway running: whenever one has ended, another is begun after a while.
pub(crate) async fn keep(world: Arc<World>) {
    let mut number = 0;
    loop {
        number += 1;
        let gateway = match begin(&world, number).await {
            Ok(gateway) => gateway,
            Err(why) => {
                world
                    .timeline
                    .say("gateway", || format!("{number} does not start: {why}"));
                tokio::task::yield_now().await;
                world.oracle.gateway_gone(&world.store);
                tokio::time::sleep(world.chance.millis(100, 1_000)).await;
                continue;
            }
        };
        world.timeline.say("gateway", || format!("{number} serves"));
        world.gateway.change(|g| *g = Some(Arc::clone(&gateway)));
        gateway.killed().cancelled().await;
        world.gateway.change(|g| *g = None);
        world
            .timeline
            .say("gateway", || format!("{number} is gone"));
        drop(gateway);
        // Whatever was being polled when it was killed is dropped now.
        tokio::task::yield_now().await;
        world.oracle.forget_last(&world);
        world.oracle.gateway_gone(&world.store);
        let away = if world.is_calm() {
            world.chance.millis(100, 2_000)
        } else {
            world.chance.spread(20, 60_000)
        };
        tokio::time::sleep(away).await;
    }
}

async fn begin(world: &Arc<World>, number: u64) -> Result<Arc<Gateway>, String> {
    world.oracle.gateway_begins();
    let killed = Arc::new(std::sync::OnceLock::new());
    let weather = Weather::new(world, &killed);
    let network = Arc::new(Network::new(world, &killed));
    let fence = Fence::new(
        world.plan.config.clone(),
        network,
        world.store.under(Arc::new(weather)),
        Arc::clone(&world.environment) as _,
        Arc::new(SimulatedIssuer),
    )
    .probed(Arc::clone(&world.oracle) as _);
    // It is set once, here.
    let _first = killed.set(fence.killed().clone());
    if world.trouble(world.plan.odds.dies_at_store * 3) {
        fence.kill_at_poll(world.chance.between(1, 400));
    }
    let restored = fence
        .killed()
        .clone()
        .run_until_cancelled(fence.restore())
        .await;
    match restored {
        Some(Ok(())) => {}
        Some(Err(error)) => {
            fence.kill();
            return Err(error.to_string());
        }
        None => return Err("it is killed".to_owned()),
    }
    Ok(Arc::new(Gateway {
        number,
        fence,
        sessions: Mutex::default(),
    }))
}

/// Ends the gateway as a service manager does, with or without its runs.
pub(crate) async fn end(world: &World) {
    let Some(gateway) = world.serving() else {
        return;
    };
    world
        .timeline
        .say("gateway", || format!("{} is told to end", gateway.number));
    gateway
        .killed()
        .run_until_cancelled(gateway.fence.shutdown())
        .await;
    gateway.fence.kill();
}
