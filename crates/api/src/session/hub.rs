//! Who is in session: at most one supervisor for each sandbox.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use openshell_core::{Generation, SandboxId, SupervisorInstance};
use openshell_proto::link::LogLine;
use openshell_proto::supervisor::{RelayOpen, ToSupervisor, to_supervisor};
use tokio::sync::{Semaphore, broadcast, mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tonic::Status;

use super::logs::{LogBook, SourcedLine};
use super::relay::{CLAIM_WITHIN, OPEN_EACH, Pending, Relay, RelayError, RelayTarget, Waiting};

/// All sessions of this gateway. Cheap to clone.
#[derive(Clone)]
pub struct SessionHub(Arc<Inner>);

struct Inner {
    sessions: Mutex<Sessions>,
    pending: Pending,
    logs: LogBook,
    tasks: TaskTracker,
    closing: CancellationToken,
}

#[derive(Default)]
struct Sessions {
    by_sandbox: HashMap<SandboxId, Entry>,
    last_serial: u64,
}

/// A session as the hub holds it.
#[derive(Clone)]
pub(super) struct Entry {
    /// Tells two sessions of one supervisor apart.
    pub(super) serial: u64,
    pub(super) generation: Generation,
    pub(super) instance: SupervisorInstance,
    pub(super) orders: mpsc::Sender<Result<ToSupervisor, Status>>,
    pub(super) closer: Closer,
    /// Cancelled when its last word has reached the fence.
    pub(super) done: CancellationToken,
    pub(super) relays: Arc<Semaphore>,
}

/// Ends a session, with a reason.
#[derive(Clone, Debug, Default)]
pub(super) struct Closer {
    token: CancellationToken,
    why: Arc<OnceLock<(&'static str, bool)>>,
}

impl Closer {
    /// Ends it; the fence hears of it.
    pub(super) fn close(&self, reason: &'static str) {
        self.why.get_or_init(|| (reason, false));
        self.token.cancel();
    }

    /// Ends it in favour of a newer one; the fence hears of that one instead.
    fn displace(&self) {
        self.why
            .get_or_init(|| ("displaced by a newer session of the same supervisor", true));
        self.token.cancel();
    }

    pub(super) fn reason(&self) -> &'static str {
        self.why.get().map_or("closed", |(reason, _)| reason)
    }

    pub(super) fn displaced(&self) -> bool {
        self.why.get().is_some_and(|(_, displaced)| *displaced)
    }

    pub(super) fn token(&self) -> &CancellationToken {
        &self.token
    }
}

impl std::fmt::Debug for SessionHub {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SessionHub")
            .field("sessions", &self.lock().by_sandbox.len())
            .finish_non_exhaustive()
    }
}

impl Default for SessionHub {
    fn default() -> Self {
        Self::new()
    }
}

impl SessionHub {
    /// With nobody in session.
    pub fn new() -> Self {
        Self(Arc::new(Inner {
            sessions: Mutex::default(),
            pending: Pending::default(),
            logs: LogBook::default(),
            tasks: TaskTracker::new(),
            closing: CancellationToken::new(),
        }))
    }

    /// Opens a relay through the session of exactly this run; waits at most ten seconds for its claim.
    pub async fn open(
        &self,
        sandbox: SandboxId,
        generation: Generation,
        target: RelayTarget,
    ) -> Result<Relay, RelayError> {
        let session = self
            .session(sandbox, generation)
            .ok_or(RelayError::NoSession)?;
        let permit = Arc::clone(&session.relays)
            .try_acquire_owned()
            .map_err(|_| RelayError::TooMany)?;
        let (reply, answer) = oneshot::channel();
        let id = uuid::Uuid::new_v4().to_string();
        let waiting = Waiting {
            sandbox,
            generation,
            process: !matches!(target, RelayTarget::Forward(_)),
            reply,
            session: session.closer.token().clone(),
            permit,
        };
        let _ticket = self.0.pending.insert(&id, waiting)?;
        let order = ToSupervisor {
            message: Some(to_supervisor::Message::RelayOpen(RelayOpen {
                relay_id: id,
                target: Some(target),
            })),
        };
        let claimed = async {
            session
                .orders
                .send(Ok(order))
                .await
                .map_err(|_| RelayError::SessionLost)?;
            answer.await.unwrap_or(Err(RelayError::SessionLost))
        };
        tokio::select! {
            biased;
            claimed = tokio::time::timeout(CLAIM_WITHIN, claimed) => {
                claimed.unwrap_or(Err(RelayError::TimedOut(CLAIM_WITHIN.as_secs())))
            }
            () = session.closer.token().cancelled() => Err(RelayError::SessionLost),
        }
    }

    /// Whether a session of this run is open.
    pub fn connected(&self, sandbox: SandboxId, generation: Generation) -> bool {
        self.session(sandbox, generation).is_some()
    }

    /// How many sessions are open.
    pub fn sessions(&self) -> usize {
        self.lock().by_sandbox.len()
    }

    /// Adds a line of the gateway's own to a sandbox's log.
    pub fn log(&self, sandbox: SandboxId, line: LogLine) {
        self.0.logs.push(sandbox, "gateway", line);
    }

    /// The last `limit` lines of a sandbox's log, oldest first; how many are kept in all.
    pub fn logs(&self, sandbox: SandboxId, limit: usize) -> (Vec<SourcedLine>, usize) {
        self.0.logs.last(sandbox, limit)
    }

    /// Lines as they come, after those of [`logs`](Self::logs); a slow reader misses lines rather than
    /// holding anybody up.
    pub fn follow_logs(&self, sandbox: SandboxId) -> broadcast::Receiver<SourcedLine> {
        self.0.logs.follow(sandbox)
    }

    /// Ends every session and relay and waits for their last words; none is accepted afterwards.
    pub async fn shutdown(&self) {
        self.0.closing.cancel();
        let open: Vec<_> = self.lock().by_sandbox.values().cloned().collect();
        for session in open {
            session.closer.close("the gateway is shutting down");
        }
        self.0.tasks.close();
        self.0.tasks.wait().await;
    }

    fn lock(&self) -> MutexGuard<'_, Sessions> {
        self.0
            .sessions
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn session(&self, sandbox: SandboxId, generation: Generation) -> Option<Entry> {
        self.lock()
            .by_sandbox
            .get(&sandbox)
            .filter(|e| e.generation == generation && !e.closer.token().is_cancelled())
            .cloned()
    }

    pub(super) fn pending(&self) -> &Pending {
        &self.0.pending
    }

    pub(super) fn book(&self) -> &LogBook {
        &self.0.logs
    }

    pub(super) fn tasks(&self) -> &TaskTracker {
        &self.0.tasks
    }

    pub(super) fn closing(&self) -> &CancellationToken {
        &self.0.closing
    }

    /// A new entry, not registered yet.
    pub(super) fn entry(
        &self,
        generation: Generation,
        instance: SupervisorInstance,
        orders: mpsc::Sender<Result<ToSupervisor, Status>>,
    ) -> Entry {
        let mut sessions = self.lock();
        sessions.last_serial += 1;
        Entry {
            serial: sessions.last_serial,
            generation,
            instance,
            orders,
            closer: Closer::default(),
            done: CancellationToken::new(),
            relays: Arc::new(Semaphore::new(OPEN_EACH)),
        }
    }

    /// Ends the session that this one may displace before it is accepted: the same supervisor's earlier one, or
    /// that of an earlier run. Waits until its last word is said, so that words stay in order.
    pub(super) async fn displace_for(&self, sandbox: SandboxId, new: &Entry) {
        let old = self.lock().by_sandbox.get(&sandbox).cloned();
        if let Some(old) = old
            && (old.generation < new.generation
                || (old.generation, old.instance) == (new.generation, new.instance))
        {
            old.closer.displace();
            old.done.cancelled().await;
        }
    }

    /// From here on relays can be opened through it. Whatever was registered before is displaced.
    pub(super) fn register(&self, sandbox: SandboxId, new: &Entry) {
        if let Some(old) = self.lock().by_sandbox.insert(sandbox, new.clone()) {
            old.closer.displace();
        }
    }

    /// Whether another session of this sandbox is registered.
    pub(super) fn occupied(&self, sandbox: SandboxId) -> bool {
        self.lock().by_sandbox.contains_key(&sandbox)
    }

    /// Takes a session out, if it is still the registered one.
    pub(super) fn unregister(&self, sandbox: SandboxId, serial: u64) {
        let mut sessions = self.lock();
        if sessions
            .by_sandbox
            .get(&sandbox)
            .is_some_and(|e| e.serial == serial)
        {
            sessions.by_sandbox.remove(&sandbox);
        }
    }
}
