//! The one implementation of [`LifecycleFence`], generic over the driver.

use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use futures_util::future::join_all;
use openshell_core::{
    ContainerId, Generation, Phase, SandboxId, SandboxName, SandboxRecord, SupervisorInstance,
    WorkspaceName,
};
use openshell_store::{RequestKey, Store};
use tokio::sync::{Semaphore, mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{error, info, warn};

use super::cell::{Cell, MAILBOX, Message};
use super::commit::{journal_entry, move_gauge};
use super::index::{Entry, Index};
use super::{CommandError, LifecycleFence, NewSandbox, Order, SessionRefused, sealed, signals};
use crate::config::FenceConfig;
use crate::driver::{ByteStream, ComputeDriver, DriverError, EngineInfo, Owned, Permit};
use crate::machine::{self, Context, Effect, Input, State};
use crate::ports::{CredentialIssuer, Environment, SessionEvent, SessionHello};

/// What the cells of one fence share.
pub(crate) struct Shared<D> {
    pub(super) config: FenceConfig,
    pub(super) driver: Arc<D>,
    pub(super) store: Store,
    pub(super) environment: Arc<dyn Environment>,
    pub(super) issuer: Arc<dyn CredentialIssuer>,
    pub(super) index: Index,
    /// So many sandboxes are asked about at once when the gateway starts.
    pub(super) restoring: Semaphore,
    /// The gateway ends: what is in flight reaches a durable point.
    pub(super) closing: CancellationToken,
    /// The time for that is up.
    pub(super) abandon: CancellationToken,
    /// The gateway is killed, or looked into.
    #[cfg(any(test, feature = "test-util"))]
    pub(super) rig: super::rig::Rig,
    /// Every task of this fence.
    pub(super) tasks: TaskTracker,
}

/// The fence. Cheap to clone.
pub struct Fence<D>(Arc<Shared<D>>);

impl<D> Clone for Fence<D> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<D> std::fmt::Debug for Fence<D> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Fence(..)")
    }
}

impl<D: ComputeDriver> Fence<D> {
    /// A fence over a driver and a store. It takes up what the store holds when [`restore`] is called.
    ///
    /// [`restore`]: LifecycleFence::restore
    pub fn new(
        config: FenceConfig,
        driver: Arc<D>,
        store: Store,
        environment: Arc<dyn Environment>,
        issuer: Arc<dyn CredentialIssuer>,
    ) -> Self {
        let restoring = Semaphore::new(config.restore_concurrency.max(1));
        Self(Arc::new(Shared {
            config,
            driver,
            store,
            environment,
            issuer,
            index: Index::new(),
            restoring,
            closing: CancellationToken::new(),
            abandon: CancellationToken::new(),
            #[cfg(any(test, feature = "test-util"))]
            rig: super::rig::Rig::new(None),
            tasks: TaskTracker::new(),
        }))
    }

    /// Ends every task of the fence where it stands, as a SIGKILL would.
    #[cfg(any(test, feature = "test-util"))]
    pub fn kill(&self) {
        self.killed().cancel();
    }

    /// The same, when its tasks are polled for the `nth` time from now on.
    #[cfg(any(test, feature = "test-util"))]
    pub fn kill_at_poll(&self, nth: u64) {
        self.0.rig.kill_at_poll(nth);
    }

    /// Whether it has been killed, and a way to do so from within.
    #[cfg(any(test, feature = "test-util"))]
    pub fn killed(&self) -> &CancellationToken {
        self.0.rig.killed()
    }

    /// A fence that shows every step to a probe.
    #[cfg(any(test, feature = "test-util"))]
    pub fn probed(self, probe: Arc<dyn super::Probe>) -> Self {
        match Arc::try_unwrap(self.0) {
            Ok(mut shared) => {
                shared.rig = super::rig::Rig::new(Some(probe));
                Self(Arc::new(shared))
            }
            // It is at work already: what it does cannot be shown from the beginning.
            Err(shared) => Self(shared),
        }
    }

    async fn ask<T>(
        &self,
        id: SandboxId,
        message: impl FnOnce(oneshot::Sender<T>) -> Message,
    ) -> Option<T> {
        let entry = self.0.index.entry(id)?;
        let (reply, answer) = oneshot::channel();
        entry.mailbox.send(message(reply)).await.ok()?;
        answer.await.ok()
    }

    /// The container whose files are asked for, and the run it belongs to.
    fn files_of(&self, id: SandboxId) -> Result<(ContainerId, Generation), CommandError> {
        let record = self
            .0
            .index
            .by_id(id)
            .ok_or_else(|| CommandError::NotFound(id.to_string()))?;
        match super::workload_container(&record) {
            Some(container) => Ok((container.clone(), record.life.generation)),
            None => Err(CommandError::Refused {
                phase: record.life.phase,
                message: super::not_ready_message(&record),
            }),
        }
    }
}

impl<D: ComputeDriver> Shared<D> {
    /// The sandbox that this very request was taken up for before.
    pub(super) async fn seen(
        &self,
        request: &RequestKey,
    ) -> Result<Option<SandboxId>, CommandError> {
        let seen = self
            .store
            .request(&request.scope, &request.id)
            .await
            .map_err(|error| CommandError::Store(error.to_string()))?;
        match seen {
            Some((_, digest)) if digest != request.digest => {
                Err(CommandError::RequestIdReused(request.id.clone()))
            }
            seen => Ok(seen.map(|(id, _)| id)),
        }
    }

    /// Takes up a record at the gateway's start. One that says Ready is not published before its first step is
    /// durable, which says that it is not proven: nobody sees an old Ready, nor two records of one version.
    async fn take_up(self: &Arc<Self>, record: SandboxRecord) {
        let claims = matches!(record.life.phase, Phase::Ready | Phase::Unknown);
        let mut state = State::new(record);
        let now = self.environment.now();
        let context = Context {
            now,
            operation: self.environment.operation_id(),
            config: &self.config,
        };
        if !claims {
            self.spawn_cell(state, vec![Input::Restore], Vec::new());
            return;
        }
        let step = machine::step(&state, &Input::Restore, context);
        #[cfg(any(test, feature = "test-util"))]
        if let Some(probe) = self.rig.probe() {
            probe.decided(&state, &Input::Restore, &step);
        }
        let described = Input::Restore.describe();
        let entry = journal_entry(Some(&state), &step, described, &Input::Restore, now);
        let put = self
            .store
            .put_sandbox(&step.state.record, vec![entry], None);
        match put.await {
            Ok(version) => {
                #[cfg(any(test, feature = "test-util"))]
                if let Some(probe) = self.rig.probe() {
                    probe.committed(&state, &Input::Restore, &step);
                }
                state = step.state;
                state.record.resource_version = version;
                self.spawn_cell(state, Vec::new(), step.effects);
            }
            Err(error) => {
                // Its cell tries again; until then it is shown as it is going to be written.
                warn!(sandbox = %state.record.meta.id, "its restore cannot be recorded yet: {error}");
                let mut shown = step.state.record;
                shown.resource_version = state.record.resource_version + 1;
                self.begin_cell(state, shown, vec![Input::Restore], Vec::new());
            }
        }
    }

    /// Publishes a record and begins its cell.
    pub(super) fn spawn_cell(
        self: &Arc<Self>,
        state: State,
        first: Vec<Input>,
        effects: Vec<Effect>,
    ) {
        let shown = state.record.clone();
        self.begin_cell(state, shown, first, effects);
    }

    fn begin_cell(
        self: &Arc<Self>,
        state: State,
        shown: SandboxRecord,
        first: Vec<Input>,
        effects: Vec<Effect>,
    ) {
        let record = Arc::new(shown);
        let (mailbox, received) = mpsc::channel(MAILBOX);
        let (published, publication) = watch::channel(Some(Arc::clone(&record)));
        let missed = Arc::new(AtomicBool::new(false));
        let entry = Entry {
            mailbox,
            missed: Arc::clone(&missed),
            published: publication,
        };
        self.index.insert(&record, entry);
        move_gauge(None, Some(record.life.phase));
        self.index.tick();
        let cell = Cell::new(Arc::clone(self), state, published, received, missed);
        self.spawn(cell.live(first, effects));
    }
}

impl<D> Shared<D> {
    /// A task of this fence; it answers nothing if the fence is killed.
    pub(super) fn spawn<F>(&self, task: F) -> JoinHandle<Option<F::Output>>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        #[cfg(any(test, feature = "test-util"))]
        let task = self.rig.mortal(task);
        #[cfg(not(any(test, feature = "test-util")))]
        let task = async move { Some(task.await) };
        self.tasks.spawn(task)
    }
}

impl<D> sealed::Sealed for Fence<D> {}

impl<D: ComputeDriver> LifecycleFence for Fence<D> {
    async fn create(&self, new: NewSandbox) -> Result<Arc<SandboxRecord>, CommandError> {
        if self.0.closing.is_cancelled() {
            return Err(CommandError::ShuttingDown);
        }
        // In a task of its own: an asker that goes away must not leave a record without a cell.
        let shared = Arc::clone(&self.0);
        let task = self
            .0
            .spawn(async move { super::create::create(&shared, new).await });
        match task.await {
            Ok(answer) => answer.unwrap_or(Err(CommandError::ShuttingDown)),
            Err(failed) => Err(CommandError::Store(failed.to_string())),
        }
    }

    async fn order(
        &self,
        id: SandboxId,
        order: Order,
        request: Option<RequestKey>,
    ) -> Result<Arc<SandboxRecord>, CommandError> {
        if self.0.closing.is_cancelled() {
            return Err(CommandError::ShuttingDown);
        }
        let order = Box::new((order.into(), request));
        self.ask(id, |reply| Message::Order(order, reply))
            .await
            .unwrap_or_else(|| {
                Err(if self.0.closing.is_cancelled() {
                    CommandError::ShuttingDown
                } else {
                    CommandError::NotFound(id.to_string())
                })
            })
    }

    async fn seen(&self, request: &RequestKey) -> Result<Option<SandboxId>, CommandError> {
        self.0.seen(request).await
    }

    async fn session_opened(
        &self,
        hello: SessionHello,
    ) -> Result<Arc<SandboxRecord>, SessionRefused> {
        self.ask(hello.sandbox, |reply| Message::SessionOpened(hello, reply))
            .await
            .unwrap_or(Err(SessionRefused::NotFound))
    }

    async fn session_event(
        &self,
        sandbox: SandboxId,
        generation: Generation,
        instance: SupervisorInstance,
        event: SessionEvent,
    ) {
        self.ask(sandbox, |reply| {
            Message::SessionEvent(generation, instance, event, reply)
        })
        .await;
    }

    fn watch(&self, id: SandboxId) -> Option<watch::Receiver<Option<Arc<SandboxRecord>>>> {
        self.0.index.entry(id).map(|entry| entry.published)
    }

    fn by_name(&self, workspace: &WorkspaceName, name: &SandboxName) -> Option<Arc<SandboxRecord>> {
        self.0.index.by_name(workspace, name)
    }

    fn by_id(&self, id: SandboxId) -> Option<Arc<SandboxRecord>> {
        self.0.index.by_id(id)
    }

    fn unreadable(&self, workspace: &WorkspaceName, name: &SandboxName) -> Option<String> {
        self.0.index.unreadable(workspace, name)
    }

    fn list(&self) -> Vec<Arc<SandboxRecord>> {
        self.0.index.list()
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.0.index.changes()
    }

    async fn read_archive(&self, id: SandboxId, path: PathBuf) -> Result<ByteStream, CommandError> {
        let (container, _) = self.files_of(id)?;
        Ok(self.0.driver.read_archive(&container, &path).await?)
    }

    async fn write_archive(
        &self,
        id: SandboxId,
        directory: PathBuf,
        tar: ByteStream,
    ) -> Result<(), CommandError> {
        let (container, generation) = self.files_of(id)?;
        let permit = Permit::new(id, generation);
        self.0
            .driver
            .write_archive(&permit, &container, &directory, tar)
            .await?;
        Ok(())
    }

    async fn restore(&self) -> Result<(), CommandError> {
        let (records, unreadable) = self
            .0
            .store
            .sandboxes()
            .await
            .map_err(|error| CommandError::Store(error.to_string()))?;
        for error in unreadable {
            error!("{error}");
            self.0.index.insert_unreadable(&error);
        }
        info!(sandboxes = records.len(), "taking up what the store holds");
        join_all(records.into_iter().map(|record| self.0.take_up(record))).await;
        signals::begin(&self.0);
        Ok(())
    }

    async fn shutdown(&self) {
        self.0.closing.cancel();
        self.0.tasks.close();
        if tokio::time::timeout(self.0.config.shutdown_limit(), self.0.tasks.wait())
            .await
            .is_err()
        {
            warn!("not everything in flight reached its end; it is taken up at the next start");
            self.0.abandon.cancel();
        }
    }

    fn engine(&self) -> impl Future<Output = Result<EngineInfo, DriverError>> + Send {
        self.0.driver.info()
    }

    async fn leftovers(&self) -> Result<Vec<Owned>, DriverError> {
        let owned = self.0.driver.list_owned().await?;
        Ok(owned
            .into_iter()
            .filter(|found| !self.0.index.is_unreadable(found.sandbox))
            .filter(|found| {
                let record = self.0.index.by_id(found.sandbox);
                record.is_none_or(|record| !accounts_for(&record, &found.container))
            })
            .collect())
    }
}

/// Whether a record knows a container, or may be about to: a start in flight records what it makes.
fn accounts_for(record: &SandboxRecord, container: &ContainerId) -> bool {
    let life = &record.life;
    let run = life.run.as_ref();
    life.operation.is_some()
        || life.retired.contains(container)
        || run.and_then(|r| r.workload.as_ref()) == Some(container)
        || run.and_then(|r| r.supervisor.as_ref()) == Some(container)
}
