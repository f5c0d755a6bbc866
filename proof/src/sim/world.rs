//! Everything that a run's tasks share, and the engine's happenings as they reach the rest of the world.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use openshell_core::{ContainerId, Incarnation, SandboxId};
use openshell_lifecycle::driver::{EngineExit, Role};
use openshell_lifecycle::simulated::{
    Board, Happening, HappeningKind, Observer, SimulatedDriver, SimulatedEnvironment,
};
use openshell_store::Store;
use tokio_util::sync::CancellationToken;

use super::chance::Chance;
use super::feed::Feed;
use super::gateway::Gateway;
use super::oracle::Oracle;
use super::plan::Plan;
use super::timeline::Timeline;
use super::workload::Workload;
use super::wrong::Planted;

/// Locks what only one thread ever uses; a panic that was scripted leaves nothing half-done.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The world of one run.
pub(crate) struct World {
    pub(crate) plan: Plan,
    pub(crate) chance: Chance,
    pub(crate) timeline: Arc<Timeline>,
    pub(crate) environment: Arc<SimulatedEnvironment>,
    pub(crate) engine: Arc<SimulatedDriver>,
    pub(crate) store: Store,
    pub(crate) oracle: Arc<Oracle>,
    /// The gateway that serves now.
    pub(crate) gateway: Board<Option<Arc<Gateway>>>,
    /// Each gateway's stream of events.
    pub(crate) feeds: Mutex<Vec<Weak<Feed>>>,
    /// Workloads that run, by container.
    pub(crate) workloads: Mutex<BTreeMap<ContainerId, Arc<Workload>>>,
    /// Ticks when a workload starts.
    pub(crate) workload_started: Board<()>,
    /// The ends of everything that runs.
    ends: Mutex<BTreeMap<ContainerId, CancellationToken>>,
    /// The last end of each container that a wait was told of.
    pub(crate) ended: Mutex<BTreeMap<ContainerId, (Incarnation, EngineExit)>>,
    /// Sandboxes whose calls never come back.
    pub(crate) hung: Mutex<std::collections::BTreeSet<SandboxId>>,
    /// The store fails for now.
    pub(crate) store_down: AtomicBool,
    /// No more trouble.
    calm: AtomicBool,
    /// What is wrong with the wiring on purpose.
    pub(crate) fault: Option<Planted>,
}

impl World {
    #[expect(clippy::too_many_arguments, reason = "each is one part of the world")]
    pub(crate) fn new(
        plan: Plan,
        chance: Chance,
        timeline: Arc<Timeline>,
        environment: Arc<SimulatedEnvironment>,
        engine: Arc<SimulatedDriver>,
        store: Store,
        oracle: Arc<Oracle>,
        fault: Option<Planted>,
    ) -> Self {
        Self {
            plan,
            chance,
            timeline,
            environment,
            engine,
            store,
            oracle,
            gateway: Board::default(),
            feeds: Mutex::default(),
            workloads: Mutex::default(),
            workload_started: Board::default(),
            ends: Mutex::default(),
            ended: Mutex::default(),
            hung: Mutex::default(),
            store_down: AtomicBool::new(false),
            calm: AtomicBool::new(false),
            fault,
        }
    }

    /// The gateway that serves now, if one does.
    pub(crate) fn serving(&self) -> Option<Arc<Gateway>> {
        self.gateway.get()
    }

    pub(crate) fn is_calm(&self) -> bool {
        self.calm.load(Ordering::Relaxed)
    }

    /// Trouble ends: what is under way comes out, and nothing new goes wrong.
    pub(crate) fn calm_down(&self) {
        self.calm.store(true, Ordering::Relaxed);
        self.store_down.store(false, Ordering::Relaxed);
        locked(&self.hung).clear();
        self.timeline.say("world", || "no more trouble".to_owned());
    }

    /// So many times in a thousand, while there is trouble.
    pub(crate) fn trouble(&self, per_mille: u64) -> bool {
        !self.is_calm() && self.chance.per_mille(per_mille)
    }

    pub(crate) fn is_hung(&self, sandbox: Option<SandboxId>) -> bool {
        sandbox.is_some_and(|id| locked(&self.hung).contains(&id))
    }

    /// The running workload of a sandbox.
    pub(crate) fn workload(&self, sandbox: SandboxId) -> Option<Arc<Workload>> {
        let workloads = locked(&self.workloads);
        workloads.values().find(|w| w.sandbox == sandbox).cloned()
    }
}

/// What the engine tells the world.
pub(crate) struct Witness(pub(crate) Mutex<Weak<World>>);

impl Witness {
    /// This is the world that it tells.
    pub(crate) fn see(&self, world: &Arc<World>) {
        *locked(&self.0) = Arc::downgrade(world);
    }
}

impl Observer for Witness {
    fn happened(&self, happening: &Happening) {
        let Some(world) = locked(&self.0).upgrade() else {
            return;
        };
        world.timeline.say("engine", || describe(happening));
        world.oracle.happened(happening);
        match &happening.kind {
            HappeningKind::Started(run) => {
                let end = CancellationToken::new();
                locked(&world.ends).insert(happening.container.clone(), end.clone());
                match happening.role {
                    _ if happening.foreign => {}
                    Role::Workload => super::workload::begin(&world, happening, *run, end),
                    Role::Supervisor => super::supervisor::begin(&world, happening, *run, end),
                }
            }
            HappeningKind::Ended(_) | HappeningKind::Removed(true) => {
                if let Some(workload) = locked(&world.workloads).remove(&happening.container) {
                    workload.ended(happening);
                }
                if let Some(end) = locked(&world.ends).remove(&happening.container) {
                    end.cancel();
                }
            }
            HappeningKind::Made | HappeningKind::Removed(false) => {}
        }
        super::feed::tell(&world, happening);
    }
}

fn describe(happening: &Happening) -> String {
    let what = match &happening.kind {
        HappeningKind::Made => "is made".to_owned(),
        HappeningKind::Started(Some(run)) => format!("is started for run {run}"),
        HappeningKind::Started(None) => "is started by somebody else".to_owned(),
        HappeningKind::Ended(exit) if exit.oom_killed => "ends for its memory".to_owned(),
        HappeningKind::Ended(exit) => format!("ends with {}", exit.code),
        HappeningKind::Removed(true) => "is removed while it runs".to_owned(),
        HappeningKind::Removed(false) => "is removed".to_owned(),
    };
    format!("{} {}", short(&happening.container), what)
}

/// A container's name without its zeros: `7-workload`.
pub(crate) fn short(container: &ContainerId) -> &str {
    container.0.trim_start_matches('0')
}
