//! The port to a compute engine. A driver makes, starts, stops, removes and looks; it decides nothing.

use std::future::Future;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use openshell_core::bootstrap::{SandboxBootstrap, SupervisorBootstrap};
use openshell_core::{
    ContainerId, EngineId, Generation, ImageRef, Incarnation, SandboxId, SandboxName, SandboxSpec,
    Timestamp, WorkspaceName,
};
use thiserror::Error;
use tokio::sync::mpsc;

/// Proof that the holder acts for one sandbox and one generation, under its fence. Only the fence makes one;
/// every mutating driver call takes one.
#[derive(Debug)]
pub struct Permit {
    sandbox: SandboxId,
    generation: Generation,
}

impl Permit {
    pub(crate) const fn new(sandbox: SandboxId, generation: Generation) -> Self {
        Self {
            sandbox,
            generation,
        }
    }

    /// For tests of drivers against real engines, which have no fence.
    #[cfg(any(test, feature = "test-util"))]
    pub const fn for_tests(sandbox: SandboxId, generation: Generation) -> Self {
        Self::new(sandbox, generation)
    }

    /// Whose life.
    pub const fn sandbox(&self) -> SandboxId {
        self.sandbox
    }

    /// Which run.
    pub const fn generation(&self) -> Generation {
        self.generation
    }
}

/// One run to be made: everything that a driver needs to know about it.
#[derive(Clone, Debug)]
pub struct RunRequest {
    /// Whose.
    pub sandbox: SandboxId,
    /// For container names and labels.
    pub name: SandboxName,
    /// For labels.
    pub workspace: WorkspaceName,
    /// Which run.
    pub generation: Generation,
    /// What was asked for.
    pub spec: Arc<SandboxSpec>,
    /// The kept workload container of earlier runs, if there is one. Authority (L14): if it is gone although
    /// recorded, that is [`DriverErrorKind::RuntimeMissing`], never a silent new one.
    pub existing_workload: Option<ContainerId>,
    /// For PID 1 of the workload; the driver fills in the identities that only it knows.
    pub sandbox_bootstrap: SandboxBootstrap,
    /// For the supervisor; likewise.
    pub supervisor_bootstrap: SupervisorBootstrap,
}

/// The two containers of a run, made but not started.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Prepared {
    /// The workload's container: new, or the kept one.
    pub workload: ContainerId,
    /// The supervisor's container: always new.
    pub supervisor: ContainerId,
    /// The engine that holds them.
    pub engine: EngineId,
}

/// The two incarnations of a run, read back from the engine after the start.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Launched {
    /// The workload's.
    pub workload: Incarnation,
    /// The supervisor's.
    pub supervisor: Incarnation,
}

/// The containers that an operation speaks of, by recorded id (L14).
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Containers {
    /// The workload's.
    pub workload: Option<ContainerId>,
    /// The supervisor's.
    pub supervisor: Option<ContainerId>,
}

/// How a container's process ended, as the engine has it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct EngineExit {
    /// The engine's exit code.
    pub code: i32,
    /// The kernel ended it for its memory.
    pub oom_killed: bool,
    /// When, by the engine's clock.
    pub finished_at: Timestamp,
}

/// What the engine says about one container, asked by id.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Sighting {
    /// It runs (or is paused); this is its incarnation.
    Running(Incarnation),
    /// It exists, and has never been started.
    Created,
    /// It does not run. The incarnation is the one that ended.
    Exited(Incarnation, EngineExit),
    /// The engine is on the way of stopping or removing it: ask again.
    InTransition,
    /// This engine (the identity given) has no such container.
    Missing(EngineId),
}

/// Where something was seen from.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Role {
    /// The workload's container.
    Workload,
    /// The supervisor's container.
    Supervisor,
}

impl std::fmt::Display for Role {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Self::Workload => "workload",
            Self::Supervisor => "supervisor",
        })
    }
}

/// A fact from the engine's event stream about a container of ours.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct EngineEvent {
    /// Whose, by label: discovery only; the fence compares the incarnation (L14).
    pub sandbox: SandboxId,
    /// Which half.
    pub role: Role,
    /// The container.
    pub container: ContainerId,
    /// What happened to it.
    pub kind: EngineEventKind,
    /// By the engine's clock.
    pub time: Timestamp,
}

/// The events that matter; engines have many more names.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum EngineEventKind {
    /// Its process ended. A hint: the fence looks before it acts (L4).
    Died {
        /// As the event says.
        code: i32,
    },
    /// It was started (perhaps by somebody else).
    Started,
    /// It was removed.
    Removed,
    /// The kernel killed in it for memory.
    OutOfMemory,
}

/// What a watch on the engine tells.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum EngineSignal {
    /// The stream is up; facts from before may have been missed, so the recorded ids are to be looked at.
    Connected(EngineId),
    /// An event.
    Event(EngineEvent),
    /// The stream broke: nothing is known, nothing has ended (L4). The driver goes on trying, with back-off.
    MonitorLost(String),
}

/// How waiting for one incarnation to end came out.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum WaitOutcome {
    /// This incarnation has ended.
    Exited(Incarnation, EngineExit),
    /// It is no longer the container's present incarnation, or the container is gone.
    Superseded,
    /// The call broke: nothing is known.
    Lost(String),
}

/// How stopping came out: always with the engine's confirmation that it does not run (L6).
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum StopOutcome {
    /// It does not run now; this is how it ended.
    NotRunning(EngineExit),
    /// It had never been started.
    NeverStarted,
    /// There is no such container.
    Missing,
}

/// The kinds of failure that the fence tells apart.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum DriverErrorKind {
    /// No connection, time-out, broken stream: the outcome is unknown; ask the engine.
    Unreachable,
    /// The image does not exist, or its registry refuses or cannot be reached.
    ImagePull,
    /// The image cannot be run: another architecture, no such user, not executable.
    ImageUnusable,
    /// A name is taken by something that is not ours.
    NameTaken,
    /// A recorded container no longer exists.
    RuntimeMissing,
    /// The request cannot be done as asked (a limit, a path that may not be used).
    Invalid,
    /// There is no such file in the container.
    PathMissing,
    /// The engine refused or failed otherwise.
    Engine,
}

/// A failed driver call: what failed, why (in the engine's words), what to do.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Error)]
#[error("{message}")]
pub struct DriverError {
    /// For the fence.
    pub kind: DriverErrorKind,
    /// For people.
    pub message: String,
}

impl DriverError {
    /// Makes one.
    pub fn new(kind: DriverErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
        }
    }
}

/// Progress of preparing, for people: `pulling docker.io/library/debian:12 (43 of 128 MB)`.
/// Sending never waits; a full channel drops the line.
pub type Progress = mpsc::Sender<String>;

/// The engine as it presents itself.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct EngineInfo {
    /// Its identity (L18).
    pub id: EngineId,
    /// `docker` or `podman`.
    pub driver: &'static str,
    /// `20.10.24`.
    pub version: String,
    /// Negotiated.
    pub api_version: String,
    /// Enforces CPU and memory limits.
    pub limits_supported: bool,
}

/// A container of our namespace that the engine holds, found by label (discovery, L14).
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Owned {
    /// Whose, by label.
    pub sandbox: SandboxId,
    /// Which half.
    pub role: Role,
    /// Its id.
    pub container: ContainerId,
    /// Its name.
    pub name: String,
    /// Of the supervisor: which run, by label.
    pub generation: Option<Generation>,
    /// Whether it runs.
    pub running: bool,
}

/// Bytes on their way, with an error in the middle if it breaks.
pub type ByteStream = Pin<Box<dyn futures_util::Stream<Item = Result<Bytes, DriverError>> + Send>>;

/// A compute engine. Each call is one attempt with its own time-out; retries, deadlines and order are the
/// fence's. Mutating calls are idempotent: what is done already is success.
pub trait ComputeDriver: Send + Sync + 'static {
    /// Who and what the engine is; also a health check.
    fn info(&self) -> impl Future<Output = Result<EngineInfo, DriverError>> + Send;

    /// Makes sure that the image is there (pulling it by the configured policy) and is for this engine. Cancel-safe:
    /// it makes nothing else, for it is given up when the sandbox is stopped or deleted meanwhile (L13).
    fn prepare_image(
        &self,
        permit: &Permit,
        image: &ImageRef,
        progress: Progress,
    ) -> impl Future<Output = Result<(), DriverError>> + Send;

    /// Makes both containers and delivers their bytes; starts nothing. On failure nothing new is left (L13),
    /// but for what the engine would not let go, which `remove` finds again. Supervisors of earlier generations
    /// are the fence's to remove, and it may be doing so at this moment: there is no need to wait for them.
    fn prepare_run(
        &self,
        permit: &Permit,
        run: &RunRequest,
    ) -> impl Future<Output = Result<Prepared, DriverError>> + Send;

    /// Starts both, side by side, and reads their incarnations back. On failure neither is left running.
    fn launch(
        &self,
        permit: &Permit,
        run: &Prepared,
    ) -> impl Future<Output = Result<Launched, DriverError>> + Send;

    /// Stops a container: TERM, KILL after the grace; returns when the engine confirms that it does not run
    /// (L6). A grace of zero kills at once.
    fn stop(
        &self,
        permit: &Permit,
        container: &ContainerId,
        grace: Duration,
    ) -> impl Future<Output = Result<StopOutcome, DriverError>> + Send;

    /// Removes a supervisor's container, running or not.
    fn remove_supervisor(
        &self,
        permit: &Permit,
        container: &ContainerId,
    ) -> impl Future<Output = Result<(), DriverError>> + Send;

    /// Removes everything of this sandbox: recorded ids, and what its id's labels find in our namespace that is
    /// ours by name and shape. Returns when all of it is gone (L13).
    fn remove(
        &self,
        permit: &Permit,
        recorded: &Containers,
    ) -> impl Future<Output = Result<(), DriverError>> + Send;

    /// Asks about exactly this container (L4).
    fn inspect(
        &self,
        container: &ContainerId,
    ) -> impl Future<Output = Result<Sighting, DriverError>> + Send;

    /// Waits for this incarnation to end. Cancel-safe: dropping the future ends the wait.
    fn wait(&self, incarnation: &Incarnation) -> impl Future<Output = WaitOutcome> + Send;

    /// Everything of our namespace.
    fn list_owned(&self) -> impl Future<Output = Result<Vec<Owned>, DriverError>> + Send;

    /// Sends what the engine tells until the receiver is gone; reconnects by itself, with back-off.
    fn watch(&self, signals: mpsc::Sender<EngineSignal>) -> impl Future<Output = ()> + Send;

    /// A tar archive of a path inside a container, running or not.
    fn read_archive(
        &self,
        container: &ContainerId,
        path: &Path,
    ) -> impl Future<Output = Result<ByteStream, DriverError>> + Send;

    /// Unpacks a tar archive into a directory inside a container, owned by the workload's user.
    fn write_archive(
        &self,
        permit: &Permit,
        container: &ContainerId,
        directory: &Path,
        tar: ByteStream,
    ) -> impl Future<Output = Result<(), DriverError>> + Send;
}
