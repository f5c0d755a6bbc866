//! Which names are names.

use super::*;

#[test]
fn good_names_are_kept_as_they_are() {
    for n in ["a", "0", "a-b", "agent-7", &"x".repeat(MAX_NAME)] {
        assert_eq!(SandboxName::new(n).unwrap().as_str(), n);
    }
}

#[test]
fn bad_names_say_what_is_wrong_with_them() {
    assert_eq!(SandboxName::new(""), Err(NameError::Empty));
    assert_eq!(SandboxName::new("Agent"), Err(NameError::BadCharacter('A')));
    assert_eq!(SandboxName::new("a_b"), Err(NameError::BadCharacter('_')));
    assert_eq!(SandboxName::new("a\0"), Err(NameError::BadCharacter('\0')));
    assert_eq!(SandboxName::new("-a"), Err(NameError::EdgeDash));
    assert_eq!(SandboxName::new("a-"), Err(NameError::EdgeDash));
    assert_eq!(
        SandboxName::new("x".repeat(41)),
        Err(NameError::TooLong(41))
    );
}
