//! Tests of the decisions.

use super::*;

#[test]
fn without_a_policy_every_connection_is_denied_and_the_missing_rule_is_named() {
    for (host, port, shown) in [
        ("192.0.2.1", 443, "192.0.2.1:443"),
        ("2001:db8::1", 80, "[2001:db8::1]:80"),
    ] {
        let Decision::Denied { reason, .. } = connection(Destination { host, port });
        assert_eq!(reason, format!("no network policy allows {shown}"));
    }
}

#[test]
fn without_a_policy_no_name_exists() {
    let Decision::Denied { reason, .. } = name("example.com.");
    assert_eq!(reason, "no network policy names example.com");
}
