//! The detach keys, and exit codes of what ran elsewhere.

use super::keys::DetachKeys;
use super::*;

#[test]
fn ctrl_p_ctrl_q_detaches_even_when_split_over_two_reads() {
    let mut keys = DetachKeys::default();
    assert_eq!(keys.feed(b"ab\x10"), (b"ab".to_vec(), false));
    assert_eq!(keys.feed(b"\x11rest"), (Vec::new(), true));
}

#[test]
fn a_ctrl_p_that_is_followed_by_another_key_is_passed_on() {
    let mut keys = DetachKeys::default();
    assert_eq!(keys.feed(b"\x10x"), (b"\x10x".to_vec(), false));
    assert_eq!(
        keys.feed(b"\x10\x10y\x11"),
        (b"\x10\x10y\x11".to_vec(), false)
    );
}

#[test]
fn the_exit_code_is_the_processs_own() {
    let exited = |code| {
        Outcome::Exited(ProcessExit {
            code,
            ..Default::default()
        })
    };
    assert_eq!(exited(0).exit(), Some(Exit::Command(0)));
    assert_eq!(exited(17).exit(), Some(Exit::Command(17)));
    assert_eq!(exited(143).exit(), Some(Exit::Command(143)));
    assert_eq!(exited(-1).exit(), Some(Exit::Failed));
    assert_eq!(Outcome::Signalled(2).exit(), Some(Exit::Command(130)));
    assert_eq!(Outcome::Lost(String::new()).exit(), None);
}
