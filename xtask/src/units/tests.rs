//! What is refused.

use super::*;

const SOUND: &str = "[Service]\nType=notify\nKillMode=mixed\nRestart=on-failure\nRestartPreventExitStatus=2\n\
                     TimeoutStopSec=20s\nExecStart=/usr/bin/openshell-gateway\n";

#[test]
fn a_unit_that_keeps_every_promise_is_taken() {
    promises(SOUND).unwrap();
}

#[test]
fn a_unit_that_ends_more_than_the_gateway_or_sooner_than_it_can_is_refused() {
    for (from, to, word) in [
        ("KillMode=mixed\n", "", "KillMode"),
        ("TimeoutStopSec=20s", "TimeoutStopSec=15s", "TimeoutStopSec"),
        ("Type=notify", "#Type=notify", "Type"),
    ] {
        let error = promises(&SOUND.replace(from, to)).unwrap_err().to_string();
        assert!(error.contains(word), "{error}");
    }
}
