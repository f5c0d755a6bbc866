//! The summaries that are understood.

use super::{Tally, parse};

#[test]
fn the_summaries_of_each_runner_are_counted() {
    let cases = [
        (
            "     Summary [   0.1s] 12 tests run: 10 passed (1 slow), 2 failed, 3 skipped",
            10,
            2,
        ),
        (
            "     Summary [   0.1s] 12 tests run: 12 passed, 0 skipped",
            12,
            0,
        ),
        (
            "     Summary [   9.1s] 3 tests run: 2 passed, 1 timed out, 0 skipped",
            2,
            1,
        ),
        (
            "test result: FAILED. 4 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out",
            4,
            1,
        ),
        ("sdk: 20 passed, 0 failed", 20, 0),
    ];
    for (line, passed, failed) in cases {
        assert_eq!(parse(line), Some(Tally { passed, failed }), "{line}");
    }
}

#[test]
fn other_lines_are_not_counted() {
    assert_eq!(
        parse("        PASS [   0.004s] xtask a_test_that_passed"),
        None
    );
}
