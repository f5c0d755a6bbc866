//! Tests of hosts.

use proptest::prelude::*;

use super::*;

#[test]
fn a_host_of_a_rule_is_a_name_an_address_or_a_wildcard_in_the_first_label() {
    for (text, shown) in [
        ("api.example.com", "api.example.com"),
        ("API.Example.com", "api.example.com"),
        ("*.example.com", "*.example.com"),
        ("**.example.com", "**.example.com"),
        ("db", "db"),
        ("_srv.example.com", "_srv.example.com"),
        ("xn--bcher-kva.example", "xn--bcher-kva.example"),
        ("10.1.2.3", "10.1.2.3"),
        ("2001:DB8::1", "2001:db8::1"),
        (GATEWAY_HOST, GATEWAY_HOST),
    ] {
        assert_eq!(
            HostPattern::parse(text).unwrap().to_string(),
            shown,
            "{text}"
        );
    }
}

#[test]
fn what_is_no_host_is_refused() {
    for text in [
        "",
        ".",
        "example.com.",
        "*",
        "**",
        "*.com",
        "**.com",
        "a.*.com",
        "a*.example.com",
        "*a.example.com",
        "*.*.example.com",
        "*.",
        "bücher.example",
        "-a.example",
        "a-.example",
        "a..example",
        "a b",
        "a/b",
        "https://example.com",
        "example.com:443",
        "127.1",
        "0x7f.1",
        "2130706433",
        "256.1.1.1",
        "127.0.0.1",
        "::1",
        "::",
        "0.0.0.0",
        "169.254.169.254",
        "fe80::1",
        "::ffff:10.0.0.1",
        "localhost",
        "a.localhost",
        "metadata.google.internal",
        "224.0.0.1",
        "*.10.0.0.1",
    ] {
        assert!(HostPattern::parse(text).is_err(), "{text}");
    }
    assert!(HostPattern::parse(&format!("{}.com", "a".repeat(64))).is_err());
    assert!(HostPattern::parse(&"a.".repeat(127)).is_err());
}

#[test]
fn a_host_that_is_asked_for_is_read_in_every_way_that_programs_write_it() {
    assert_eq!(
        Host::parse("Example.COM."),
        Some(Host::Name("example.com".to_owned()))
    );
    assert_eq!(
        Host::parse("[::1]"),
        Some(Host::Address(Ipv6Addr::LOCALHOST.into()))
    );
    for text in ["", ".", "a..b", "[a]", "127.1", "a b", "*.example.com"] {
        assert_eq!(Host::parse(text), None, "{text}");
    }
}

proptest! {
    #[test]
    fn no_host_makes_the_reader_panic_and_what_is_shown_reads_the_same(text in ".{0,40}|[a-z*.-]{0,40}|[0-9a-f:.]{0,20}") {
        let _ = Host::parse(&text);
        if let Ok(host) = HostPattern::parse(&text) {
            prop_assert_eq!(HostPattern::parse(&host.to_string()).unwrap(), host);
        }
    }
}
