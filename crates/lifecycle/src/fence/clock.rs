//! Notices that the wall clock was set. What is due is due after a time, not at an hour: a clock that jumps back an
//! hour must hold nothing up for an hour, and one that jumps forward must end nothing early.

use jiff::SignedDuration;
use openshell_core::Timestamp;
use tokio::time::Instant;

use crate::ports::Environment;

/// A clock that was set by less than this is taken for one that was not.
const TOLERATED: SignedDuration = SignedDuration::from_secs(2);

/// The wall clock beside one that nobody sets.
#[derive(Debug)]
pub(super) struct Clock {
    wall: Timestamp,
    steady: Instant,
}

impl Clock {
    pub(super) fn new(environment: &dyn Environment) -> Self {
        Self {
            wall: environment.now(),
            steady: Instant::now(),
        }
    }

    /// By how much the wall clock was set since the last time this was asked.
    pub(super) fn moved(&mut self, environment: &dyn Environment) -> Option<SignedDuration> {
        let now = Self::new(environment);
        let passed = SignedDuration::try_from(now.steady.duration_since(self.steady)).ok()?;
        let by = now.wall.duration_since(self.wall).checked_sub(passed)?;
        *self = now;
        (by.abs() > TOLERATED).then_some(by)
    }
}
