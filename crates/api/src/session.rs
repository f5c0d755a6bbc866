//! Supervisors in session, and the relays that run through them: how an exec, an attach or a forward reaches a
//! sandbox.

use openshell_core::{Generation, SandboxId};
use openshell_proto::link;
use openshell_proto::supervisor::{RelayFrame, relay_open};
use thiserror::Error;
use tokio::sync::mpsc;

/// Why a relay could not be had.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum RelayError {
    /// No supervisor in session for this run.
    #[error("the sandbox has no supervisor in session")]
    NoSession,
    /// Too many are pending or open.
    #[error("too many relays are open for this sandbox; end some, or try again")]
    TooMany,
    /// The supervisor or the sandbox refused it.
    #[error("{0}")]
    Refused(String),
    /// The supervisor did not claim it in time.
    #[error("the supervisor did not open the relay within {0} seconds")]
    TimedOut(u64),
    /// The session ended meanwhile: the outcome of what was in flight is unknown.
    #[error("the supervisor's session ended; the outcome is unknown")]
    SessionLost,
}

/// An open relay: frames towards the sandbox, frames from it. Bounded both ways; dropping either end closes it.
#[derive(Debug)]
pub struct Relay {
    /// Towards the sandbox.
    pub to_sandbox: mpsc::Sender<RelayFrame>,
    /// From the sandbox; ends after the last frame, or with an error if the session breaks.
    pub from_sandbox: mpsc::Receiver<Result<RelayFrame, RelayError>>,
}

/// What a relay reaches.
pub type RelayTarget = relay_open::Target;

/// Log lines kept in memory for each sandbox.
pub const LOG_LINES: usize = 2000;

/// A log line with where it came from.
#[derive(Clone, Debug, PartialEq)]
pub struct SourcedLine {
    /// Grows by one with every line of this sandbox since the gateway started.
    pub sequence: u64,
    /// sandbox | gateway
    pub source: &'static str,
    /// The line.
    pub line: link::LogLine,
}

/// All sessions of this gateway.
#[derive(Clone, Debug)]
pub struct SessionHub {}

#[expect(
    unused_variables,
    clippy::unimplemented,
    clippy::new_without_default,
    reason = "replaced by the implementation"
)]
impl SessionHub {
    /// None yet.
    pub fn new() -> Self {
        unimplemented!()
    }

    /// Opens a relay through the session of exactly this run; waits at most ten seconds for its claim.
    pub async fn open(
        &self,
        sandbox: SandboxId,
        generation: Generation,
        target: RelayTarget,
    ) -> Result<Relay, RelayError> {
        unimplemented!()
    }

    /// Whether a session of this run is open.
    pub fn connected(&self, sandbox: SandboxId, generation: Generation) -> bool {
        unimplemented!()
    }

    /// Adds a line of the gateway's own to a sandbox's log.
    pub fn log(&self, sandbox: SandboxId, line: link::LogLine) {
        unimplemented!()
    }

    /// The last `limit` lines of a sandbox's log, oldest first; how many are kept in all.
    pub fn logs(&self, sandbox: SandboxId, limit: usize) -> (Vec<SourcedLine>, usize) {
        unimplemented!()
    }

    /// Lines as they come, after those of [`logs`](Self::logs); a slow reader misses lines rather than
    /// holding anybody up.
    pub fn follow_logs(&self, sandbox: SandboxId) -> tokio::sync::broadcast::Receiver<SourcedLine> {
        unimplemented!()
    }

    /// Forgets a deleted sandbox's log.
    pub fn forget(&self, sandbox: SandboxId) {
        unimplemented!()
    }
}
