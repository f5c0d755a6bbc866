//! The laws of decisions, over policies and questions made at random from few words, so that they meet.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use crate::model::{Access, Endpoint, Enforcement, Preset, Protocol, RequestPattern, Rule};
use crate::{Connection, Engine, Glob, Host, HostPattern, Method, Policy, Request};

fn pattern() -> impl Strategy<Value = RequestPattern> {
    let method = prop_oneof![Just("*"), Just("GET"), Just("POST")];
    let path = proptest::option::of(prop_oneof![
        Just("/a/**"),
        Just("/a/*"),
        Just("/b"),
        Just("/*/b")
    ]);
    let query = proptest::option::of(prop_oneof![Just("x"), Just("*")]);
    (method, path, query).prop_map(|(method, path, query)| RequestPattern {
        method: Method::parse(method).unwrap(),
        path: path.map(|path| Glob::path(path).unwrap()),
        query: query
            .map(|value| {
                (
                    "q".to_owned(),
                    BTreeSet::from([Glob::dotted(value).unwrap()]),
                )
            })
            .into_iter()
            .collect(),
    })
}

fn patterns() -> impl Strategy<Value = Vec<RequestPattern>> {
    proptest::collection::vec(pattern(), 0..3)
}

fn access() -> impl Strategy<Value = (Protocol, Access)> {
    let preset = prop_oneof![
        Just(Preset::ReadOnly),
        Just(Preset::ReadWrite),
        Just(Preset::Full)
    ];
    let preset = preset.prop_map(|preset| (Protocol::Rest, Access::Preset(preset)));
    prop_oneof![
        1 => Just((Protocol::Unsaid, Access::Unruled)),
        1 => Just((Protocol::Tcp, Access::Unruled)),
        2 => preset,
        4 => patterns().prop_map(|rules| (Protocol::Rest, Access::Rules(rules))),
    ]
}

fn endpoint() -> impl Strategy<Value = Endpoint> {
    let host = prop_oneof![
        Just("h.example.com"),
        Just("*.example.com"),
        Just("**.example.com"),
        Just("k.example.com")
    ];
    let ports = proptest::collection::btree_set(1_u16..4, 1..3);
    (host, ports, access(), patterns(), any::<bool>()).prop_map(
        |(host, ports, (protocol, access), deny, enforce)| Endpoint {
            host: Some(HostPattern::parse(host).unwrap()),
            ports,
            path: None,
            allowed_ips: Vec::new(),
            protocol,
            tls_skip: false,
            enforcement: if enforce {
                Enforcement::Enforce
            } else {
                Enforcement::Audit
            },
            access,
            deny: if protocol.has_rules() {
                deny
            } else {
                Vec::new()
            },
            allow_encoded_slash: false,
        },
    )
}

fn rule() -> impl Strategy<Value = Rule> {
    let binaries =
        proptest::collection::btree_set(prop_oneof![Just("/a"), Just("/b"), Just("/**")], 0..3);
    (proptest::collection::vec(endpoint(), 0..4), binaries).prop_map(|(endpoints, binaries)| Rule {
        name: "rule".to_owned(),
        endpoints,
        binaries: binaries
            .into_iter()
            .map(|b| Glob::path(b).unwrap())
            .collect(),
    })
}

fn policy() -> impl Strategy<Value = Policy> {
    proptest::collection::btree_map("[a-d]", rule(), 0..4).prop_map(|rules| Policy {
        rules,
        ..Policy::default()
    })
}

#[derive(Clone, Debug)]
struct Question {
    host: &'static str,
    port: u16,
    binary: &'static str,
    method: &'static str,
    path: &'static str,
    query: &'static str,
}

fn question() -> impl Strategy<Value = Question> {
    let host = prop_oneof![
        Just("h.example.com"),
        Just("k.example.com"),
        Just("x.h.example.com")
    ];
    let binary = prop_oneof![Just("/a"), Just("/b"), Just("/c")];
    let method = prop_oneof![Just("GET"), Just("POST"), Just("DELETE"), Just("get")];
    let path = prop_oneof![
        Just("/a"),
        Just("/a/b"),
        Just("/b"),
        Just("/a/b/c"),
        Just("/a/../b")
    ];
    let query = prop_oneof![Just(""), Just("q=x"), Just("q=a.b")];
    (host, 1_u16..4, binary, method, path, query).prop_map(
        |(host, port, binary, method, path, query)| Question {
            host,
            port,
            binary,
            method,
            path,
            query,
        },
    )
}

/// Whether it opens, whether a rule allows the request, whether it passes.
fn answer(policy: &Policy, q: &Question) -> Option<(bool, bool)> {
    let engine = Engine::new(policy);
    let host = Host::parse(q.host).unwrap();
    let asked = Connection {
        host: &host,
        port: q.port,
        binary: q.binary,
        ancestors: &[],
    };
    let on = engine.connection(asked).ok()?;
    let verdict = on.request(Request {
        method: q.method,
        path: q.path,
        query: q.query,
    });
    Some((verdict.allowed(), verdict.passes))
}

/// The same request with every endpoint inspected, so that one rule more cannot turn inspection on.
fn inspected(mut policy: Policy) -> Policy {
    for endpoint in policy
        .rules
        .values_mut()
        .flat_map(|rule| &mut rule.endpoints)
    {
        endpoint.enforcement = Enforcement::Enforce;
        if !endpoint.protocol.has_rules() {
            endpoint.protocol = Protocol::Rest;
            endpoint.access = Access::Preset(Preset::Full);
        }
    }
    policy
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn deny_beats_allow(policy in policy(), q in question()) {
        let mut denied = inspected(policy);
        let everything = RequestPattern {
            method: Method::Any,
            path: None,
            query: BTreeMap::new(),
        };
        for endpoint in denied.rules.values_mut().flat_map(|rule| &mut rule.endpoints) {
            endpoint.deny.push(everything.clone());
        }
        prop_assert!(answer(&denied, &q).is_none_or(|(allowed, passes)| !allowed && !passes));
    }

    #[test]
    fn a_deny_rule_more_never_allows_more(policy in policy(), deny in pattern(), q in question()) {
        let before = inspected(policy);
        let mut after = before.clone();
        if let Some(endpoint) = after.rules.values_mut().flat_map(|rule| &mut rule.endpoints).next() {
            endpoint.deny.push(deny);
        }
        if let (Some((before, _)), Some((after, _))) = (answer(&before, &q), answer(&after, &q)) {
            prop_assert!(before || !after);
        }
    }

    #[test]
    fn order_does_not_matter(policy in policy(), q in question()) {
        let mut turned = policy.clone();
        for rule in turned.rules.values_mut() {
            rule.endpoints.reverse();
            for endpoint in &mut rule.endpoints {
                endpoint.deny.reverse();
                if let Access::Rules(rules) = &mut endpoint.access {
                    rules.reverse();
                }
            }
        }
        prop_assert_eq!(answer(&policy, &q), answer(&turned, &q));
        prop_assert_eq!(policy.hash(), turned.hash());
    }

    #[test]
    fn the_name_of_a_rule_does_not_matter(policy in policy(), q in question()) {
        let mut renamed = policy.clone();
        renamed.rules = policy.rules.iter().map(|(key, rule)| (format!("{}x", (b'z' - key.as_bytes()[0]) as char), rule.clone())).collect();
        prop_assume!(renamed.rules.len() == policy.rules.len());
        prop_assert_eq!(answer(&policy, &q), answer(&renamed, &q));
    }

    #[test]
    fn rules_are_united(one in policy(), two in policy(), q in question()) {
        let (one, two) = (inspected(one), inspected(two));
        let mut both = one.clone();
        both.rules.extend(two.rules.iter().map(|(key, rule)| (format!("other-{key}"), rule.clone())));
        let (a, b, c) = (answer(&one, &q), answer(&two, &q), answer(&both, &q));
        prop_assert_eq!(a.is_some() || b.is_some(), c.is_some());
        // Without what denies, the union allows exactly what either allows.
        let free = |mut policy: Policy| {
            for endpoint in policy.rules.values_mut().flat_map(|rule| &mut rule.endpoints) {
                endpoint.deny.clear();
            }
            policy
        };
        let allowed = |policy: Policy| answer(&free(policy), &q).is_some_and(|(allowed, _)| allowed);
        prop_assert_eq!(allowed(one) || allowed(two), allowed(both));
    }

    #[test]
    fn a_preset_is_its_expansion(policy in policy(), q in question()) {
        let mut expanded = policy.clone();
        for endpoint in expanded.rules.values_mut().flat_map(|rule| &mut rule.endpoints) {
            if let Access::Preset(preset) = endpoint.access {
                endpoint.access = Access::Rules(preset.expand(endpoint.protocol));
            }
        }
        prop_assert_eq!(answer(&policy, &q), answer(&expanded, &q));
    }

    #[test]
    fn what_a_rule_allows_passes(policy in policy(), q in question()) {
        prop_assert!(answer(&policy, &q).is_none_or(|(allowed, passes)| passes || !allowed));
    }

    #[test]
    fn no_question_makes_an_engine_panic(
        policy in policy(), host in ".{0,30}", binary in ".{0,20}", method in ".{0,10}", path in ".{0,30}", query in ".{0,30}"
    ) {
        let engine = Engine::new(&policy);
        let _ = engine.resolves(&host);
        let host = Host::parse("h.example.com").unwrap();
        for binary in [binary.as_str(), "/a"] {
            let asked = Connection { host: &host, port: 1, binary, ancestors: &[&path] };
            match engine.connection(asked) {
                Ok(on) => drop(on.request(Request { method: &method, path: &path, query: &query })),
                Err(missing) => drop((missing.to_string(), missing.proposal().to_string())),
            }
        }
    }
}
