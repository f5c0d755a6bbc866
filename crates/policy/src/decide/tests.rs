//! Tests of decisions: cases here, laws in [`laws`].

mod laws;

use super::*;
use crate::{Policy, Refusal};

fn engine(yaml: &str) -> Engine {
    Engine::new(&Policy::parse(yaml).unwrap_or_else(|p| panic!("{p}")).policy)
}

fn open<'e>(
    engine: &'e Engine,
    host: &str,
    port: u16,
    binary: &str,
) -> Result<Admitted<'e>, Missing> {
    engine.connection(Connection {
        host: &Host::parse(host).unwrap(),
        port,
        binary,
        ancestors: &[],
    })
}

fn asks<'e>(on: &Admitted<'e>, line: &str) -> Verdict<'e> {
    let (method, target) = line.split_once(' ').unwrap();
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    on.request(Request {
        method,
        path,
        query,
    })
}

const SOME: &str = r#"
version: 1
network_policies:
  api:
    endpoints:
      - host: api.example.com
        ports: [443, 8443]
        protocol: rest
        enforcement: enforce
        rules:
          - allow: { method: GET, path: /v1/** }
          - allow: { method: POST, path: /v1/items, query: { kind: { any: [a, "b*"] } } }
        deny_rules:
          - { method: GET, path: /v1/secrets/** }
          - { path: "/**", query: { debug: "**" } }
    binaries: [/usr/bin/curl, "/opt/tools/**"]
  any:
    endpoints:
      - { host: "*.wild.example.com", port: 443 }
      - { host: "**.deep.example.com", port: 443, protocol: tcp }
      - { ports: [5432], allowed_ips: [10.1.0.0/16], protocol: tcp }
      - { host: watched.example.com, port: 443, protocol: rest, access: read-only }
      - { host: chat.example.com, port: 443, protocol: websocket, enforcement: enforce, access: read-only }
      - { host: host.openshell.internal, port: 80 }
      - { host: scoped.example.com, port: 443, protocol: rest, enforcement: enforce, access: full, path: /only/** }
    binaries: [/bin/any]
"#;

#[test]
fn a_connection_needs_a_host_a_port_and_a_program() {
    let engine = engine(SOME);
    for (host, port, binary, opens) in [
        ("api.example.com", 443, "/usr/bin/curl", true),
        ("API.example.com.", 8443, "/usr/bin/curl", true),
        ("api.example.com", 443, "/opt/tools/a/b", true),
        ("api.example.com", 80, "/usr/bin/curl", false),
        ("api.example.com", 443, "/usr/bin/wget", false),
        ("x.api.example.com", 443, "/usr/bin/curl", false),
        ("a.wild.example.com", 443, "/bin/any", true),
        ("wild.example.com", 443, "/bin/any", false),
        ("a.b.wild.example.com", 443, "/bin/any", false),
        ("a.b.deep.example.com", 443, "/bin/any", true),
        ("deep.example.com", 443, "/bin/any", false),
        ("10.1.2.3", 5432, "/bin/any", true),
        ("10.2.0.1", 5432, "/bin/any", false),
        ("db.example.com", 5432, "/bin/any", false),
    ] {
        assert_eq!(
            open(&engine, host, port, binary).is_ok(),
            opens,
            "{host}:{port} {binary}"
        );
    }
}

#[test]
fn a_program_is_covered_by_one_that_started_it() {
    let engine = engine(SOME);
    let host = Host::parse("api.example.com").unwrap();
    let asked = Connection {
        host: &host,
        port: 443,
        binary: "/bin/sh",
        ancestors: &["/bin/bash", "/usr/bin/curl"],
    };
    assert!(engine.connection(asked).is_ok());
    assert!(
        engine
            .connection(Connection {
                ancestors: &[],
                ..asked
            })
            .is_err()
    );
}

#[test]
fn only_names_that_a_rule_is_about_exist() {
    let engine = engine(SOME);
    for (name, there) in [
        ("api.example.com", true),
        ("Api.Example.Com.", true),
        ("a.wild.example.com", true),
        ("example.com", false),
        ("10.1.2.3", false),
        ("", false),
        ("a..b", false),
    ] {
        assert_eq!(engine.resolves(name), there, "{name}");
    }
}

#[test]
fn what_is_missing_is_named_and_what_to_propose() {
    let engine = engine(SOME);
    let said = |host, port, binary| open(&engine, host, port, binary).unwrap_err();
    assert_eq!(
        said("no.example.com", 443, "/bin/a").to_string(),
        "no network policy allows no.example.com:443"
    );
    assert_eq!(
        said("api.example.com", 80, "/bin/a").to_string(),
        "no network policy allows api.example.com:80: rule `api` is about other ports of it"
    );
    let other = said("api.example.com", 443, "/bin/a");
    assert_eq!(
        other.to_string(),
        "no network policy allows api.example.com:443 for /bin/a: rule `api` is about other programs"
    );
    assert_eq!(
        said("2001:db8::1", 80, "/a").to_string(),
        "no network policy allows [2001:db8::1]:80"
    );
}

#[test]
fn a_proposal_is_a_policy_that_allows_it_and_nothing_breaks_out_of_it() {
    let engine = engine("version: 1\n");
    for binary in ["/bin/a", "/bin/\"a\": b", "/bin/a b#c"] {
        let proposal = open(&engine, "api.example.com", 443, binary)
            .unwrap_err()
            .proposal();
        let policy = Policy::parse(&format!("version: 1\n{proposal}"))
            .unwrap_or_else(|p| panic!("{p}\n{proposal}"));
        assert_eq!(policy.policy.rules.len(), 1);
        assert!(
            open(&Engine::new(&policy.policy), "api.example.com", 443, binary).is_ok(),
            "{proposal}"
        );
    }
}

#[test]
fn a_request_needs_a_rule_that_allows_it_and_none_that_denies_it() {
    let engine = engine(SOME);
    let on = open(&engine, "api.example.com", 443, "/usr/bin/curl").unwrap();
    for (line, passes) in [
        ("GET /v1/items", true),
        ("GET /v1", false),
        ("GET /v2/items", false),
        ("get /v1/items", false),
        ("HEAD /v1/items", false),
        ("POST /v1/items?kind=a", true),
        ("POST /v1/items?kind=bcd&x=y", true),
        ("POST /v1/items?kind=%61", true),
        ("POST /v1/items", false),
        ("POST /v1/items?kind=c", false),
        ("POST /v1/items?kind=a&kind=c", false),
        ("GET /v1/secrets/x", false),
        ("GET /v1//secrets/x", false),
        ("GET /v1/%73ecrets/x", false),
        ("GET /v1/a/../secrets/x", false),
        ("GET /v1/items?debug", false),
        ("GET /v1/items?a=b;debug=1", false),
        ("GET /v1/a%2Fb", false),
    ] {
        assert_eq!(asks(&on, line).passes, passes, "{line}");
    }
    assert_eq!(
        asks(&on, "GET /v1/secrets/x").cause,
        Cause::Denied { rule: "api" }
    );
    assert_eq!(asks(&on, "PUT /v1/x").cause, Cause::NoRule { rule: "api" });
    assert_eq!(asks(&on, "GET /v1/x").cause, Cause::Allowed { rule: "api" });
}

#[test]
fn what_is_only_watched_passes_and_is_told_from_what_is_allowed() {
    let engine = engine(SOME);
    let on = open(&engine, "watched.example.com", 443, "/bin/any").unwrap();
    let verdict = asks(&on, "DELETE /x");
    assert!(verdict.passes && !verdict.allowed());
    assert!(asks(&on, "GET /x").allowed());
}

#[test]
fn a_websocket_that_may_be_read_may_not_be_written() {
    let engine = engine(SOME);
    let on = open(&engine, "chat.example.com", 443, "/bin/any").unwrap();
    assert!(asks(&on, "GET /").passes);
    assert!(!asks(&on, "WEBSOCKET_TEXT /").passes);
}

#[test]
fn an_endpoint_with_a_path_is_about_such_requests_only() {
    let engine = engine(SOME);
    let on = open(&engine, "scoped.example.com", 443, "/bin/any").unwrap();
    assert!(asks(&on, "DELETE /only/this").passes);
    assert!(!asks(&on, "GET /other").passes);
}

#[test]
fn a_connection_is_inspected_if_any_endpoint_inspects() {
    let engine = engine(SOME);
    let how = |host| open(&engine, host, 443, "/bin/any").unwrap().inspection();
    assert_eq!(how("a.wild.example.com"), Inspection::IfHttp);
    assert_eq!(how("a.deep.example.com"), Inspection::None);
    assert_eq!(how("watched.example.com"), Inspection::Requests);
    let on = open(&engine, "a.wild.example.com", 443, "/bin/any").unwrap();
    assert!(
        asks(&on, "PUT /a%2Fb/../c").passes,
        "nothing is held against rules there"
    );
}

#[test]
fn an_address_needs_the_leave_of_an_endpoint() {
    let engine = engine(SOME);
    let address = |host, port, ip: &str| {
        open(&engine, host, port, "/bin/any")
            .unwrap()
            .address(ip.parse().unwrap())
    };
    assert_eq!(address("watched.example.com", 443, "10.0.0.1"), Ok(()));
    assert!(matches!(
        address("a.wild.example.com", 443, "10.0.0.1"),
        Err(Refusal::Private(_))
    ));
    assert_eq!(address("a.wild.example.com", 443, "8.8.8.8"), Ok(()));
    assert!(matches!(
        address("watched.example.com", 443, "127.0.0.1"),
        Err(Refusal::Never(..))
    ));
    assert_eq!(address("host.openshell.internal", 80, "127.0.0.1"), Ok(()));
    assert!(matches!(
        address("10.1.2.3", 5432, "10.2.0.1"),
        Err(Refusal::NotAllowed(_))
    ));
}
