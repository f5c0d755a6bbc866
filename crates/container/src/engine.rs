//! What any OCI engine must be able to do, in our own words. Thin adapters implement it; nothing here decides.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use futures_util::Stream;
use openshell_core::{ContainerId, EngineId, Timestamp};
use openshell_lifecycle::driver::{ByteStream, DriverError, DriverErrorKind, EngineEventKind};
use thiserror::Error;

use crate::auth::Credentials;
use crate::plan::ContainerPlan;

/// Labels, as engines keep them.
pub type Labels = BTreeMap<String, String>;

/// What kind of failure an engine call met.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum EngineErrorKind {
    /// No connection, time-out, broken stream: the outcome is unknown.
    Unreachable,
    /// The object does not exist.
    NotFound,
    /// It exists already, is in use, or is not in the state that the call needs.
    Conflict,
    /// The engine refuses the request as malformed or beyond a limit.
    Invalid,
    /// Anything else the engine says.
    Other,
}

/// A failed engine call, in the engine's words.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("{message}")]
pub struct EngineError {
    /// For the driver.
    pub kind: EngineErrorKind,
    /// For people.
    pub message: String,
}

impl EngineError {
    /// Makes one.
    pub fn new(kind: EngineErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
        }
    }

    /// As the fence hears it: what was being done, then the engine's words.
    pub fn doing(self, what: impl std::fmt::Display) -> DriverError {
        let kind = match self.kind {
            EngineErrorKind::Unreachable => DriverErrorKind::Unreachable,
            EngineErrorKind::Invalid => DriverErrorKind::Invalid,
            EngineErrorKind::NotFound | EngineErrorKind::Conflict | EngineErrorKind::Other => {
                DriverErrorKind::Engine
            }
        };
        self.doing_as(kind, what)
    }

    /// Likewise, where the caller knows better what it means; an unreachable engine stays that.
    pub fn doing_as(self, kind: DriverErrorKind, what: impl std::fmt::Display) -> DriverError {
        let kind = if self.kind == EngineErrorKind::Unreachable {
            DriverErrorKind::Unreachable
        } else {
            kind
        };
        DriverError::new(kind, format!("{what}: {}", self.message))
    }
}

/// The engine as it presents itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EngineFacts {
    /// Identity of the engine and its storage (L18).
    pub id: EngineId,
    /// `20.10.24`.
    pub version: String,
    /// Negotiated.
    pub api_version: String,
    /// `linux`.
    pub os: String,
    /// In the words of images: `amd64`, `arm64`.
    pub architecture: String,
    /// CPUs of its machine; 0 if it does not say.
    pub cpus: u64,
    /// Enforces CPU and memory limits.
    pub limits_supported: bool,
    /// The engine's clock when it answered.
    pub time: Timestamp,
}

/// What a container is doing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ContainerStatus {
    /// Made, never started.
    Created,
    /// Its process runs, or is paused.
    Running,
    /// Its process has ended.
    Exited,
    /// On the way to something else.
    InTransition,
}

/// One container as the engine describes it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ContainerFacts {
    /// Full id.
    pub id: ContainerId,
    /// Without a leading slash.
    pub name: String,
    /// As configured: `1000:1000`.
    pub user: String,
    /// The image id it was made from.
    pub image: String,
    /// What it does.
    pub status: ContainerStatus,
    /// When the present or last process was started; `None` if never.
    pub started_at: Option<Timestamp>,
    /// When the last process ended; `None` if none ever did.
    pub finished_at: Option<Timestamp>,
    /// Of the last process.
    pub exit_code: i32,
    /// The kernel ended it for its memory.
    pub oom_killed: bool,
    /// All labels.
    pub labels: Labels,
}

/// One container in a list.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ContainerSummary {
    /// Full id.
    pub id: ContainerId,
    /// Without a leading slash.
    pub name: String,
    /// All labels.
    pub labels: Labels,
    /// Whether its process runs.
    pub running: bool,
}

/// One volume.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VolumeFacts {
    /// Its name.
    pub name: String,
    /// All labels.
    pub labels: Labels,
}

/// One image.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ImageFacts {
    /// Immutable id.
    pub id: String,
    /// `linux`.
    pub os: String,
    /// `amd64`.
    pub architecture: String,
    /// The image's `USER`, possibly empty.
    pub user: String,
}

/// A file of a container, from outside.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FileFacts {
    /// In bytes.
    pub size: u64,
    /// Last modified, in seconds of Unix time.
    pub modified: i64,
}

/// A fact from the event stream, not yet interpreted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RawEvent {
    /// Which container.
    pub container: ContainerId,
    /// What happened.
    pub kind: EngineEventKind,
    /// By the engine's clock.
    pub time: Timestamp,
    /// The container's labels, as the event carries them.
    pub labels: Labels,
}

/// One message of a pull.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PullMessage {
    /// The layer it speaks of; empty for none.
    pub layer: String,
    /// In the engine's words: `Downloading`, `Pull complete`.
    pub status: String,
    /// Bytes so far, and in all, where known.
    pub bytes: Option<(u64, u64)>,
}

/// The facts of a watch, until it breaks.
pub type EventStream = Pin<Box<dyn Stream<Item = Result<RawEvent, EngineError>> + Send>>;
/// The messages of a pull; it has succeeded when the stream ends without an error.
pub type PullStream = Pin<Box<dyn Stream<Item = Result<PullMessage, EngineError>> + Send>>;

/// A container engine. Every call is one request with its own time-out, and none retries.
pub trait Engine: Send + Sync + 'static {
    /// Holds a container's standard input open, and its standard output to be read.
    type Input: Send + 'static;

    /// `docker` or `podman`.
    fn name(&self) -> &'static str;
    /// Whether a new volume gets what the image has at its mount point, and the owner of that, when a container is
    /// made, rather than when it is first started or attached to.
    fn fills_volumes(&self) -> bool;
    /// Whether a container without a network is told of the name servers that its plan names.
    fn tells_resolver(&self) -> bool;

    /// Who the engine is.
    fn facts(&self) -> impl Future<Output = Result<EngineFacts, EngineError>> + Send;
    /// Whether it answers; the cheapest question there is.
    fn ping(&self) -> impl Future<Output = Result<(), EngineError>> + Send;

    /// Makes a container. The volumes that its mounts name are there already.
    fn create_container(
        &self,
        plan: &ContainerPlan,
    ) -> impl Future<Output = Result<ContainerId, EngineError>> + Send;
    /// Hands bytes, and their end, to a container's process as its standard input: to the one that runs, or that
    /// the next start begins. They are kept nowhere, but cannot be taken back either: bytes for a process that is
    /// never begun come before all that is handed over later. What is returned has to be held until the process
    /// has been started.
    fn attach_input(
        &self,
        id: &ContainerId,
        bytes: Bytes,
    ) -> impl Future<Output = Result<Self::Input, EngineError>> + Send;
    /// Waits until the process that was given this input says something on its standard output: `false` if it ends
    /// without a word. What it said before it was attached to is not heard.
    fn first_word(
        &self,
        input: &mut Self::Input,
    ) -> impl Future<Output = Result<bool, EngineError>> + Send;
    /// Starts it; success if it runs already.
    fn start_container(
        &self,
        id: &ContainerId,
    ) -> impl Future<Output = Result<(), EngineError>> + Send;
    /// TERM, then KILL after the grace; returns once the engine has done so. Success if it does not run.
    fn stop_container(
        &self,
        id: &ContainerId,
        grace: Duration,
    ) -> impl Future<Output = Result<(), EngineError>> + Send;
    /// KILL; returns once the engine has seen the end. Success if it does not run.
    fn kill_container(
        &self,
        id: &ContainerId,
    ) -> impl Future<Output = Result<(), EngineError>> + Send;
    /// By id or name; `None` if there is none.
    fn inspect_container(
        &self,
        id_or_name: &str,
    ) -> impl Future<Output = Result<Option<ContainerFacts>, EngineError>> + Send;
    /// Removes it, running or not, with its anonymous volumes. Success once it is gone, whoever removed it.
    fn remove_container(
        &self,
        id: &ContainerId,
    ) -> impl Future<Output = Result<(), EngineError>> + Send;
    /// All containers that carry all of these labels.
    fn list_containers(
        &self,
        labels: &Labels,
    ) -> impl Future<Output = Result<Vec<ContainerSummary>, EngineError>> + Send;
    /// Blocks until the container does not run. Says nothing about how it ended: ask.
    fn wait_container(
        &self,
        id: &ContainerId,
    ) -> impl Future<Output = Result<(), EngineError>> + Send;

    /// A path of a container, running or not; `None` if there is no such path.
    fn stat(
        &self,
        id: &ContainerId,
        path: &str,
    ) -> impl Future<Output = Result<Option<FileFacts>, EngineError>> + Send;
    /// Unpacks a tar archive into a directory of a container.
    fn put_archive(
        &self,
        id: &ContainerId,
        directory: &str,
        tar: ByteStream,
    ) -> impl Future<Output = Result<(), EngineError>> + Send;
    /// A tar archive of a path of a container.
    fn get_archive(
        &self,
        id: &ContainerId,
        path: &str,
    ) -> impl Future<Output = Result<ByteStream, EngineError>> + Send;

    /// By reference or id; `None` if the engine does not hold it.
    fn inspect_image(
        &self,
        reference: &str,
    ) -> impl Future<Output = Result<Option<ImageFacts>, EngineError>> + Send;
    /// Pulls an image by a complete reference (with tag or digest).
    fn pull_image(&self, reference: &str, credentials: Option<Credentials>) -> PullStream;
    /// Loads an image from a saved archive.
    fn load_image(&self, tar: ByteStream) -> impl Future<Output = Result<(), EngineError>> + Send;

    /// Makes a volume. If the name exists already, the engine gives the one it has.
    fn create_volume(
        &self,
        name: &str,
        labels: &Labels,
    ) -> impl Future<Output = Result<VolumeFacts, EngineError>> + Send;
    /// `None` if there is none.
    fn inspect_volume(
        &self,
        name: &str,
    ) -> impl Future<Output = Result<Option<VolumeFacts>, EngineError>> + Send;
    /// Success once it is gone, whoever removed it.
    fn remove_volume(&self, name: &str) -> impl Future<Output = Result<(), EngineError>> + Send;
    /// All volumes that carry all of these labels.
    fn list_volumes(
        &self,
        labels: &Labels,
    ) -> impl Future<Output = Result<Vec<VolumeFacts>, EngineError>> + Send;

    /// What happens to containers with these labels, from a moment of the engine's clock on: also what happened
    /// before the stream was first polled.
    fn events(
        &self,
        labels: &Labels,
        since: Timestamp,
    ) -> impl Future<Output = Result<EventStream, EngineError>> + Send;
}
