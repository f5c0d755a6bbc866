//! Pauses.

use super::Ticks;

#[test]
fn the_longest_pause_is_between_whole_notes_that_are_new_enough() {
    let ticks = Ticks::parse("1.00\n1.10\n3.60\n3.70\n3.90\n9");
    assert!((ticks.longest_pause(0.0) - 2.5).abs() < 1e-9);
    assert!((ticks.longest_pause(3.6) - 0.2).abs() < 1e-9);
    assert!((ticks.last() - 3.9).abs() < 1e-9);
    assert!(Ticks::parse("").longest_pause(0.0) < 1e-9);
}
