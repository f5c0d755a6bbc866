//! What lies between one gateway process and the engine: calls that are late, lost or done unheard, waits that
//! break, events out of order. Each planted fault of the wiring has its place here.

use std::collections::BTreeSet;
use std::future::Future;
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use openshell_core::{ContainerId, ImageRef, Incarnation};
use openshell_lifecycle::ComputeDriver;
use openshell_lifecycle::driver::{
    ByteStream, Containers, DriverError, DriverErrorKind, EngineInfo, EngineSignal, Launched,
    Owned, Permit, Prepared, Progress, RunRequest, Sighting, StopOutcome, WaitOutcome,
};
use openshell_lifecycle::simulated::Method;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::blows::OWN;
use super::fate::{Fate, Way, broken};
use super::feed::{self, Feed};
use super::world::{World, locked, short};
use super::wrong;

/// The driver of one gateway process.
pub(crate) struct Network {
    pub(crate) world: Arc<World>,
    killed: Arc<OnceLock<CancellationToken>>,
    /// Runs that this process has prepared and not launched: what they are given to start with is only here.
    prepared: Mutex<BTreeSet<ContainerId>>,
    feed: Arc<Feed>,
    /// Only with a fault planted.
    turns: tokio::sync::Mutex<()>,
}

impl Network {
    pub(crate) fn new(world: &Arc<World>, killed: &Arc<OnceLock<CancellationToken>>) -> Self {
        Self {
            world: Arc::clone(world),
            killed: Arc::clone(killed),
            prepared: Mutex::default(),
            feed: Feed::new(world),
            turns: tokio::sync::Mutex::new(()),
        }
    }

    /// A dead process calls nobody and hears nothing.
    async fn alive(&self) {
        if self
            .killed
            .get()
            .is_some_and(CancellationToken::is_cancelled)
        {
            std::future::pending::<()>().await;
        }
    }

    /// One call: what has reached the engine is done there, even if its caller is gone by then.
    pub(crate) async fn call<T: Send + 'static>(
        &self,
        method: Method,
        permit: Option<&Permit>,
        work: impl Future<Output = Result<T, DriverError>> + Send + 'static,
    ) -> Result<T, DriverError> {
        let sandbox = permit.map(Permit::sandbox);
        self.alive().await;
        let _turn = if self.world.has(wrong::Planted::OneAtATime) {
            Some(self.turns.lock().await)
        } else {
            None
        };
        let fate = Fate::draw(&self.world, method, sandbox);
        if fate.way != Way::Through {
            if let Some(sandbox) = sandbox {
                self.world.oracle.unanswered(sandbox);
            }
            self.world
                .timeline
                .say("network", || format!("{method:?} {:?}", fate.way));
        }
        if let Some(sandbox) = sandbox
            && fate.there + fate.back > Duration::from_secs(1)
        {
            self.world.oracle.unanswered(sandbox);
        }
        pause(fate.there).await;
        self.alive().await;
        match fate.way {
            Way::Unreached => return Err(broken()),
            Way::Refused(kind) => {
                return Err(DriverError::new(kind, "the engine says no"));
            }
            Way::Hangs => std::future::pending::<()>().await,
            Way::Panics { done: false } => scripted(),
            Way::Through | Way::Unheard | Way::Panics { done: true } => {}
        }
        let answer = tokio::spawn(work).await.unwrap_or_else(|_| Err(broken()));
        pause(fate.back).await;
        self.alive().await;
        match fate.way {
            Way::Unheard => Err(broken()),
            Way::Panics { .. } => scripted(),
            _ => answer,
        }
    }

    fn engine(&self) -> Arc<openshell_lifecycle::simulated::SimulatedDriver> {
        Arc::clone(&self.world.engine)
    }

    fn again(permit: &Permit) -> Permit {
        Permit::for_tests(permit.sandbox(), permit.generation())
    }
}

async fn pause(by: Duration) {
    if !by.is_zero() {
        tokio::time::sleep(by).await;
    }
}

/// Without the panic hook: it is what was scripted.
fn scripted() -> ! {
    std::panic::resume_unwind(Box::new("scripted"))
}

impl ComputeDriver for Network {
    async fn info(&self) -> Result<EngineInfo, DriverError> {
        let engine = self.engine();
        self.call(Method::Info, None, async move { engine.info().await })
            .await
    }

    async fn prepare_image(
        &self,
        permit: &Permit,
        image: &ImageRef,
        progress: Progress,
    ) -> Result<(), DriverError> {
        let (engine, image, of) = (self.engine(), image.clone(), Self::again(permit));
        let work = async move { engine.prepare_image(&of, &image, progress).await };
        self.call(Method::PrepareImage, Some(permit), work).await
    }

    async fn prepare_run(
        &self,
        permit: &Permit,
        run: &RunRequest,
    ) -> Result<Prepared, DriverError> {
        self.world.oracle.called(Method::PrepareRun, permit, None);
        let request = wrong::prepared(self, run);
        let (engine, of) = (self.engine(), Self::again(permit));
        let work = async move {
            if request.existing_workload.is_none() && engine.identity().0 != OWN {
                // Fresh storage holds no image.
                return Err(DriverError::new(
                    DriverErrorKind::ImagePull,
                    "no such image",
                ));
            }
            engine.prepare_run(&of, &request).await
        };
        let prepared = self.call(Method::PrepareRun, Some(permit), work).await?;
        locked(&self.prepared).insert(prepared.supervisor.clone());
        Ok(prepared)
    }

    async fn launch(&self, permit: &Permit, run: &Prepared) -> Result<Launched, DriverError> {
        if !locked(&self.prepared).remove(&run.supervisor) {
            return Err(DriverError::new(
                DriverErrorKind::Invalid,
                "the run was not prepared by this gateway process",
            ));
        }
        self.world
            .oracle
            .called(Method::Launch, permit, Some(&run.workload));
        let (engine, prepared, of) = (self.engine(), run.clone(), Self::again(permit));
        let work = async move { engine.launch(&of, &prepared).await };
        let launched = self.call(Method::Launch, Some(permit), work).await;
        wrong::launched(self, permit, run, launched)
    }

    async fn stop(
        &self,
        permit: &Permit,
        container: &ContainerId,
        grace: Duration,
    ) -> Result<StopOutcome, DriverError> {
        self.world
            .oracle
            .called(Method::Stop, permit, Some(container));
        if let Some(outcome) = wrong::stop(self, permit, container) {
            return Ok(outcome);
        }
        let (engine, container, of) = (self.engine(), container.clone(), Self::again(permit));
        let work = async move { engine.stop(&of, &container, grace).await };
        let stopped = self.call(Method::Stop, Some(permit), work).await;
        wrong::stopped(self, stopped)
    }

    async fn remove_supervisor(
        &self,
        permit: &Permit,
        container: &ContainerId,
    ) -> Result<(), DriverError> {
        self.world
            .oracle
            .called(Method::RemoveSupervisor, permit, None);
        if wrong::leaves_supervisors(self) {
            return Ok(());
        }
        let (engine, container, of) = (self.engine(), container.clone(), Self::again(permit));
        let work = async move { engine.remove_supervisor(&of, &container).await };
        let removed = self
            .call(Method::RemoveSupervisor, Some(permit), work)
            .await;
        wrong::retired(self, removed)
    }

    async fn remove(&self, permit: &Permit, recorded: &Containers) -> Result<(), DriverError> {
        self.world.oracle.called(Method::Remove, permit, None);
        let (engine, recorded, of) = (self.engine(), recorded.clone(), Self::again(permit));
        let work = async move { engine.remove(&of, &recorded).await };
        let removed = self.call(Method::Remove, Some(permit), work).await;
        wrong::removed(self, permit.sandbox(), removed)
    }

    async fn inspect(&self, container: &ContainerId) -> Result<Sighting, DriverError> {
        let (engine, asked) = (self.engine(), container.clone());
        let work = async move { engine.inspect(&asked).await };
        let permit = self
            .world
            .oracle
            .owner(container)
            .map(|(sandbox, run)| Permit::for_tests(sandbox, run));
        let answer = self.call(Method::Inspect, permit.as_ref(), work).await;
        wrong::inspected(self, container, answer)
    }

    async fn wait(&self, incarnation: &Incarnation) -> WaitOutcome {
        self.alive().await;
        let world = &self.world;
        let _watching = world.oracle.watching(incarnation);
        let odds = &world.plan.odds;
        let breaks = world
            .trouble(odds.wait_breaks)
            .then(|| world.chance.spread(10, 60_000));
        let late = world
            .trouble(odds.wait_late)
            .then(|| world.chance.spread(20, 180_000));
        let wait = world.engine.wait(incarnation);
        let outcome = match breaks {
            None => wait.await,
            Some(after) => tokio::time::timeout(after, wait)
                .await
                .unwrap_or_else(|_| WaitOutcome::Lost("the connection broke".to_owned())),
        };
        pause(late.unwrap_or_else(|| world.chance.millis(0, 4))).await;
        self.alive().await;
        world.timeline.say("network", || {
            let what = match &outcome {
                WaitOutcome::Exited(..) => "has ended",
                WaitOutcome::Superseded => "is superseded",
                WaitOutcome::Lost(_) => "breaks",
            };
            format!("wait for {} {what}", short(&incarnation.container))
        });
        if let WaitOutcome::Exited(ended, exit) = &outcome {
            locked(&world.ended).insert(ended.container.clone(), (ended.clone(), exit.clone()));
        }
        wrong::waited(self, incarnation, outcome)
    }

    async fn list_owned(&self) -> Result<Vec<Owned>, DriverError> {
        let engine = self.engine();
        let work = async move { engine.list_owned().await };
        let owned = self.call(Method::ListOwned, None, work).await?;
        Ok(wrong::listed(self, owned))
    }

    async fn watch(&self, signals: mpsc::Sender<EngineSignal>) {
        loop {
            let unbroken = self.feed.breaks().version();
            self.alive().await;
            match self.engine().info().await {
                Err(_) => {
                    tokio::time::sleep(feed::AGAIN).await;
                    continue;
                }
                Ok(info) => {
                    if signals
                        .send(EngineSignal::Connected(info.id))
                        .await
                        .is_err()
                    {
                        return;
                    }
                }
            }
            let why = loop {
                tokio::select! {
                    biased;
                    () = signals.closed() => return,
                    () = self.feed.breaks().newer_than(unbroken) => break "the stream broke",
                    event = self.feed.next() => {
                        self.alive().await;
                        if signals.send(EngineSignal::Event(event)).await.is_err() {
                            return;
                        }
                    }
                }
            };
            if signals
                .send(EngineSignal::MonitorLost(why.to_owned()))
                .await
                .is_err()
            {
                return;
            }
            tokio::time::sleep(feed::AGAIN).await;
        }
    }

    async fn read_archive(
        &self,
        container: &ContainerId,
        path: &Path,
    ) -> Result<ByteStream, DriverError> {
        self.engine().read_archive(container, path).await
    }

    async fn write_archive(
        &self,
        permit: &Permit,
        container: &ContainerId,
        directory: &Path,
        tar: ByteStream,
    ) -> Result<(), DriverError> {
        self.engine()
            .write_archive(permit, container, directory, tar)
            .await
    }
}
