//! Core words ↔ wire messages. Nothing else knows both.

pub(crate) mod life;
pub(crate) mod logs;
pub(crate) mod resources;
pub(crate) mod sandbox;
pub(crate) mod spec;

use openshell_core::Timestamp;

/// A time on the wire.
pub(crate) fn time(t: Timestamp) -> prost_types::Timestamp {
    // jiff's subsecond part of times before 1970 is negative; protobuf's never is.
    let (mut seconds, mut nanos) = (t.as_second(), t.subsec_nanosecond());
    if nanos < 0 {
        seconds -= 1;
        nanos += 1_000_000_000;
    }
    prost_types::Timestamp { seconds, nanos }
}

/// A time from the wire; none if it is none.
pub(crate) fn from_time(t: &prost_types::Timestamp) -> Option<Timestamp> {
    Timestamp::new(t.seconds, t.nanos).ok()
}

#[cfg(test)]
mod tests;
