//! The part of the fence that sessions speak to.

use std::sync::Arc;

use openshell_core::{Generation, SandboxId, SandboxRecord, SupervisorInstance};
use openshell_lifecycle::LifecycleFence;
use openshell_lifecycle::fence::SessionRefused;
use openshell_lifecycle::ports::{SessionEvent, SessionHello};

/// What a session needs of the fence. Every [`LifecycleFence`] is one; tests of sessions bring a smaller one.
pub trait SessionPort: Send + Sync + 'static {
    /// A session asks to be accepted.
    fn opened(
        &self,
        hello: SessionHello,
    ) -> impl Future<Output = Result<Arc<SandboxRecord>, SessionRefused>> + Send;
    /// A later word of a session.
    fn event(
        &self,
        sandbox: SandboxId,
        generation: Generation,
        instance: SupervisorInstance,
        event: SessionEvent,
    ) -> impl Future<Output = ()> + Send;
    /// The newest run of a sandbox that exists.
    fn generation(&self, sandbox: SandboxId) -> Option<Generation>;
}

impl<F: LifecycleFence> SessionPort for F {
    fn opened(
        &self,
        hello: SessionHello,
    ) -> impl Future<Output = Result<Arc<SandboxRecord>, SessionRefused>> + Send {
        self.session_opened(hello)
    }

    fn event(
        &self,
        sandbox: SandboxId,
        generation: Generation,
        instance: SupervisorInstance,
        event: SessionEvent,
    ) -> impl Future<Output = ()> + Send {
        self.session_event(sandbox, generation, instance, event)
    }

    fn generation(&self, sandbox: SandboxId) -> Option<Generation> {
        Some(self.by_id(sandbox)?.life.generation)
    }
}
