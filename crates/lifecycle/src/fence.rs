//! The fence: the one trait through which the life of a sandbox changes (L1).

use std::collections::BTreeMap;
use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;

use openshell_core::{
    ContainerId, Generation, Life, Phase, Reason, SandboxId, SandboxName, SandboxRecord,
    SandboxSpec, SupervisorInstance, WorkspaceName,
};
use openshell_store::RequestKey;
use thiserror::Error;
use tokio::sync::watch;

use crate::driver::{ByteStream, DriverError};
use crate::machine::{Command, Input};
use crate::ports::{SessionEvent, SessionHello};

mod cell;
mod clock;
mod commit;
mod create;
mod effects;
mod index;
#[cfg(any(test, feature = "test-util"))]
mod rig;
mod service;
mod signals;

pub use create::request_key;
#[cfg(any(test, feature = "test-util"))]
pub use rig::Probe;
pub use service::Fence;
pub(crate) use service::Shared;

pub(crate) mod sealed {
    /// Only this crate implements the fence.
    pub trait Sealed {}
}

/// A sandbox to be made.
#[derive(Clone, Debug)]
pub struct NewSandbox {
    /// Unique in its workspace.
    pub name: SandboxName,
    /// Where.
    pub workspace: WorkspaceName,
    /// For selectors.
    pub labels: BTreeMap<String, String>,
    /// For people and programs.
    pub annotations: BTreeMap<String, String>,
    /// Validated, defaults applied.
    pub spec: SandboxSpec,
    /// The template it comes from: name and resource version.
    pub template: Option<(String, String)>,
    /// Makes the create idempotent: the same id answers with the sandbox of the first call.
    pub request_id: Option<String>,
}

/// What a user asks of a sandbox that exists.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Order {
    /// To run. From every phase but Deleting this leads somewhere (L7).
    Start,
    /// Not to run.
    Stop,
    /// To end the present run and begin another.
    Restart,
    /// Not to exist (L12).
    Delete,
    /// Not to run, and to be startable by nobody before a release.
    Hold {
        /// Who asks.
        by: String,
        /// Why; may be empty.
        reason: String,
    },
    /// To be startable again.
    Release,
}

impl From<Order> for Input {
    fn from(order: Order) -> Self {
        match order {
            Order::Start => Self::Command(Command::Start),
            Order::Stop => Self::Command(Command::Stop),
            Order::Restart => Self::Command(Command::Restart),
            Order::Delete => Self::Command(Command::Delete),
            Order::Hold { by, reason } => Self::Hold { by, reason },
            Order::Release => Self::Release,
        }
    }
}

/// Why a command was refused; nothing has changed.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum CommandError {
    /// There is no such sandbox.
    #[error("sandbox {0:?} does not exist")]
    NotFound(String),
    /// The name is taken in this workspace.
    #[error("sandbox {0:?} already exists")]
    AlreadyExists(String),
    /// The phase forbids it; says what to do instead.
    #[error("{message}")]
    Refused {
        /// The phase that forbids it.
        phase: Phase,
        /// What and why.
        message: String,
    },
    /// The same `request_id` was used for something else.
    #[error("request id {0:?} was used before with other contents")]
    RequestIdReused(String),
    /// Its record is of a newer version, or damaged; it is left untouched.
    #[error("{0}")]
    Unreadable(String),
    /// The store failed; nothing was accepted.
    #[error("the store failed: {0}")]
    Store(String),
    /// The gateway is shutting down.
    #[error("the gateway is shutting down; try again")]
    ShuttingDown,
    /// The engine could not do it now.
    #[error(transparent)]
    Driver(#[from] DriverError),
}

/// Why a session was refused.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum SessionRefused {
    /// No such sandbox.
    #[error("the sandbox does not exist")]
    NotFound,
    /// Of another run.
    #[error("the session is of run {got}; the present run is {present}")]
    StaleGeneration {
        /// The session's.
        got: Generation,
        /// The record's.
        present: Generation,
    },
    /// Another supervisor process holds this run.
    #[error("run {0} is bound to another supervisor process")]
    OtherInstance(Generation),
    /// The measured posture does not confirm enforcement.
    #[error("the sandbox does not confirm its enforcement")]
    NotEnforced,
    /// This run is being stopped or deleted.
    #[error("the run is ending")]
    Ending,
}

/// The life of every sandbox. Commands return once they are durable (accepted); what becomes of them is seen by
/// [`watch`](Self::watch). No lock is held across an engine call, and no sandbox waits for another (L15).
pub trait LifecycleFence: sealed::Sealed + Send + Sync + 'static {
    /// Accepts a new sandbox. Its record is durable when this returns.
    fn create(
        &self,
        new: NewSandbox,
    ) -> impl Future<Output = Result<Arc<SandboxRecord>, CommandError>> + Send;
    /// Gives an order. With a request key it is taken up once: a repetition, even after a crash, is answered with
    /// the record as it is now; the same id for something else is refused.
    fn order(
        &self,
        id: SandboxId,
        order: Order,
        request: Option<RequestKey>,
    ) -> impl Future<Output = Result<Arc<SandboxRecord>, CommandError>> + Send;
    /// The sandbox that this very request was taken up for before, if it was.
    fn seen(
        &self,
        request: &RequestKey,
    ) -> impl Future<Output = Result<Option<SandboxId>, CommandError>> + Send;
    /// [`Order::Start`].
    fn start(
        &self,
        id: SandboxId,
    ) -> impl Future<Output = Result<Arc<SandboxRecord>, CommandError>> + Send {
        self.order(id, Order::Start, None)
    }
    /// [`Order::Stop`].
    fn stop(
        &self,
        id: SandboxId,
    ) -> impl Future<Output = Result<Arc<SandboxRecord>, CommandError>> + Send {
        self.order(id, Order::Stop, None)
    }
    /// [`Order::Restart`].
    fn restart(
        &self,
        id: SandboxId,
    ) -> impl Future<Output = Result<Arc<SandboxRecord>, CommandError>> + Send {
        self.order(id, Order::Restart, None)
    }
    /// [`Order::Delete`].
    fn delete(
        &self,
        id: SandboxId,
    ) -> impl Future<Output = Result<Arc<SandboxRecord>, CommandError>> + Send {
        self.order(id, Order::Delete, None)
    }

    /// A supervisor's session asks to be accepted. The record is that of the run it joins.
    fn session_opened(
        &self,
        hello: SessionHello,
    ) -> impl Future<Output = Result<Arc<SandboxRecord>, SessionRefused>> + Send;
    /// A later word of a session. One that is not the current run's changes nothing (L3).
    fn session_event(
        &self,
        sandbox: SandboxId,
        generation: Generation,
        instance: SupervisorInstance,
        event: SessionEvent,
    ) -> impl Future<Output = ()> + Send;

    /// The record as published, and every later one; `None` once it is deleted. Never goes backwards.
    fn watch(&self, id: SandboxId) -> Option<watch::Receiver<Option<Arc<SandboxRecord>>>>;
    /// The published record of a name.
    fn by_name(&self, workspace: &WorkspaceName, name: &SandboxName) -> Option<Arc<SandboxRecord>>;
    /// The published record of an id.
    fn by_id(&self, id: SandboxId) -> Option<Arc<SandboxRecord>>;
    /// Why the record of a name cannot be read, if there is one and it cannot.
    fn unreadable(&self, workspace: &WorkspaceName, name: &SandboxName) -> Option<String>;
    /// All published records, ordered by workspace and name. Lists are pages of this.
    fn list(&self) -> Vec<Arc<SandboxRecord>>;
    /// Ticks with every publication, for list watchers.
    fn changes(&self) -> watch::Receiver<u64>;

    /// A tar archive of a path in a sandbox's container, in every phase in which there is one.
    fn read_archive(
        &self,
        id: SandboxId,
        path: PathBuf,
    ) -> impl Future<Output = Result<ByteStream, CommandError>> + Send;
    /// Unpacks a tar archive into a directory of a sandbox.
    fn write_archive(
        &self,
        id: SandboxId,
        directory: PathBuf,
        tar: ByteStream,
    ) -> impl Future<Output = Result<(), CommandError>> + Send;

    /// Takes up everything the store holds: called once, at start. Returns once every record is published, without
    /// asking the engine; restores run concurrently.
    fn restore(&self) -> impl Future<Output = Result<(), CommandError>> + Send;
    /// Stops accepting, lets what is in flight reach a durable point, and (by configuration) stops every run.
    fn shutdown(&self) -> impl Future<Output = ()> + Send;

    /// What the engine says of itself, asked now.
    fn engine(&self)
    -> impl Future<Output = Result<crate::driver::EngineInfo, DriverError>> + Send;
    /// Everything of our namespace that the engine holds and no record knows.
    fn leftovers(
        &self,
    ) -> impl Future<Output = Result<Vec<crate::driver::Owned>, DriverError>> + Send;
}

/// What a refused `exec` or forward says: the phase, what it waits for, the way out.
pub fn not_ready_message(record: &SandboxRecord) -> String {
    let Life {
        phase,
        condition,
        hold,
        ..
    } = &record.life;
    let name = &record.meta.name;
    let reason: Reason = condition.reason;
    match phase {
        Phase::Provisioning | Phase::Starting => {
            format!(
                "sandbox {name} is not ready (phase {phase}, {reason}): {}",
                condition.message
            )
        }
        Phase::Stopped | Phase::Completed | Phase::Error if hold.is_some() => format!(
            "sandbox {name} is {phase} ({reason}): {}",
            condition.message
        ),
        Phase::Stopped | Phase::Completed | Phase::Error => format!(
            "sandbox {name} is {phase} ({reason}): {}; run `openshell sandbox start {name}`",
            condition.message
        ),
        _ => format!(
            "sandbox {name} is {phase} ({reason}): {}",
            condition.message
        ),
    }
}

/// The recorded workload container of a sandbox, if there is one.
pub(crate) fn workload_container(record: &SandboxRecord) -> Option<&ContainerId> {
    record.life.run.as_ref().and_then(|r| r.workload.as_ref())
}

#[cfg(test)]
mod tests;
