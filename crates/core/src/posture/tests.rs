//! What counts as a confirmed posture.

use super::{REQUIRED, missing};

#[test]
fn a_posture_with_every_property_enforced_misses_nothing() {
    assert!(missing(REQUIRED.map(|name| (name, true))).is_empty());
}

#[test]
fn an_absent_property_is_missing_and_so_is_one_that_is_not_enforced() {
    let measured = REQUIRED
        .into_iter()
        .filter(|name| *name != "privilege_floor")
        .map(|name| (name, name != "egress_interception"));
    assert_eq!(
        missing(measured),
        ["egress_interception", "privilege_floor"]
    );
}

#[test]
fn an_empty_posture_confirms_nothing() {
    assert_eq!(missing([]).len(), REQUIRED.len());
}
