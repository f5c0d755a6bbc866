//! What the words of a life mean is written down for users, all of it.

use openshell_core::{ExitCause, Phase, Reason};

const PAGE: &str = include_str!("../../../docs/lifecycle.md");

/// The rows of the table under a heading.
fn rows(heading: &str) -> Vec<&'static str> {
    PAGE.split("\n## ")
        .find(|section| section.starts_with(heading))
        .unwrap_or_else(|| panic!("docs/lifecycle.md has a section {heading:?}"))
        .lines()
        .filter(|line| line.starts_with('|'))
        .collect()
}

#[test]
fn every_reason_is_explained_with_what_to_do() {
    let rows = rows("Reasons");
    for reason in Reason::ALL {
        let word = format!("| `{reason}` |");
        let found = rows.iter().filter(|row| row.starts_with(&word)).count();
        assert_eq!(found, 1, "{reason} has one row");
    }
    assert_eq!(rows.len(), Reason::ALL.len() + 2, "and none is invented");
}

#[test]
fn every_phase_says_what_to_do() {
    let rows = rows("What to do about each phase");
    for phase in Phase::ALL {
        let found = rows.iter().any(|row| {
            row.split('|')
                .nth(1)
                .is_some_and(|cell| cell.split(',').any(|p| p.trim() == phase.as_str()))
        });
        assert!(found, "{phase}");
    }
}

#[test]
fn every_cause_of_an_exit_is_explained() {
    let rows = rows("How a run ended");
    for cause in ExitCause::ALL {
        let word = format!("| `{}` |", cause.as_str());
        assert!(rows.iter().any(|row| row.starts_with(&word)), "{word}");
    }
}
