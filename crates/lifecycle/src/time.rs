//! Arithmetic on times that saturates instead of failing.

use std::time::Duration;

use jiff::SignedDuration;
use openshell_core::Timestamp;

/// The time so long after another.
pub(crate) fn after(time: Timestamp, by: Duration) -> Timestamp {
    SignedDuration::try_from(by)
        .ok()
        .and_then(|by| time.checked_add(by).ok())
        .unwrap_or(Timestamp::MAX)
}

/// How long it is from one time to a later one; zero if it is not later.
pub(crate) fn between(earlier: Timestamp, later: Timestamp) -> Duration {
    Duration::try_from(later.duration_since(earlier)).unwrap_or(Duration::ZERO)
}

/// The wait before another try of an engine call: 250 ms doubling to 5 s.
pub(crate) fn back_off(tries: u32) -> Duration {
    Duration::from_millis(250)
        .saturating_mul(1_u32.checked_shl(tries).unwrap_or(u32::MAX))
        .min(Duration::from_secs(5))
}
