//! What a prepared run still needs when it is launched: the bootstraps that its halves then read, and whether its
//! workload lacks the runtime.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use openshell_core::ContainerId;

/// Runs that may be prepared and not launched at one time; beyond it the oldest ids give way.
const MAX_PENDING: usize = 4096;

/// One prepared run.
pub(crate) struct Pending<I> {
    /// The workload's bootstrap. It is handed over once the workload has been started: its container is kept from
    /// run to run, and what is handed to a process that is then never begun would be read by the next.
    pub(crate) workload: Bytes,
    /// The open end of the supervisor's, whose container is new in every run.
    pub(crate) supervisor: I,
    /// The workload lacks the sandbox runtime.
    pub(crate) runtime: bool,
}

/// Prepared runs, by the supervisor's container, which is new in every run.
pub(crate) struct Inputs<I>(Mutex<BTreeMap<ContainerId, Pending<I>>>);

impl<I> Default for Inputs<I> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<I> Inputs<I> {
    pub(crate) fn put(&self, supervisor: &ContainerId, run: Pending<I>) {
        let mut pending = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if pending.len() >= MAX_PENDING {
            pending.pop_first();
        }
        pending.insert(supervisor.clone(), run);
    }

    pub(crate) fn take(&self, supervisor: &ContainerId) -> Option<Pending<I>> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(supervisor)
    }
}
