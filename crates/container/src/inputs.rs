//! Bootstraps on their way: handed over when a run is prepared, read by its halves when it is launched.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use openshell_core::ContainerId;

/// Runs that may be prepared and not launched at one time; beyond it the oldest ids give way.
const MAX_PENDING: usize = 4096;

/// The open ends of prepared runs, by the supervisor's container, which is new in every run.
pub(crate) struct Inputs<I>(Mutex<BTreeMap<ContainerId, (I, I)>>);

impl<I> Default for Inputs<I> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<I> Inputs<I> {
    pub(crate) fn put(&self, supervisor: &ContainerId, both: (I, I)) {
        let mut pending = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if pending.len() >= MAX_PENDING {
            pending.pop_first();
        }
        pending.insert(supervisor.clone(), both);
    }

    pub(crate) fn take(&self, supervisor: &ContainerId) -> Option<(I, I)> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(supervisor)
    }
}
