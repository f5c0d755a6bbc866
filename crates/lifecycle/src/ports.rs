//! What the fence needs from the gateway beside an engine: time, credentials for a run, orders to a session.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use openshell_core::bootstrap::{SandboxBootstrap, SupervisorBootstrap};
use openshell_core::{
    Generation, OperationId, SandboxId, SandboxRecord, SupervisorInstance, Timestamp,
};

/// Wall-clock time and fresh ids, injected so that a simulation owns both.
pub trait Environment: Send + Sync + 'static {
    /// Now.
    fn now(&self) -> Timestamp;
    /// An id for a new sandbox.
    fn sandbox_id(&self) -> SandboxId;
    /// An id for a new operation.
    fn operation_id(&self) -> OperationId;
}

/// The real ones.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemEnvironment;

impl Environment for SystemEnvironment {
    #[expect(
        clippy::disallowed_methods,
        reason = "the one place where the wall clock is read"
    )]
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }

    fn sandbox_id(&self) -> SandboxId {
        SandboxId::random()
    }

    fn operation_id(&self) -> OperationId {
        OperationId::random()
    }
}

/// Makes the credentials of a run. The driver fills in user ids.
pub trait CredentialIssuer: Send + Sync + 'static {
    /// For one sandbox and one generation.
    fn issue(
        &self,
        record: &SandboxRecord,
        generation: Generation,
        now: Timestamp,
    ) -> Result<(SandboxBootstrap, SupervisorBootstrap), String>;
}

/// A supervisor's session, as the fence holds it: the means to give it orders.
pub trait SessionHandle: Send + Sync + 'static {
    /// Freezes or thaws the workload. No engine needed.
    fn freeze(&self, frozen: bool);
    /// Ends the session (a newer one displaced it, or the run is over).
    fn close(&self, reason: &'static str);
    /// Whether its connection still stands. Asked when a `Closed` arrives: an instance may open a newer
    /// session before its older one has ended, and the older one's end says nothing about the newer.
    fn is_open(&self) -> bool {
        false
    }
}

/// A session as it presents itself after authentication.
#[derive(Clone)]
pub struct SessionHello {
    /// Whose, by token.
    pub sandbox: SandboxId,
    /// Which run, by token.
    pub generation: Generation,
    /// Which supervisor process.
    pub instance: SupervisorInstance,
    /// Whether the sandbox's measured posture confirms every property.
    pub enforced: bool,
    /// What main is doing.
    pub main: MainReport,
    /// For orders.
    pub handle: Arc<dyn SessionHandle>,
}

impl std::fmt::Debug for SessionHello {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SessionHello")
            .field("sandbox", &self.sandbox)
            .field("generation", &self.generation)
            .field("instance", &self.instance)
            .field("enforced", &self.enforced)
            .field("main", &self.main)
            .finish_non_exhaustive()
    }
}

/// What the supervisor says about main.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum MainReport {
    /// Not started yet.
    NotStarted,
    /// Running since.
    Running(Timestamp),
    /// Ended: code (128+n for a signal), when.
    Exited(i32, Timestamp),
    /// Told to end, with everything else in its container: code, when.
    Stopped(i32, Timestamp),
}

/// Later words of an accepted session. Each is handled only if the session is still the current one.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum SessionEvent {
    /// Main was started.
    MainStarted(Timestamp),
    /// Main ended: code, when, and why it could not start (empty if it ran).
    MainExited(i32, Timestamp, String),
    /// Main ended because everything in its container was told to: code, when.
    MainStopped(i32, Timestamp),
    /// The link between the halves: attached or lost.
    Link(bool),
    /// The run cannot be: a stable word, and a message.
    Failed(String, String),
    /// The connection ended. Nothing is known about the workload.
    Closed(String),
}

/// A boxed future, for ports that must be object-safe.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;
