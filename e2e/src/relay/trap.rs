//! Traps for calls: what befalls them, how often they were met, what they hold.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context as _, Result};
use tokio::sync::watch;

use super::calls::{Call, Calls};
use super::{Shared, locked};
use crate::wait;

/// What befalls a call.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Fault {
    /// Nothing: it is counted.
    Pass,
    /// The engine does not hear of it before the release.
    HoldCall,
    /// The engine has done it and answered; the gateway does not hear of that before the release.
    HoldAnswer,
    /// The engine hears of it so much later.
    Delay(Duration),
    /// The connection breaks before the engine has heard of it.
    CutCall,
    /// The engine has done it, and the connection breaks before the gateway hears of that.
    CutAnswer,
    /// The engine hears of it twice; the gateway gets the second answer.
    Double,
    /// The engine does not hear of it; the gateway gets this status and message.
    Answer(u16, &'static str),
}

#[derive(Debug)]
pub(super) struct State {
    calls: Calls,
    fault: Fault,
    counts: Mutex<Counts>,
    released: watch::Sender<bool>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    /// Of the choice, whichever their place.
    seen: usize,
    met: usize,
    held: usize,
}

/// All that are in force, in the order in which they were set.
#[derive(Debug, Default)]
pub(super) struct Traps {
    list: Mutex<Vec<Arc<State>>>,
}

impl Traps {
    /// Counts a call in every trap that only counts, and gives the first other one that it runs into.
    pub(super) fn meet(&self, call: &Call) -> Option<Met> {
        let mut first = None;
        for trap in locked(&self.list).iter() {
            if trap.fault == Fault::Pass {
                trap.meets(call);
            } else if first.is_none() && trap.meets(call) {
                first = Some(Met {
                    trap: Arc::clone(trap),
                    holds: false,
                });
            }
        }
        first
    }
}

impl State {
    /// Counts it, if it is of the choice.
    fn meets(&self, call: &Call) -> bool {
        if !self.calls.contains(call) {
            return false;
        }
        let mut counts = locked(&self.counts);
        let meant = self.calls.means(counts.seen);
        counts.seen += 1;
        counts.met += usize::from(meant);
        meant
    }
}

/// One call that ran into a trap; the trap holds it while this is held.
#[derive(Debug)]
pub(super) struct Met {
    trap: Arc<State>,
    holds: bool,
}

impl Met {
    pub(super) fn fault(&self) -> Fault {
        self.trap.fault.clone()
    }

    /// Holds it until the release.
    pub(super) async fn hold(mut self) {
        let mut released = self.trap.released.subscribe();
        locked(&self.trap.counts).held += 1;
        self.holds = true;
        // The sender lives in the trap, which is held here.
        let _ = released.wait_for(|released| *released).await;
    }
}

impl Drop for Met {
    fn drop(&mut self) {
        // Released, or its gateway has hung up.
        if self.holds {
            locked(&self.trap.counts).held -= 1;
        }
    }
}

/// A trap that is in force until it is released or dropped.
#[derive(Debug)]
pub struct Trap {
    shared: Arc<Shared>,
    state: Arc<State>,
}

impl Trap {
    pub(super) fn set(shared: Arc<Shared>, calls: Calls, fault: Fault) -> Self {
        let state = Arc::new(State {
            calls,
            fault,
            counts: Mutex::default(),
            released: watch::Sender::new(false),
        });
        locked(&shared.traps.list).push(Arc::clone(&state));
        Self { shared, state }
    }

    /// How many calls have run into it.
    pub fn met(&self) -> usize {
        locked(&self.state.counts).met
    }

    /// How many it holds now: of answers those that the engine has given.
    pub fn held(&self) -> usize {
        locked(&self.state.counts).held
    }

    /// Waits until so many calls have run into it.
    ///
    /// # Errors
    /// When the deadline passes.
    pub fn wait_met(&self, calls: usize, limit: Duration) -> Result<()> {
        self.wait("met", calls, limit, Self::met)
    }

    /// Waits until it holds so many.
    ///
    /// # Errors
    /// When the deadline passes.
    pub fn wait_held(&self, calls: usize, limit: Duration) -> Result<()> {
        self.wait("held", calls, limit, Self::held)
    }

    fn wait(
        &self,
        what: &str,
        calls: usize,
        limit: Duration,
        count: impl Fn(&Self) -> usize,
    ) -> Result<()> {
        let enough = || Ok((count(self) >= calls).then_some(()));
        wait::until(&format!("{calls} calls to be {what}"), limit, enough)
            .with_context(|| format!("{:?}", self.state))
    }

    /// Lets go of what it holds; what comes after passes.
    pub fn release(self) {
        drop(self);
    }
}

impl Drop for Trap {
    fn drop(&mut self) {
        locked(&self.shared.traps.list).retain(|trap| !Arc::ptr_eq(trap, &self.state));
        self.state.released.send_replace(true);
    }
}
