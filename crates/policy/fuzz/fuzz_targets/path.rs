//! Fuzzes the matching of requests: what a rule denies does not pass, however the request is written.
#![no_main]

use libfuzzer_sys::fuzz_target;
use openshell_policy::{Connection, Engine, Host, Policy, Request};

fn engine(allow: &str, deny: &str, slash: bool) -> Option<Engine> {
    let policy = serde_json::json!({
        "version": 1,
        "network_policies": { "a": {
            "endpoints": [{
                "host": "a.example.com", "port": 1, "protocol": "rest", "enforcement": "enforce",
                "rules": [{ "allow": { "path": allow } }],
                "deny_rules": [{ "path": deny, "query": {} }],
                "allow_encoded_slash": slash,
            }],
            "binaries": ["/a"],
        } },
    });
    Some(Engine::new(&Policy::from_value(policy).ok()?.policy))
}

fuzz_target!(|input: (&str, &str, &str, &str, bool)| {
    let (allow, deny, path, query, slash) = input;
    let passes = |allow: &str, deny: &str| {
        let engine = engine(allow, deny, slash)?;
        let host = Host::parse("a.example.com")?;
        let connection = Connection { host: &host, port: 1, binary: "/a", ancestors: &[] };
        let on = engine.connection(connection).ok()?;
        Some(on.request(Request { method: "GET", path, query }).passes)
    };
    assert_ne!(passes(allow, "/**"), Some(true));
    assert_ne!(passes("/**", "/**"), Some(true));
    // The same pattern on both sides: whatever it is about, deny wins.
    assert_ne!(passes(allow, allow), Some(true));
    let _ = passes(allow, deny);
});
