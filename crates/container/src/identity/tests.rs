//! Every form of `USER`, and that none of them leads to root.

use super::*;

const PASSWD: &str = "root:x:0:0:root:/root:/bin/sh\nagent:x:1001:1002::/home/agent:/bin/sh\nalso-root:x:0:5::/:/x\nbroken:x\n";
const GROUP: &str = "root:x:0:\nstaff:x:50:agent\n";

fn settle(user: &str) -> Result<UserIds, String> {
    match image_user(user) {
        ImageUser::Known(user) => Ok(user),
        ImageUser::NeedsFiles { user, group } => resolve(&user, group.as_deref(), PASSWD, GROUP),
    }
}

#[test]
fn a_user_becomes_numeric_and_root_becomes_1000() {
    for (user, uid, gid) in [
        ("", 1000, 1000),
        ("root", 1000, 1000),
        ("0", 1000, 1000),
        ("0:0", 1000, 1000),
        ("root:staff", 1000, 1000),
        ("also-root", 1000, 1000),
        ("00", 1000, 1000),
        ("1234:5678", 1234, 5678),
        ("agent", 1001, 1002),
        ("agent:staff", 1001, 50),
        ("agent:77", 1001, 77),
        ("1001", 1001, 1002),
        ("4711", 4711, 4711),
        ("4711:staff", 4711, 50),
        ("agent:", 1001, 1002),
    ] {
        assert_eq!(settle(user), Ok(UserIds { uid, gid }), "{user:?}");
    }
}

#[test]
fn a_user_or_group_that_is_not_in_the_image_is_named() {
    assert!(settle("nobody").unwrap_err().contains("\"nobody\""));
    assert!(settle("broken").unwrap_err().contains("\"broken\""));
    assert!(settle("agent:wheel").unwrap_err().contains("\"wheel\""));
    assert!(resolve("agent", None, "", "").is_err());
}

#[test]
fn only_numbers_are_read_back_from_a_container() {
    assert_eq!(UserIds::parse("7:8"), Some(UserIds { uid: 7, gid: 8 }));
    for user in ["", "7", "agent:8", "7:", "-1:1", "4294967296:1"] {
        assert_eq!(UserIds::parse(user), None, "{user:?}");
    }
}
