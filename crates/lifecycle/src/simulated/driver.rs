//! The simulated engine as a [`ComputeDriver`].

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::StreamExt as _;
use openshell_core::{ContainerId, EngineId, Generation, ImageRef, Incarnation, SandboxId};
use tokio::sync::mpsc;

use super::board::Board;
use super::world::{Call, Fault, Method, Observer, Status, World};
use crate::driver::{
    ByteStream, ComputeDriver, Containers, DriverError, DriverErrorKind, EngineInfo, EngineSignal,
    Launched, Owned, Permit, Prepared, Progress, Role, RunRequest, Sighting, StopOutcome,
    WaitOutcome,
};
use crate::ports::Environment;

/// So many launches may wait to be heard of.
const LAUNCHES: usize = 1024;

/// A scripted engine.
pub struct SimulatedDriver {
    environment: Arc<dyn Environment>,
    world: Mutex<World>,
    changed: Board<()>,
    /// Grows when all waits break.
    breaks: Board<()>,
    observer: Option<Arc<dyn Observer>>,
}

impl std::fmt::Debug for SimulatedDriver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SimulatedDriver(..)")
    }
}

impl SimulatedDriver {
    /// An empty engine.
    pub fn new(environment: Arc<dyn Environment>) -> Self {
        Self::observed(environment, None)
    }

    /// An empty engine that somebody sees into.
    pub fn observed(
        environment: Arc<dyn Environment>,
        observer: Option<Arc<dyn Observer>>,
    ) -> Self {
        Self {
            environment,
            world: Mutex::new(World::new(EngineId("engine-1".to_owned()))),
            changed: Board::default(),
            breaks: Board::default(),
            observer,
        }
    }

    pub(super) fn environment(&self) -> &dyn Environment {
        self.environment.as_ref()
    }

    pub(super) fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn tick(&self) {
        let happenings = std::mem::take(&mut self.world().happenings);
        self.changed.change(|()| {});
        if let Some(observer) = &self.observer {
            for happening in &happenings {
                observer.happened(happening);
            }
        }
    }

    /// Scripts what goes wrong with the next call of a method, for one sandbox or for any.
    pub fn script(&self, method: Method, sandbox: Option<SandboxId>, fault: Fault) {
        self.world()
            .faults
            .entry((method, sandbox))
            .or_default()
            .push_back(fault);
    }

    /// Whether containers made from now on ignore TERM.
    pub fn make_stubborn(&self, stubborn: bool) {
        self.world().stubborn = stubborn;
    }

    /// Every call so far.
    pub fn calls(&self) -> Vec<Call> {
        self.world().calls.clone()
    }

    /// How often a method was called for a sandbox.
    pub fn count(&self, method: Method, sandbox: SandboxId) -> usize {
        self.world()
            .calls
            .iter()
            .filter(|c| c.method == method && c.sandbox == Some(sandbox))
            .count()
    }

    /// How many containers it holds.
    pub fn containers(&self) -> usize {
        self.world().containers.len()
    }

    /// Tells of every launch, as long as somebody listens and keeps up.
    pub fn launches(&self) -> mpsc::Receiver<(SandboxId, Generation)> {
        let (told, heard) = mpsc::channel(LAUNCHES);
        self.world().launches.push(told);
        heard
    }

    /// The container of a half, if there is one.
    pub fn container(&self, sandbox: SandboxId, role: Role) -> Option<ContainerId> {
        self.world().find(sandbox, role)
    }

    /// What an inspect would say of a half.
    pub fn sighting(&self, sandbox: SandboxId, role: Role) -> Option<Sighting> {
        let world = self.world();
        world.find(sandbox, role).map(|id| world.sighting(&id))
    }

    /// A half's process ends by itself.
    pub fn exit(&self, sandbox: SandboxId, role: Role, code: i32, oom: bool) {
        let now = self.environment.now();
        let mut world = self.world();
        if let Some(id) = world.find(sandbox, role) {
            world.end(&id, code, oom, now);
        }
        drop(world);
        self.tick();
    }

    /// Somebody removes a half's container behind the gateway's back.
    pub fn vanish(&self, sandbox: SandboxId, role: Role) {
        let now = self.environment.now();
        let mut world = self.world();
        if let Some(id) = world.find(sandbox, role) {
            world.remove(&id, now);
        }
        drop(world);
        self.tick();
    }

    /// A supervisor's container that nobody recorded, as an interrupted start leaves it.
    pub fn leave_supervisor(&self, sandbox: SandboxId, generation: u64) {
        let now = self.environment.now();
        self.world()
            .make(sandbox, Role::Supervisor, Generation(generation), now);
    }

    /// All waits in flight break, as they do when a daemon goes.
    pub fn break_waits(&self) {
        self.breaks.change(|()| {});
    }

    /// The event stream tells something.
    pub async fn signal(&self, signal: EngineSignal) {
        let watchers = self.world().watchers.clone();
        for watcher in watchers {
            // A watcher that has gone hears nothing.
            let _ = watcher.send(signal.clone()).await;
        }
    }

    /// Notes a call and has its scripted fault take place; answers with an error to be given after it was done.
    async fn enter(
        &self,
        method: Method,
        sandbox: Option<SandboxId>,
    ) -> Result<Option<DriverError>, DriverError> {
        let fault = {
            let mut world = self.world();
            if world.down {
                return Err(DriverError::new(
                    DriverErrorKind::Unreachable,
                    "the engine does not answer",
                ));
            }
            world.calls.push(Call { method, sandbox });
            let own = world
                .faults
                .get_mut(&(method, sandbox))
                .and_then(std::collections::VecDeque::pop_front);
            own.or_else(|| {
                world
                    .faults
                    .get_mut(&(method, None))
                    .and_then(std::collections::VecDeque::pop_front)
            })
        };
        match fault {
            None => Ok(None),
            Some(Fault::Delay(by)) => {
                tokio::time::sleep(by).await;
                Ok(None)
            }
            Some(Fault::Hold(gate)) => {
                gate.pass().await;
                Ok(None)
            }
            Some(Fault::Fail(error)) => Err(error),
            Some(Fault::Lose(error)) => Ok(Some(error)),
            Some(Fault::Hang) => std::future::pending().await,
            #[expect(clippy::panic, reason = "it is what was scripted")]
            Some(Fault::Panic) => panic!("scripted"),
        }
    }

    fn sandbox_of(&self, container: &ContainerId) -> Option<SandboxId> {
        self.world().containers.get(container).map(|c| c.sandbox)
    }
}

fn answer<T>(lost: Option<DriverError>, value: T) -> Result<T, DriverError> {
    lost.map_or(Ok(value), Err)
}

impl ComputeDriver for SimulatedDriver {
    async fn info(&self) -> Result<EngineInfo, DriverError> {
        let lost = self.enter(Method::Info, None).await?;
        let id = self.world().engine.clone();
        answer(
            lost,
            EngineInfo {
                id,
                driver: "simulated",
                version: "1".to_owned(),
                api_version: "1".to_owned(),
                limits_supported: true,
            },
        )
    }

    async fn prepare_image(
        &self,
        permit: &Permit,
        image: &ImageRef,
        progress: Progress,
    ) -> Result<(), DriverError> {
        // Nobody may be listening.
        let _ = progress.try_send(format!("pulling {image}"));
        let lost = self
            .enter(Method::PrepareImage, Some(permit.sandbox()))
            .await?;
        answer(lost, ())
    }

    async fn prepare_run(
        &self,
        permit: &Permit,
        run: &RunRequest,
    ) -> Result<Prepared, DriverError> {
        let lost = self
            .enter(Method::PrepareRun, Some(permit.sandbox()))
            .await?;
        let now = self.environment.now();
        let mut world = self.world();
        let kept = run.existing_workload.as_ref();
        if kept.is_some_and(|kept| !world.holds(kept)) {
            return Err(DriverError::new(
                DriverErrorKind::RuntimeMissing,
                "the recorded container does not exist",
            ));
        }
        world.clear_leftovers(run, now);
        let workload = kept
            .cloned()
            .unwrap_or_else(|| world.make(run.sandbox, Role::Workload, run.generation, now));
        let supervisor = world.make(run.sandbox, Role::Supervisor, run.generation, now);
        let engine = world.engine.clone();
        drop(world);
        self.tick();
        answer(
            lost,
            Prepared {
                workload,
                supervisor,
                engine,
            },
        )
    }

    async fn launch(&self, permit: &Permit, run: &Prepared) -> Result<Launched, DriverError> {
        let lost = self.enter(Method::Launch, Some(permit.sandbox())).await?;
        let now = self.environment.now();
        let mut world = self.world();
        let both = world.holds(&run.workload) && world.holds(&run.supervisor);
        let of = Some(permit.generation());
        let started = both.then(|| {
            Some((
                world.start(&run.workload, of, now)?,
                world.start(&run.supervisor, of, now)?,
            ))
        });
        let Some((workload, supervisor)) = started.flatten() else {
            return Err(DriverError::new(
                DriverErrorKind::RuntimeMissing,
                "a container of the run does not exist",
            ));
        };
        let launch = (permit.sandbox(), permit.generation());
        world.launches.retain(|told| told.try_send(launch).is_ok());
        drop(world);
        self.tick();
        answer(
            lost,
            Launched {
                workload,
                supervisor,
            },
        )
    }

    async fn stop(
        &self,
        permit: &Permit,
        container: &ContainerId,
        grace: Duration,
    ) -> Result<StopOutcome, DriverError> {
        let lost = self.enter(Method::Stop, Some(permit.sandbox())).await?;
        let (stubborn, status) = self
            .world()
            .containers
            .get(container)
            .map_or((false, None), |c| (c.stubborn, Some(c.status.clone())));
        let stubborn = stubborn && matches!(status, Some(Status::Running(_)));
        if stubborn && !grace.is_zero() {
            tokio::time::sleep(grace).await;
        }
        let code = if stubborn || grace.is_zero() {
            137
        } else {
            143
        };
        let now = self.environment.now();
        let mut world = self.world();
        // A stop is of one life: what somebody has started meanwhile is not stopped.
        let same = world.containers.get(container).map(|c| &c.status) == status.as_ref();
        if world.holds(container) && same {
            world.end(container, code, false, now);
        }
        let outcome = match world.sighting(container) {
            Sighting::Exited(_, exit) => StopOutcome::NotRunning(exit),
            Sighting::Missing(_) => StopOutcome::Missing,
            _ => StopOutcome::NeverStarted,
        };
        drop(world);
        self.tick();
        answer(lost, outcome)
    }

    async fn remove_supervisor(
        &self,
        permit: &Permit,
        container: &ContainerId,
    ) -> Result<(), DriverError> {
        let lost = self
            .enter(Method::RemoveSupervisor, Some(permit.sandbox()))
            .await?;
        let now = self.environment.now();
        let mut world = self.world();
        if world.holds(container) {
            world.remove(container, now);
        }
        drop(world);
        self.tick();
        answer(lost, ())
    }

    async fn remove(&self, permit: &Permit, recorded: &Containers) -> Result<(), DriverError> {
        let lost = self.enter(Method::Remove, Some(permit.sandbox())).await?;
        let now = self.environment.now();
        let mut world = self.world();
        let found = world.ours(permit.sandbox()).map(|(id, _)| id.clone());
        let mut all: BTreeSet<ContainerId> = found.collect();
        let recorded = [&recorded.workload, &recorded.supervisor];
        all.extend(recorded.into_iter().flatten().cloned());
        for id in all {
            if world.holds(&id) {
                world.remove(&id, now);
            }
        }
        drop(world);
        self.tick();
        answer(lost, ())
    }

    async fn inspect(&self, container: &ContainerId) -> Result<Sighting, DriverError> {
        let sandbox = self.sandbox_of(container);
        let lost = self.enter(Method::Inspect, sandbox).await?;
        let sighting = self.world().sighting(container);
        answer(lost, sighting)
    }

    async fn wait(&self, incarnation: &Incarnation) -> WaitOutcome {
        let unbroken = self.breaks.version();
        let sandbox = self.sandbox_of(&incarnation.container);
        match self.enter(Method::Wait, sandbox).await {
            Ok(None) => {}
            Ok(Some(error)) | Err(error) => return WaitOutcome::Lost(error.message),
        }
        loop {
            let seen = self.changed.version();
            let sighting = self.world().sighting(&incarnation.container);
            match sighting {
                Sighting::Running(seen) if seen == *incarnation => {}
                Sighting::Exited(seen, exit) if seen == *incarnation => {
                    return WaitOutcome::Exited(seen, exit);
                }
                _ => return WaitOutcome::Superseded,
            }
            tokio::select! {
                biased;
                () = self.breaks.newer_than(unbroken) => return WaitOutcome::Lost("the connection broke".to_owned()),
                () = self.changed.newer_than(seen) => {}
            }
        }
    }

    async fn list_owned(&self) -> Result<Vec<Owned>, DriverError> {
        let lost = self.enter(Method::ListOwned, None).await?;
        let engine = self.world().engine.clone();
        let owned = self
            .world()
            .containers
            .iter()
            .filter(|(_, c)| !c.foreign && c.engine == engine)
            .map(|(id, c)| Owned {
                sandbox: c.sandbox,
                role: c.role,
                container: id.clone(),
                name: id.to_string(),
                generation: (c.role == Role::Supervisor).then_some(c.generation),
                running: matches!(c.status, Status::Running(_)),
            })
            .collect();
        answer(lost, owned)
    }

    async fn watch(&self, signals: mpsc::Sender<EngineSignal>) {
        let engine = self.world().engine.clone();
        if signals.send(EngineSignal::Connected(engine)).await.is_err() {
            return;
        }
        self.world().watchers.push(signals.clone());
        signals.closed().await;
    }

    async fn read_archive(
        &self,
        container: &ContainerId,
        _path: &Path,
    ) -> Result<ByteStream, DriverError> {
        let sandbox = self.sandbox_of(container);
        let lost = self.enter(Method::ReadArchive, sandbox).await?;
        let nothing: ByteStream = Box::pin(futures_util::stream::empty());
        answer(lost, nothing)
    }

    async fn write_archive(
        &self,
        permit: &Permit,
        _container: &ContainerId,
        _directory: &Path,
        mut tar: ByteStream,
    ) -> Result<(), DriverError> {
        let lost = self
            .enter(Method::WriteArchive, Some(permit.sandbox()))
            .await?;
        while let Some(piece) = tar.next().await {
            piece?;
        }
        answer(lost, ())
    }
}
