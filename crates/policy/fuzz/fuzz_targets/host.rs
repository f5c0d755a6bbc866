//! Fuzzes the matching of hosts: a rule without a wildcard is about one host, and one with a wildcard about no other
//! suffix.
#![no_main]

use libfuzzer_sys::fuzz_target;
use openshell_policy::{Connection, Engine, Host, Policy};

fuzz_target!(|input: (&str, &str)| {
    let (pattern, asked) = input;
    let policy = serde_json::json!({
        "version": 1,
        "network_policies": { "a": {
            "endpoints": [{ "host": pattern, "port": 1 }],
            "binaries": ["/a"],
        } },
    });
    let (checked, Some(host)) = (Policy::from_value(policy), Host::parse(asked)) else {
        return;
    };
    let Ok(checked) = checked else {
        return;
    };
    let engine = Engine::new(&checked.policy);
    let connection = Connection { host: &host, port: 1, binary: "/a", ancestors: &[] };
    let opens = engine.connection(connection).is_ok();
    assert!(opens || !engine.resolves(asked));
    let shown = host.to_string();
    let pattern = pattern.to_ascii_lowercase();
    match pattern.trim_start_matches('*').strip_prefix('.') {
        Some(suffix) if pattern.starts_with('*') => {
            assert!(!opens || shown.ends_with(&format!(".{suffix}")));
        }
        _ => assert_eq!(opens, Host::parse(&pattern) == Some(host)),
    }
});
