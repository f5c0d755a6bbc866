//! Relays: pending ones wait to be claimed by the supervisor of exactly their run; claimed ones move frames,
//! bounded both ways.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use openshell_core::token::Claims;
use openshell_core::{Generation, SandboxId};
use openshell_proto::link::process_output::Output;
use openshell_proto::supervisor::{RelayFrame, relay_frame::Frame, relay_open};
use thiserror::Error;
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use tonic::{Status, Streaming};

/// How long a supervisor may take to claim a relay.
pub(super) const CLAIM_WITHIN: Duration = Duration::from_secs(10);
/// Pending at once, for one sandbox and in all.
const PENDING_EACH: usize = 32;
const PENDING_ALL: usize = 256;
/// Open at once for one sandbox: what the windows of its one connection are sized for.
pub(super) const OPEN_EACH: usize = 64;
/// Frames (of at most 64 KiB) that wait between two hops.
const FRAMES: usize = 4;

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

/// A relay that was asked for and waits for its claim.
pub(super) struct Waiting {
    pub(super) sandbox: SandboxId,
    pub(super) generation: Generation,
    /// A process ends with an exit; a stream of one that ends without is broken.
    pub(super) process: bool,
    pub(super) reply: oneshot::Sender<Result<Relay, RelayError>>,
    /// Ends with the session.
    pub(super) session: CancellationToken,
    /// Counts it among the open ones of its session.
    pub(super) permit: OwnedSemaphorePermit,
}

/// All pending relays, by id.
#[derive(Clone, Default)]
pub(super) struct Pending(Arc<Mutex<HashMap<String, Waiting>>>);

/// Takes a pending relay back when whoever asked for it goes away.
pub(super) struct Ticket {
    pending: Pending,
    id: String,
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.pending.lock().remove(&self.id);
    }
}

impl Pending {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, Waiting>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn insert(&self, id: &str, waiting: Waiting) -> Result<Ticket, RelayError> {
        let mut pending = self.lock();
        let each = pending
            .values()
            .filter(|w| w.sandbox == waiting.sandbox)
            .count();
        if pending.len() >= PENDING_ALL || each >= PENDING_EACH {
            return Err(RelayError::TooMany);
        }
        pending.insert(id.to_owned(), waiting);
        Ok(Ticket {
            pending: self.clone(),
            id: id.to_owned(),
        })
    }

    /// A claim by a supervisor: only that of the run it was asked of may have it.
    pub(super) fn claim(&self, claims: &Claims, id: &str) -> Result<Waiting, Status> {
        let mut pending = self.lock();
        let waiting = pending
            .get(id)
            .ok_or_else(|| Status::not_found("no relay of this id is pending"))?;
        if (waiting.sandbox, waiting.generation) != (claims.sandbox_id, claims.generation) {
            return Err(Status::permission_denied("the relay is of another run"));
        }
        pending
            .remove(id)
            .ok_or_else(|| Status::not_found("no relay of this id is pending"))
    }

    /// The supervisor says that its claim will not come.
    pub(super) fn refuse(&self, claims: &Claims, id: &str, message: String) {
        if let Ok(waiting) = self.claim(claims, id) {
            drop(waiting.reply.send(Err(RelayError::Refused(message))));
        }
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.lock().len()
    }
}

/// A claimed relay on the supervisor's side.
pub(super) struct Claimed {
    /// What the response stream carries.
    pub(super) towards: mpsc::Receiver<RelayFrame>,
    /// Ends the response stream.
    pub(super) over: CancellationToken,
    pump: Pump,
}

struct Pump {
    frames: mpsc::Sender<Result<RelayFrame, RelayError>>,
    process: bool,
    session: CancellationToken,
    over: CancellationToken,
    _permit: OwnedSemaphorePermit,
}

/// Hands one side to whoever asked; gives the other, or an error if nobody waits any longer.
pub(super) fn connect(waiting: Waiting) -> Result<Claimed, Status> {
    let (to_sandbox, towards) = mpsc::channel(FRAMES);
    let (frames, from_sandbox) = mpsc::channel(FRAMES);
    let relay = Relay {
        to_sandbox,
        from_sandbox,
    };
    waiting
        .reply
        .send(Ok(relay))
        .map_err(|_| Status::cancelled("whoever asked for the relay has gone"))?;
    let over = CancellationToken::new();
    Ok(Claimed {
        towards,
        over: over.clone(),
        pump: Pump {
            frames,
            process: waiting.process,
            session: waiting.session,
            over,
            _permit: waiting.permit,
        },
    })
}

impl Claimed {
    /// What the response stream carries, and the work of moving the other direction.
    pub(super) fn split(
        self,
        inbound: Streaming<RelayFrame>,
    ) -> (
        mpsc::Receiver<RelayFrame>,
        CancellationToken,
        impl Future<Output = ()> + Send + 'static,
    ) {
        (self.towards, self.over, self.pump.run(inbound))
    }
}

impl Pump {
    /// Moves frames from the sandbox until one end goes, then ends the response stream too.
    async fn run(self, mut inbound: Streaming<RelayFrame>) {
        let _over = self.over.clone().drop_guard();
        let mut complete = !self.process;
        let error = loop {
            let frame = tokio::select! {
                biased;
                () = self.frames.closed() => return,
                () = self.session.cancelled() => break Some(RelayError::SessionLost),
                frame = inbound.message() => frame,
            };
            match frame {
                Ok(Some(RelayFrame {
                    frame: Some(Frame::Ended(ended)),
                })) => break Some(RelayError::Refused(ended.message)),
                Ok(Some(frame)) => {
                    complete |= is_exit(&frame);
                    tokio::select! {
                        biased;
                        sent = self.frames.send(Ok(frame)) => if sent.is_err() { return },
                        () = self.session.cancelled() => break Some(RelayError::SessionLost),
                    }
                }
                Ok(None) if complete => break None,
                Ok(None) | Err(_) => break Some(RelayError::SessionLost),
            }
        };
        if let Some(error) = error {
            // Whoever reads gets it after the frames that came before.
            drop(self.frames.send(Err(error)).await);
        }
    }
}

fn is_exit(frame: &RelayFrame) -> bool {
    matches!(
        &frame.frame,
        Some(Frame::Output(output)) if matches!(output.output, Some(Output::Exit(_)))
    )
}
