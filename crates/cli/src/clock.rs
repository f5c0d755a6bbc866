//! The one place where this program reads the clock, and how it writes times.

use jiff::{SignedDuration, Timestamp};

/// Now.
#[expect(
    clippy::disallowed_methods,
    reason = "a command line lives in the present; everything else takes the value"
)]
pub(crate) fn now() -> Timestamp {
    Timestamp::now()
}

/// A time of the wire; none if it is absent or out of range.
pub(crate) fn from_wire(time: Option<&prost_types::Timestamp>) -> Option<Timestamp> {
    let time = time?;
    Timestamp::new(time.seconds, time.nanos).ok()
}

/// A time for the wire.
pub(crate) fn to_wire(time: Timestamp) -> prost_types::Timestamp {
    prost_types::Timestamp {
        seconds: time.as_second(),
        nanos: time.subsec_nanosecond(),
    }
}

/// RFC 3339 in UTC, to the millisecond.
pub(crate) fn rfc3339(time: Timestamp) -> String {
    format!("{time:.3}")
}

/// How long ago, in one unit, as tables show it.
pub(crate) fn age(then: Timestamp, now: Timestamp) -> String {
    let seconds = now.duration_since(then).as_secs().max(0);
    match seconds {
        0..120 => format!("{seconds}s"),
        120..7200 => format!("{}m", seconds / 60),
        7200..172_800 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

/// A span as people write it: `90`, `90s`, `5m`, `2h`, `1d`.
pub(crate) fn parse_span(text: &str) -> Result<SignedDuration, String> {
    let (number, unit) = match text.find(|c: char| !c.is_ascii_digit()) {
        Some(at) => text.split_at(at),
        None => (text, "s"),
    };
    let factor = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3600,
        "d" => 86_400,
        _ => {
            return Err(format!(
                "{text:?} is not a time span; write 30s, 5m, 2h or 1d"
            ));
        }
    };
    number
        .parse::<i64>()
        .ok()
        .and_then(|n| n.checked_mul(factor))
        .filter(|s| *s <= 3650 * 86_400)
        .map(SignedDuration::from_secs)
        .ok_or_else(|| format!("{text:?} is not a time span; write 30s, 5m, 2h or 1d"))
}

#[cfg(test)]
mod tests;
