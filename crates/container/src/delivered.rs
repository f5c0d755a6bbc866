//! Workloads that are known to hold this gateway's runtime: what was delivered or seen once need not be looked at
//! before each start, since nobody inside can write there.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use openshell_core::ContainerId;

/// So many are remembered; one that is forgotten is looked at again.
const MAX_KNOWN: usize = 4096;

#[derive(Default)]
pub(crate) struct Delivered(Mutex<BTreeSet<ContainerId>>);

impl Delivered {
    pub(crate) fn insert(&self, workload: &ContainerId) {
        let mut known = self.lock();
        if known.len() >= MAX_KNOWN {
            known.pop_first();
        }
        known.insert(workload.clone());
    }

    pub(crate) fn holds(&self, workload: &ContainerId) -> bool {
        self.lock().contains(workload)
    }

    pub(crate) fn forget(&self, workload: &ContainerId) {
        self.lock().remove(workload);
    }

    fn lock(&self) -> MutexGuard<'_, BTreeSet<ContainerId>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
