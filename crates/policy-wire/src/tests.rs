//! Tests of the way to the wire and back.

use std::path::Path;

use openshell_policy::Policy;
use openshell_proto::policy as wire;

use super::*;

#[test]
fn the_published_examples_are_the_same_after_the_wire() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../config/policies");
    for entry in std::fs::read_dir(directory).unwrap() {
        let text = std::fs::read_to_string(entry.unwrap().path()).unwrap();
        let policy = Policy::parse(&text).unwrap().policy;
        let again = from_wire(&to_wire(&policy)).unwrap().policy;
        assert_eq!(again, policy);
        assert_eq!(again.hash(), policy.hash());
    }
}

#[test]
fn an_empty_message_is_an_empty_policy() {
    let policy = from_wire(&wire::SandboxPolicy::default()).unwrap().policy;
    assert_eq!(policy, Policy::default());
}

fn with(change: impl FnOnce(&mut wire::NetworkEndpoint)) -> wire::SandboxPolicy {
    let mut endpoint = wire::NetworkEndpoint {
        host: "a.example.com".to_owned(),
        port: 443,
        ports: vec![443],
        ..wire::NetworkEndpoint::default()
    };
    change(&mut endpoint);
    let rule = wire::NetworkPolicyRule {
        endpoints: vec![endpoint],
        ..wire::NetworkPolicyRule::default()
    };
    wire::SandboxPolicy {
        version: 1,
        network_policies: [("a".to_owned(), rule)].into(),
        ..wire::SandboxPolicy::default()
    }
}

#[test]
fn a_message_passes_the_checks_of_a_file() {
    assert!(from_wire(&with(|_| {})).is_ok());
    assert!(from_wire(&with(|e| e.host = "*.com".to_owned())).is_err());
    assert!(from_wire(&with(|e| e.port = 80)).is_err());
    assert!(from_wire(&with(|e| e.ports = vec![70_000])).is_err());
    assert!(from_wire(&with(|e| e.tls = 17)).is_err());
    assert!(from_wire(&with(|e| e.enforcement = -1)).is_err());
    assert!(from_wire(&with(|e| e.access = 99)).is_err());
    assert!(from_wire(&with(|e| e.rules = vec![wire::L7Rule { allow: None }])).is_err());
    let version = wire::SandboxPolicy {
        version: 2,
        ..wire::SandboxPolicy::default()
    };
    assert!(from_wire(&version).is_err());
}

#[test]
fn what_is_not_enforced_yet_is_refused_by_its_name() {
    type Change = fn(&mut wire::NetworkEndpoint);
    let cases: [(&str, Change); 8] = [
        ("mcp", |e| e.mcp = Some(wire::McpOptions::default())),
        ("credential_binding", |e| {
            e.credential_binding = Some(wire::NetworkCredentialBinding::default());
        }),
        ("credential_signing", |e| {
            e.credential_signing = "sigv4".to_owned()
        }),
        ("websocket_credential_rewrite", |e| {
            e.websocket_credential_rewrite = true
        }),
        ("json_rpc", |e| e.json_rpc_max_body_bytes = 1),
        ("provider_credentialed", |e| e.provider_credentialed = true),
        ("token_grant_owner", |e| {
            e.token_grant_owner = "x".to_owned()
        }),
        ("graphql", |e| e.protocol = "graphql".to_owned()),
    ];
    for (name, change) in cases {
        let problems = from_wire(&with(change)).unwrap_err();
        assert!(problems.to_string().contains(name), "{problems}");
    }
    let middlewares = wire::SandboxPolicy {
        network_middlewares: [("a".to_owned(), wire::NetworkMiddlewareConfig::default())].into(),
        ..wire::SandboxPolicy::default()
    };
    let problems = from_wire(&middlewares).unwrap_err();
    assert!(
        problems.to_string().contains("not supported yet"),
        "{problems}"
    );
}
