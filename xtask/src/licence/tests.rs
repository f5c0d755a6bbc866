//! The rules of licence expressions.

use super::satisfied;

fn accepted(expression: &str) -> bool {
    let list = ["MIT", "Apache-2.0", "Apache-2.0 WITH LLVM-exception"];
    satisfied(expression, &list.map(str::to_owned).into())
}

#[test]
fn one_accepted_alternative_is_enough() {
    assert!(accepted("MIT OR GPL-3.0"));
    assert!(accepted("GPL-3.0 OR Apache-2.0 WITH LLVM-exception"));
    assert!(accepted("MIT/Apache-2.0"));
}

#[test]
fn every_part_of_a_conjunction_must_be_accepted() {
    assert!(!accepted("(MIT OR Apache-2.0) AND Unicode-3.0"));
    assert!(accepted("(MIT OR GPL-3.0) AND Apache-2.0"));
}

#[test]
fn what_cannot_be_read_is_not_accepted() {
    for expression in ["", "MIT OR", "(MIT", "MIT MIT", "MIT AND )"] {
        assert!(!accepted(expression), "{expression:?}");
    }
}
