//! The one place where the clock is read.

use jiff::Timestamp;

/// Now.
#[expect(
    clippy::disallowed_methods,
    reason = "PID 1 stamps what it measures; nothing here is decided by wall time but a token's expiry"
)]
pub(crate) fn now() -> Timestamp {
    Timestamp::now()
}

/// Now, as messages carry it.
pub(crate) fn stamp() -> prost_types::Timestamp {
    let now = now();
    prost_types::Timestamp {
        seconds: now.as_second(),
        nanos: now.subsec_nanosecond(),
    }
}
