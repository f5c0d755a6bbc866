//! What tests and simulations hold a fence by: its end as a SIGKILL would bring it, and a look at every step.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

use crate::machine::{Input, State, Step};

/// Sees every step of every cell.
pub trait Probe: Send + Sync + 'static {
    /// A new sandbox is durable.
    fn created(&self, step: &Step);
    /// What was decided, before it is durable. A store that fails has the same input decided again.
    fn decided(&self, before: &State, input: &Input, step: &Step);
    /// It is durable (if it changed anything), and about to be published and acted on.
    fn committed(&self, before: &State, input: &Input, step: &Step);
}

/// The means to end a fence, and to look into it.
pub(crate) struct Rig {
    killed: CancellationToken,
    /// Ends it at this poll of one of its tasks; 0 = never.
    polls: Arc<AtomicU64>,
    probe: Option<Arc<dyn Probe>>,
}

impl Rig {
    pub(super) fn new(probe: Option<Arc<dyn Probe>>) -> Self {
        Self {
            killed: CancellationToken::new(),
            polls: Arc::default(),
            probe,
        }
    }

    pub(super) const fn killed(&self) -> &CancellationToken {
        &self.killed
    }

    pub(super) fn kill_at_poll(&self, nth: u64) {
        self.polls.store(nth, Ordering::Relaxed);
    }

    pub(super) fn probe(&self) -> Option<&dyn Probe> {
        self.probe.as_deref()
    }

    /// A task that does nothing more once the fence is killed, not even what it was woken for.
    pub(super) fn mortal<F: Future>(&self, task: F) -> Mortal<F> {
        Mortal {
            task: Some(Box::pin(task)),
            killed: self.killed.clone(),
            end: Box::pin(self.killed.clone().cancelled_owned()),
            polls: Arc::clone(&self.polls),
        }
    }
}

/// See [`Rig::mortal`].
pub(super) struct Mortal<F: Future> {
    task: Option<Pin<Box<F>>>,
    killed: CancellationToken,
    end: Pin<Box<WaitForCancellationFutureOwned>>,
    polls: Arc<AtomicU64>,
}

impl<F: Future> Future for Mortal<F> {
    type Output = Option<F::Output>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let left = self.polls.load(Ordering::Relaxed);
        if left > 0 {
            self.polls.store(left - 1, Ordering::Relaxed);
            if left == 1 {
                self.killed.cancel();
            }
        }
        if self.end.as_mut().poll(cx).is_ready() {
            self.task = None;
        }
        match &mut self.task {
            None => Poll::Ready(None),
            Some(task) => task.as_mut().poll(cx).map(Some),
        }
    }
}
