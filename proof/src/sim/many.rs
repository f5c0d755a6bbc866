//! Many seeds, side by side: each has a thread's world for itself.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use anyhow::{Result, bail};

use super::run::run;
use super::wrong::Planted;

/// Which seeds, and how.
#[derive(Clone, Copy, Debug)]
pub(super) struct Many {
    pub(super) from: u64,
    pub(super) seeds: u64,
    pub(super) threads: usize,
    /// Whether a violation ends it.
    pub(super) until_found: bool,
}

/// What came of them.
#[derive(Default, Debug)]
pub(super) struct Summary {
    pub(super) seeds: u64,
    pub(super) steps: u64,
    /// What each seed that failed broke first.
    pub(super) broken: BTreeMap<u64, String>,
}

impl Many {
    pub(super) fn run(self, planted: Option<Planted>) -> Result<Summary> {
        let next = AtomicU64::new(self.from);
        let found = AtomicBool::new(false);
        let work = || self.work(&next, &found, planted);
        let results: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..self.threads.max(1))
                .map(|_| scope.spawn(work))
                .collect();
            let joined = threads.into_iter().map(std::thread::ScopedJoinHandle::join);
            joined.collect()
        });
        let mut all = Summary::default();
        for result in results {
            let Ok(result) = result else {
                bail!("a simulation failed in an unforeseen way");
            };
            let one = result?;
            all.seeds += one.seeds;
            all.steps += one.steps;
            all.broken.extend(one.broken);
        }
        Ok(all)
    }

    fn work(
        self,
        next: &AtomicU64,
        found: &AtomicBool,
        planted: Option<Planted>,
    ) -> Result<Summary> {
        let mut all = Summary::default();
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            let enough = self.until_found && found.load(Ordering::Relaxed);
            if seed >= self.from + self.seeds || enough {
                return Ok(all);
            }
            let outcome = run(seed, planted, false)?;
            all.seeds += 1;
            all.steps += outcome.steps;
            if let Some(first) = outcome.violations.into_iter().next() {
                all.broken.insert(seed, first);
                found.store(true, Ordering::Relaxed);
            }
        }
    }
}
