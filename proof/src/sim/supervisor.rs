//! A simulated supervisor, from the start of its container to its end: attaches to its workload, keeps a session
//! with whatever gateway is there, tells what the gateway does not have yet, and ends the run when none comes back.

use std::sync::Arc;
use std::time::Duration;

use openshell_core::{ContainerId, Generation, SandboxId, SupervisorInstance};
use openshell_lifecycle::ports::{Environment as _, SessionEvent};
use openshell_lifecycle::simulated::Happening;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::session::{self, Ended};
use super::workload::{AGAIN, Workload, is_over};
use super::world::{World, locked, short};

/// The workload must be there to attach to within this.
const FIRST: Duration = Duration::from_secs(60);
/// The gateway is told of a failure within this, or not at all.
const REPORT: Duration = Duration::from_secs(10);
/// How a supervisor ends after a failure …
const FAILED: i32 = 70;
/// … and without a gateway.
const NO_GATEWAY: i32 = 75;
/// … to tell that main has ended.
const UNREPORTED: i32 = 76;
/// Tries in the first minute are never further apart, nor later ones than …
const FIRST_MINUTE: u64 = 2_000;
/// … this.
const LATER: u64 = 10_000;

/// One supervisor process.
pub(crate) struct Supervisor {
    pub(crate) world: Arc<World>,
    pub(crate) sandbox: SandboxId,
    pub(crate) generation: Generation,
    pub(crate) instance: SupervisorInstance,
    container: ContainerId,
}

/// A supervisor's container was started.
pub(crate) fn begin(
    world: &Arc<World>,
    happening: &Happening,
    run: Option<Generation>,
    end: CancellationToken,
) {
    let Some(generation) = run else {
        // Nothing was delivered to it.
        let (world, container) = (Arc::clone(world), happening.container.clone());
        tokio::spawn(async move {
            tokio::time::sleep(world.chance.millis(5, 500)).await;
            world.engine.end(&container, FAILED, false);
        });
        return;
    };
    let id = world.environment.operation_id().as_uuid();
    let supervisor = Supervisor {
        world: Arc::clone(world),
        sandbox: happening.sandbox,
        generation,
        instance: SupervisorInstance::from_uuid(id),
        container: happening.container.clone(),
    };
    // Ends with its container; what it held of the link is lost then.
    tokio::spawn(async move {
        let over = end.run_until_cancelled(supervisor.live()).await;
        supervisor.let_go();
        if let Some(code) = over {
            supervisor
                .world
                .engine
                .end(&supervisor.container, code, false);
        }
    });
}

impl Supervisor {
    pub(crate) fn say(&self, what: impl FnOnce() -> String) {
        let who = || format!("{} {}", short(&self.container), what());
        self.world.timeline.say("supervisor", who);
    }

    /// Lives until it ends by itself; the answer is its exit status.
    async fn live(&self) -> i32 {
        tokio::time::sleep(self.world.chance.millis(2, 60)).await;
        let Ok(workload) = tokio::time::timeout(FIRST, self.find()).await else {
            return self
                .fail("LinkTimedOut", "no sandbox runtime attached")
                .await;
        };
        tokio::time::sleep(self.world.chance.millis(1, 30)).await;
        if !workload.attach(self.instance) {
            return self.fail("LinkRefused", "the sandbox refuses").await;
        }
        tokio::select! {
            biased;
            () = lost(&workload) => self.fail("LinkLost", "the link did not come back").await,
            () = self.keep(&workload) => {
                let over = is_over(&workload.inside());
                workload.stop_by_link(&self.world);
                if over { UNREPORTED } else { NO_GATEWAY }
            }
        }
    }

    /// The workload of this run, once it is there.
    async fn find(&self) -> Arc<Workload> {
        loop {
            let seen = self.world.workload_started.version();
            let found = locked(&self.world.workloads)
                .values()
                .find(|w| w.sandbox == self.sandbox && w.generation == Some(self.generation))
                .cloned();
            if let Some(found) = found {
                return found;
            }
            self.world.workload_started.newer_than(seen).await;
        }
    }

    /// Keeps a session; comes back when the gateway has been away for too long.
    async fn keep(&self, workload: &Arc<Workload>) {
        let mut since = Instant::now();
        let mut attempt = 0;
        let limit = self.world.plan.gateway_outage_limit;
        loop {
            let ended = tokio::select! {
                biased;
                ended = session::keep(self, workload) => ended,
                () = too_long(since, limit), if attempt > 0 => return,
            };
            if ended == Ended::Accepted {
                (since, attempt) = (Instant::now(), 0);
            }
            let away = tokio::time::sleep(self.back_off(attempt, since.elapsed()));
            tokio::select! {
                biased;
                () = away => {}
                () = too_long(since, limit) => return,
            }
            attempt += 1;
        }
    }

    fn back_off(&self, attempt: u32, away: Duration) -> Duration {
        if attempt == 0 {
            return Duration::from_millis(50);
        }
        let cap = if away < Duration::from_secs(60) {
            FIRST_MINUTE
        } else {
            LATER
        };
        let doubled = 200_u64.saturating_mul(1 << (attempt - 1).min(10)).min(cap);
        Duration::from_millis(doubled - self.world.chance.below(doubled / 2))
    }

    /// The run cannot be: tells the gateway, if it can, and ends.
    async fn fail(&self, reason: &'static str, message: &'static str) -> i32 {
        self.say(|| format!("gives up: {reason}"));
        self.world.oracle.gave_up(self.sandbox, self.generation);
        let telling = async {
            self.world.gateway.until(Option::is_some).await;
            if let Some(gateway) = self.world.serving() {
                let event = SessionEvent::Failed(reason.to_owned(), message.to_owned());
                gateway
                    .tell(
                        &self.world,
                        self.sandbox,
                        self.generation,
                        self.instance,
                        event,
                    )
                    .await;
            }
        };
        let _told_or_not = tokio::time::timeout(REPORT, telling).await;
        FAILED
    }

    /// What it held is lost when it ends.
    fn let_go(&self) {
        if let Some(workload) = self.world.workload(self.sandbox)
            && workload.inside().pinned == Some(self.instance)
        {
            workload.detach();
        }
    }
}

/// The link is lost, and does not come back in time.
async fn lost(workload: &Workload) {
    let inside = workload.board();
    loop {
        inside.until(|i| !i.linked && !i.told).await;
        let back = inside.until(|i| i.linked);
        if tokio::time::timeout(AGAIN, back).await.is_err() {
            let over = is_over(&workload.inside());
            if over {
                return std::future::pending().await;
            }
            return;
        }
    }
}

async fn too_long(since: Instant, limit: Option<Duration>) {
    match limit {
        Some(limit) => tokio::time::sleep_until(since + limit).await,
        None => std::future::pending().await,
    }
}
