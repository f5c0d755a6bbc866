//! The wall clock, for what is shown: the supervisor's decisions use monotonic time.

use prost_types::Timestamp;

/// Now, as log lines carry it.
#[expect(
    clippy::disallowed_methods,
    reason = "the one place where the supervisor reads the wall clock"
)]
pub(crate) fn now() -> Timestamp {
    let now = jiff::Timestamp::now();
    Timestamp {
        seconds: now.as_second(),
        nanos: now.subsec_nanosecond(),
    }
}
