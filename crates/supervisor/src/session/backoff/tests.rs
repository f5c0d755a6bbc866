//! The promises of the reconnect back-off.

use std::time::Duration;

use super::{FIRST_MINUTE, LATER, delay};

/// The waits of an outage, each try failing at once.
fn waits(outage: Duration, spread: u8) -> Vec<(Duration, Duration)> {
    let mut away = Duration::ZERO;
    let mut waits = Vec::new();
    for attempt in 0.. {
        let wait = delay(attempt, away, spread);
        waits.push((away, wait));
        away += wait;
        if away > outage {
            break;
        }
    }
    waits
}

#[test]
fn the_first_try_comes_within_250_ms_whatever_the_spread() {
    for spread in 0..=255 {
        assert!(delay(0, Duration::ZERO, spread) <= Duration::from_millis(250));
    }
}

#[test]
fn tries_are_never_more_than_half_a_second_apart_in_the_first_minute_and_two_seconds_later() {
    for spread in [0, 1, 128, 255] {
        for (away, wait) in waits(Duration::from_secs(3600), spread) {
            let bound = if away < Duration::from_secs(60) {
                FIRST_MINUTE
            } else {
                LATER
            };
            assert!(wait <= bound, "{away:?}: {wait:?}");
        }
    }
}

#[test]
fn a_long_outage_costs_about_a_try_in_a_second() {
    // At the shortest waits: four in a second of the first minute, then one in a second.
    assert!(waits(Duration::from_secs(900), 255).len() < 1100);
}

#[test]
fn the_spread_takes_away_at_most_a_half_and_nothing_overflows() {
    let long = Duration::from_secs(1_000_000);
    assert_eq!(delay(u32::MAX, long, 0), LATER);
    assert!(delay(u32::MAX, long, 255) >= LATER / 2);
}
