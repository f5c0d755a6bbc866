//! When to try the gateway again: at once, then soon, then patiently.

use std::time::Duration;

/// The first try comes within this.
pub const FIRST: Duration = Duration::from_millis(50);
const DOUBLING_FROM: Duration = Duration::from_millis(200);
/// Tries in the first minute are never further apart: a gateway that is back has all its sandboxes within a second.
pub const FIRST_MINUTE: Duration = Duration::from_millis(500);
/// Nor later ones than this.
pub const LATER: Duration = Duration::from_secs(2);

/// How long to wait before try number `attempt` (from 0), the gateway having been away for `away`.
///
/// `spread` in 0..=255 shortens the wait by up to a half, so that not all supervisors of one gateway come at once.
pub fn delay(attempt: u32, away: Duration, spread: u8) -> Duration {
    if attempt == 0 {
        return FIRST;
    }
    let cap = if away < Duration::from_secs(60) {
        FIRST_MINUTE
    } else {
        LATER
    };
    let doubled = DOUBLING_FROM.saturating_mul(1 << (attempt - 1).min(10));
    let wait = doubled.min(cap);
    wait - wait * u32::from(spread) / 512
}

#[cfg(test)]
mod tests;
