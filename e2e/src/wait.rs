//! Waiting for a condition, with a deadline.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};

/// Asks `probe` until it answers with something, or says what was awaited in vain.
///
/// # Errors
/// When the deadline passes, or the probe itself fails.
pub fn until<T>(
    what: &str,
    limit: Duration,
    mut probe: impl FnMut() -> Result<Option<T>>,
) -> Result<T> {
    let started = Instant::now();
    loop {
        if let Some(found) = probe()? {
            return Ok(found);
        }
        if started.elapsed() > limit {
            bail!("waited {} s in vain for {what}", limit.as_secs_f32());
        }
        pause(Duration::from_millis(20));
    }
}

/// Lets time pass where time itself is what is tested (a workload that ticks, a bound that must not be passed).
#[expect(
    clippy::disallowed_methods,
    reason = "the one pause between two looks at a condition"
)]
pub fn pause(time: Duration) {
    std::thread::sleep(time);
}
