//! The model as a whole, as far as seconds go: what is sound is, and what is planted is found.

use openshell_core::RestartPolicy;

use super::explore::{Limits, explore};
use super::wiring::Setup;
use super::{LUCK, RUNS, roots, words};
use crate::faults::Fault;
use openshell_lifecycle::FenceConfig;

fn setup(fault: Option<Fault>) -> Setup {
    Setup {
        policy: RestartPolicy::Never,
        fault,
        config: FenceConfig::default(),
        runs: RUNS,
        luck: LUCK,
    }
}

const fn within(depth: usize) -> Limits {
    Limits {
        depth,
        threads: 1,
        liveness: 1,
    }
}

#[test]
fn nothing_is_wrong_within_two_things_that_happen() {
    let setup = setup(None);
    let explored = explore(&setup, &roots(&setup).unwrap(), within(2));
    assert!(explored.violation.is_none());
    assert!(explored.states > 200, "{} states", explored.states);
}

#[test]
fn l6_a_failed_stop_that_is_passed_on_as_done_is_found_and_told() {
    let setup = setup(Some(Fault::StopFailureAsSuccess));
    let roots = roots(&setup).unwrap();
    let found = explore(&setup, &roots, within(3)).violation.unwrap();
    let story = words::story(&setup, &roots, &found);
    assert_eq!(found.violation.rule, "L6", "{}", story.join("\n"));
    assert!(story.iter().any(|line| line.contains("[Stop of run 1")));
    assert!(story.last().unwrap().contains("L6"));
}

#[test]
fn every_fault_has_a_name_of_its_own_and_says_what_it_does_wrong() {
    for fault in Fault::ALL {
        let same = |other: &&Fault| other.name() == fault.name();
        assert_eq!(Fault::ALL.iter().filter(same).count(), 1);
        assert!(!fault.describe().is_empty());
    }
}
