//! The explorer finds what is wrong with a toy, all of it, and by the shortest way.

use super::super::wiring::Violation;
use super::{Explored, Limits, Next, Seen, System, explore};

/// A number that its user makes larger, and that becomes smaller by itself.
#[derive(Default)]
struct Toy {
    /// Not followed beyond this.
    bound: u8,
    /// No step may lead here.
    forbidden: Option<u8>,
    /// It may not be this, however it was reached.
    wrong: Option<u8>,
    /// What becomes smaller by itself becomes this again at 1, and so never rests.
    round: Option<u8>,
    /// It may not rest here.
    restless: Option<u8>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Does {
    Increment,
    Double,
    Decrement,
}

impl System for Toy {
    type World = u8;
    type Action = Does;

    fn enabled(&self, _world: &u8) -> Vec<Does> {
        vec![Does::Increment, Does::Double]
    }

    fn apply(&self, world: &u8, action: Does) -> Result<u8, Violation> {
        let after = match action {
            Does::Increment => world.saturating_add(1),
            Does::Double => world.saturating_mul(2),
            Does::Decrement => world.saturating_sub(1),
        };
        if self.forbidden == Some(after) {
            return Err(Violation::new("step", "forbidden"));
        }
        Ok(after)
    }

    fn beyond(&self, world: &u8) -> bool {
        *world > self.bound
    }

    fn judge(&self, world: &u8, judged: &mut Seen) -> Result<(), Violation> {
        if judged.insert(u64::from(*world)) && self.wrong == Some(*world) {
            return Err(Violation::new("state", "wrong"));
        }
        Ok(())
    }

    fn calm(&self, world: &u8) -> Result<Next<Self>, (Does, Violation)> {
        let after = match (*world, self.round) {
            (0, _) => return Ok(None),
            (1, Some(again)) => again,
            (n, _) => n - 1,
        };
        // Some need not become any smaller.
        Ok((self.restless != Some(*world)).then_some((Does::Decrement, after)))
    }

    fn rests(&self, world: &u8) -> Result<(), Violation> {
        if *world == 0 {
            return Ok(());
        }
        Err(Violation::new("liveness", format!("it rests at {world}")))
    }
}

const FAR: Limits = Limits {
    depth: 100,
    threads: 1,
    liveness: 1,
};

fn rule(explored: &Explored<Does>) -> &'static str {
    explored
        .violation
        .as_ref()
        .map_or("none", |f| f.violation.rule)
}

#[test]
fn everything_within_the_bounds_is_seen_once_whatever_the_number_of_threads() {
    let toy = Toy {
        bound: 200,
        ..Toy::default()
    };
    for threads in [1, 2, 7] {
        let explored = explore(&toy, &[1], Limits { threads, ..FAR });
        assert_eq!(rule(&explored), "none");
        assert_eq!(explored.states, 200);
        // Two from each; 201 by one step, and the doubles of what is above 100, lie beyond.
        assert_eq!(explored.transitions, 400);
        assert_eq!(explored.cut, 1 + 100);
    }
}

#[test]
fn a_forbidden_step_is_found_by_the_shortest_way() {
    let toy = Toy {
        bound: 200,
        forbidden: Some(12),
        ..Toy::default()
    };
    let explored = explore(&toy, &[1], FAR);
    assert_eq!(rule(&explored), "step");
    let found = explored.violation.unwrap();
    let way = found.trace.iter().fold(
        1,
        |n, does| if *does == Does::Double { n * 2 } else { n + 1 },
    );
    // 1 → 2 → 3 → 6 → 12: no way has fewer steps.
    assert_eq!((way, found.trace.len(), found.calm), (12, 4, 0));
}

#[test]
fn a_wrong_situation_is_found_and_from_which_of_the_first_worlds() {
    let toy = Toy {
        bound: 200,
        wrong: Some(23),
        ..Toy::default()
    };
    let explored = explore(&toy, &[60, 20, 100], FAR);
    assert_eq!(rule(&explored), "state");
    let found = explored.violation.unwrap();
    assert_eq!(found.root, 1);
    assert_eq!(found.trace, [Does::Increment; 3]);
}

#[test]
fn what_lies_deeper_than_the_bound_is_not_claimed() {
    let toy = Toy {
        bound: 200,
        wrong: Some(23),
        ..Toy::default()
    };
    for (depth, expected) in [(2, "none"), (3, "state")] {
        let explored = explore(&toy, &[20], Limits { depth, ..FAR });
        assert_eq!(rule(&explored), expected);
        assert!(explored.depth <= depth);
    }
}

#[test]
fn what_goes_round_for_ever_is_found_with_the_way_into_the_round() {
    let toy = Toy {
        bound: 9,
        round: Some(4),
        ..Toy::default()
    };
    let explored = explore(&toy, &[0, 2], FAR);
    assert_eq!(rule(&explored), "L16");
    let found = explored.violation.unwrap();
    assert_eq!((found.root, found.trace.len() - found.calm), (0, 1));
    // 1 → 4 → 3 → 2 → 1, which has been met before.
    assert_eq!(found.calm, 4);
}

#[test]
fn a_rest_in_the_wrong_place_is_found_even_if_other_ways_to_rest_are_known() {
    let toy = Toy {
        bound: 9,
        restless: Some(6),
        ..Toy::default()
    };
    let explored = explore(&toy, &[3], FAR);
    assert_eq!(rule(&explored), "liveness");
    let found = explored.violation.unwrap();
    assert_eq!(found.trace, [Does::Double]);
    assert_eq!(found.calm, 0);
}
