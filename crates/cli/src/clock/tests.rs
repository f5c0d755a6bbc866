//! Spans and ages.

use super::*;

#[test]
fn a_span_is_seconds_unless_it_names_its_unit() {
    for (text, seconds) in [
        ("90", 90),
        ("90s", 90),
        ("5m", 300),
        ("2h", 7200),
        ("1d", 86_400),
    ] {
        assert_eq!(parse_span(text).unwrap().as_secs(), seconds, "{text}");
    }
}

#[test]
fn a_misspelt_span_is_refused_with_the_right_form() {
    for text in [
        "",
        "m",
        "-5m",
        "5x",
        "1.5h",
        "99999999999999999999",
        "9999999999d",
    ] {
        assert!(
            parse_span(text).unwrap_err().contains("30s, 5m, 2h or 1d"),
            "{text}"
        );
    }
}

#[test]
fn an_age_has_one_unit_and_is_never_negative() {
    let now: Timestamp = "2026-01-10T00:00:00Z".parse().unwrap();
    for (then, text) in [
        ("2026-01-10T00:00:05Z", "0s"),
        ("2026-01-09T23:59:00Z", "60s"),
        ("2026-01-09T23:50:00Z", "10m"),
        ("2026-01-09T20:00:00Z", "4h"),
        ("2026-01-01T00:00:00Z", "9d"),
    ] {
        assert_eq!(age(then.parse().unwrap(), now), text);
    }
}
