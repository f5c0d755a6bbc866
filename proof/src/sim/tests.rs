//! A seed is one run and no other, and what is planted is found.

use super::many::Many;
use super::{Planted, run};

const FEW: Many = Many {
    from: 0,
    seeds: 40,
    threads: 2,
    until_found: false,
};

#[test]
fn a_seed_is_the_same_run_to_the_byte() {
    for seed in [3, 7, 119] {
        let once = run(seed, None, true).unwrap();
        let twice = run(seed, None, true).unwrap();
        assert_eq!(once.timeline, twice.timeline);
        assert!(once.steps > 0, "seed {seed} does nothing");
    }
}

#[test]
fn the_fence_keeps_every_rule_in_forty_troubled_worlds() {
    let all = FEW.run(None).unwrap();
    assert_eq!(all.broken.into_iter().next(), None);
    assert_eq!(all.seeds, FEW.seeds);
}

#[test]
fn l6_a_stop_that_is_acknowledged_too_early_is_found() {
    let all = FEW.run(Some(Planted::StopUnconfirmed)).unwrap();
    assert!(all.broken.values().any(|what| what.starts_with("L6")));
}

#[test]
fn every_planted_fault_has_a_name_and_says_what_it_does_wrong() {
    for planted in Planted::ALL {
        let same = |other: &&Planted| other.name() == planted.name();
        assert_eq!(Planted::ALL.iter().filter(same).count(), 1);
        assert!(!planted.describe().is_empty());
    }
}
