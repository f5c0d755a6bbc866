//! Where every choice of a run comes from: one seed, drawn from in one order.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// A source of choices. The tasks of a run share it: they run one at a time, in an order that the seed decides.
#[derive(Debug)]
pub(crate) struct Chance(Mutex<fastrand::Rng>);

impl Chance {
    pub(crate) fn new(seed: u64) -> Self {
        Self(Mutex::new(fastrand::Rng::with_seed(seed)))
    }

    fn draw<T>(&self, from: impl FnOnce(&mut fastrand::Rng) -> T) -> T {
        from(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// One of `0..n`; 0 if there is nothing to choose from.
    pub(crate) fn below(&self, n: u64) -> u64 {
        if n == 0 {
            0
        } else {
            self.draw(|r| r.u64(0..n))
        }
    }

    /// From `low` to `high`, both included.
    pub(crate) fn between(&self, low: u64, high: u64) -> u64 {
        low + self.below(high.saturating_sub(low) + 1)
    }

    /// True so many times in a thousand.
    pub(crate) fn per_mille(&self, so_many: u64) -> bool {
        so_many > 0 && self.below(1000) < so_many
    }

    pub(crate) fn millis(&self, low: u64, high: u64) -> Duration {
        Duration::from_millis(self.between(low, high))
    }

    /// Short times are as likely as long ones, whatever the range.
    pub(crate) fn spread(&self, low: u64, high: u64) -> Duration {
        let (low, high) = (low.max(1), high.max(1));
        let steps = (high / low).max(1).ilog2();
        let step = self.below(u64::from(steps) + 1);
        let from = low << step;
        Duration::from_millis(self.between(from, (from * 2).min(high).max(from)))
    }

    /// One of these; the first if there is only one.
    pub(crate) fn pick<'a, T>(&self, from: &'a [T]) -> Option<&'a T> {
        let n = u64::try_from(from.len()).unwrap_or(u64::MAX);
        usize::try_from(self.below(n))
            .ok()
            .and_then(|i| from.get(i))
    }
}
