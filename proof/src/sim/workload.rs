//! The sandbox runtime inside a workload: it accepts one supervisor, starts main once, freezes without the link,
//! and ends with main.

use std::sync::Arc;
use std::time::Duration;

use openshell_core::{ContainerId, Generation, SandboxId, SupervisorInstance};
use openshell_lifecycle::ports::{Environment as _, MainReport};
use openshell_lifecycle::simulated::{Board, Happening, HappeningKind};
use tokio_util::sync::CancellationToken;

use super::world::{World, locked, short};

/// The first supervisor must attach within this.
const FIRST: Duration = Duration::from_secs(60);
/// The same one must attach again within this.
pub(crate) const AGAIN: Duration = Duration::from_secs(30);
/// After main has ended its end is told for so long.
const REPORT: Duration = Duration::from_secs(2);
/// The exit status if there never was a main process.
const NO_MAIN: i32 = 70;
/// 128 + SIGTERM.
const TERMINATED: i32 = 143;

/// What holds inside.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Inside {
    pub(crate) pinned: Option<SupervisorInstance>,
    pub(crate) linked: bool,
    pub(crate) main: MainReport,
    oom: bool,
    /// By the supervisor's order.
    pub(crate) frozen: bool,
    /// The gateway has main's end.
    pub(crate) told: bool,
}

/// One life of a workload's container.
pub(crate) struct Workload {
    pub(crate) sandbox: SandboxId,
    pub(crate) container: ContainerId,
    /// Of the launch; none if somebody else started it, and so nothing was delivered to it.
    pub(crate) generation: Option<Generation>,
    inside: Board<Inside>,
    end: CancellationToken,
}

/// A workload's container was started.
pub(crate) fn begin(
    world: &Arc<World>,
    happening: &Happening,
    generation: Option<Generation>,
    end: CancellationToken,
) {
    let workload = Arc::new(Workload {
        sandbox: happening.sandbox,
        container: happening.container.clone(),
        generation,
        inside: Board::new(Inside {
            pinned: None,
            linked: false,
            main: MainReport::NotStarted,
            oom: false,
            frozen: false,
            told: false,
        }),
        end: end.clone(),
    });
    let stubborn = world.trouble(world.plan.odds.stubborn);
    world.engine.set_stubborn(&workload.container, stubborn);
    locked(&world.workloads).insert(workload.container.clone(), Arc::clone(&workload));
    world.workload_started.change(|()| {});
    let world = Arc::clone(world);
    // Ends with its container.
    tokio::spawn(async move { end.run_until_cancelled(live(&world, &workload)).await });
}

async fn live(world: &World, workload: &Workload) {
    if workload.generation.is_none() {
        // Nothing was delivered to it.
        tokio::time::sleep(world.chance.spread(20, 4_000)).await;
        workload.end_with(world, NO_MAIN);
        return;
    }
    if !workload.until(FIRST, |i| i.linked).await {
        workload.end_with(world, NO_MAIN);
        return;
    }
    loop {
        workload.settle(|i| !i.linked || is_over(i)).await;
        if is_over(&workload.inside()) {
            workload.until(REPORT, |i| i.told).await;
            tokio::time::sleep(world.chance.millis(0, 20)).await;
            workload.end_with(world, NO_MAIN);
            return;
        }
        if !workload.until(AGAIN, |i| i.linked || is_over(i)).await {
            workload.end_with(world, NO_MAIN);
            return;
        }
    }
}

pub(crate) fn is_over(inside: &Inside) -> bool {
    matches!(
        inside.main,
        MainReport::Exited(..) | MainReport::Stopped(..)
    )
}

impl Workload {
    pub(crate) fn inside(&self) -> Inside {
        self.inside.get()
    }

    pub(crate) const fn board(&self) -> &Board<Inside> {
        &self.inside
    }

    /// Cancelled when the container does not run any more.
    pub(crate) const fn end(&self) -> &CancellationToken {
        &self.end
    }

    /// Whether anything of it may move.
    pub(crate) fn is_frozen(&self) -> bool {
        let inside = self.inside();
        inside.frozen || (inside.pinned.is_some() && !inside.linked)
    }

    async fn settle(&self, condition: impl Fn(&Inside) -> bool) {
        self.inside.until(condition).await;
    }

    async fn until(&self, within: Duration, condition: impl Fn(&Inside) -> bool) -> bool {
        tokio::time::timeout(within, self.settle(condition))
            .await
            .is_ok()
    }

    /// Attaches a supervisor; every other than the first is refused.
    pub(crate) fn attach(&self, instance: SupervisorInstance) -> bool {
        let mut accepted = false;
        self.inside.change(|i| {
            accepted = *i.pinned.get_or_insert(instance) == instance;
            i.linked |= accepted;
            if accepted {
                // A fresh attach thaws.
                i.frozen = false;
            }
        });
        accepted
    }

    pub(crate) fn detach(&self) {
        self.inside.change(|i| i.linked = false);
    }

    pub(crate) fn freeze(&self, frozen: bool) {
        self.inside.change(|i| i.frozen = frozen);
    }

    pub(crate) fn acknowledge(&self) {
        self.inside.change(|i| i.told = true);
    }

    /// Starts main unless it was started before in this life.
    pub(crate) fn start_main(self: &Arc<Self>, world: &Arc<World>) {
        if self.inside().main != MainReport::NotStarted || self.end.is_cancelled() {
            return;
        }
        let now = world.environment.now();
        self.inside.change(|i| i.main = MainReport::Running(now));
        world.timeline.say("workload", || {
            format!("{} main starts", short(&self.container))
        });
        world
            .oracle
            .main_started(self.sandbox, self.generation.unwrap_or_default());
        if world.trouble(world.plan.odds.main_ends) {
            let (world, workload) = (Arc::clone(world), Arc::clone(self));
            let lives = world.chance.spread(5, 60_000);
            let how = world.chance.below(8);
            // Ends with its container.
            tokio::spawn(async move {
                let end = workload.end.clone();
                end.run_until_cancelled(workload.die(&world, lives, how))
                    .await
            });
        }
    }

    async fn die(&self, world: &World, lives: Duration, how: u64) {
        tokio::time::sleep(lives).await;
        self.settle(|i| !i.frozen && i.linked).await;
        if is_over(&self.inside()) || world.is_calm() {
            return;
        }
        let (code, oom) = match how {
            0..3 => (0, false),
            3..6 => (17, false),
            6 => (143, false),
            _ => (137, true),
        };
        let now = world.environment.now();
        world.timeline.say("workload", || {
            format!("{} main ends with {code}", short(&self.container))
        });
        world.oracle.main_ended(self.sandbox, self.generation, code);
        self.inside.change(|i| {
            i.oom = oom;
            i.main = MainReport::Exited(code, now);
        });
    }

    /// PID 1 ends, with main's status.
    fn end_with(&self, world: &World, otherwise: i32) {
        let inside = self.inside();
        let code = match inside.main {
            MainReport::Exited(code, _) | MainReport::Stopped(code, _) => code,
            // It was told to end.
            MainReport::Running(_) => TERMINATED,
            MainReport::NotStarted => otherwise,
        };
        world.engine.end(&self.container, code, inside.oom);
    }

    /// The container has ended, by whoever's hand.
    pub(crate) fn ended(&self, happening: &Happening) {
        if let HappeningKind::Ended(exit) = &happening.kind
            && exit.code == TERMINATED
        {
            // A main that is told to end says so before it does; one that is killed does not.
            self.inside.change(|i| {
                if let MainReport::Running(_) = i.main {
                    i.main = MainReport::Stopped(exit.code, happening.at);
                }
            });
        }
        self.detach();
    }

    /// The supervisor ends it over the link.
    pub(crate) fn stop_by_link(&self, world: &World) {
        if self.inside().linked {
            self.end_with(world, NO_MAIN);
        }
    }
}
