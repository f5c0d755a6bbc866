//! Measures decisions with 500 endpoints, for `cargo xtask bench --part policy`: a line `NAME NANOSECONDS` for each, the
//! median of many rounds.
#![expect(clippy::print_stdout, reason = "its output is what it is for")]
#![expect(clippy::unwrap_used, reason = "a measure that cannot go on has failed")]

use std::fmt::Write as _;
use std::hint::black_box;
use std::time::Instant;

use openshell_policy::{Connection, Engine, Host, Policy, Request};

const ENDPOINTS: usize = 500;
const ROUNDS: usize = 101;
const DECISIONS: usize = 2_000;

/// 50 rules of ten endpoints: names and wildcards, rules and deny rules, programs by path and by pattern.
fn policy() -> Policy {
    let mut yaml = "version: 1\nnetwork_policies:\n".to_owned();
    for rule in 0..ENDPOINTS / 10 {
        writeln!(
            yaml,
            "  rule{rule}:\n    binaries: [/usr/bin/tool{rule}, \"/opt/{rule}/**\"]"
        )
        .unwrap();
        writeln!(yaml, "    endpoints:").unwrap();
        for endpoint in 0..10 {
            let wild = if endpoint % 5 == 0 { "*." } else { "" };
            writeln!(
                yaml,
                "      - host: \"{wild}h{endpoint}.r{rule}.example.com\"\n        ports: [443, 8443]\n        \
                 protocol: rest\n        enforcement: enforce\n        rules:\n          - allow: {{ method: GET, path: /v1/** }}\n          \
                 - allow: {{ method: POST, path: /v1/*/items }}\n        deny_rules:\n          - {{ path: /v1/secrets/** }}"
            )
            .unwrap();
        }
    }
    Policy::parse(&yaml).unwrap().policy
}

fn measure(name: &str, decide: impl Fn()) {
    let mut rounds: Vec<u128> = (0..ROUNDS)
        .map(|_| {
            let begun = Instant::now();
            for _ in 0..DECISIONS {
                decide();
            }
            begun.elapsed().as_nanos()
        })
        .collect();
    rounds.sort_unstable();
    println!("{name} {}", rounds[ROUNDS / 2] as f64 / DECISIONS as f64);
}

fn main() {
    let policy = policy();
    assert_eq!(
        policy
            .rules
            .values()
            .map(|r| r.endpoints.len())
            .sum::<usize>(),
        ENDPOINTS
    );
    let engine = Engine::new(&policy);
    let exact = Host::parse("h7.r31.example.com").unwrap();
    let wild = Host::parse("a.h5.r31.example.com").unwrap();
    let none = Host::parse("a.b.c.other.test").unwrap();
    let ask = |host, binary| {
        let asked = Connection {
            host,
            port: 443,
            binary,
            ancestors: &["/bin/bash", "/usr/bin/agent"],
        };
        engine.connection(black_box(asked))
    };
    measure("connection-exact", || {
        assert!(ask(&exact, "/usr/bin/tool31").is_ok())
    });
    measure("connection-wildcard", || {
        assert!(ask(&wild, "/opt/31/bin/x").is_ok())
    });
    measure("connection-denied", || {
        assert!(ask(&exact, "/usr/bin/other").is_err())
    });
    measure("connection-unknown", || {
        assert!(ask(&none, "/usr/bin/tool31").is_err())
    });
    measure("name", || {
        assert!(engine.resolves(black_box("h7.r31.example.com")))
    });
    let on = ask(&exact, "/usr/bin/tool31").unwrap();
    let request = |method, path| {
        on.request(black_box(Request {
            method,
            path,
            query: "a=b",
        }))
    };
    measure("request-allowed", || {
        assert!(request("GET", "/v1/a/b/c").passes)
    });
    measure("request-denied", || {
        assert!(!request("GET", "/v1/secrets/x").passes)
    });
}
