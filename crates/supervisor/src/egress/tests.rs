//! What is denied, and what is said about it.

use std::time::Duration;

use openshell_proto::link::{EgressRequest, NameQuestion};
use tokio::time::Instant;

use super::Egress;

fn request(pid: i32, address: &str, port: u32) -> EgressRequest {
    EgressRequest {
        id: 7,
        pid,
        binary: "/usr/bin/curl".to_owned(),
        transport: "tcp".to_owned(),
        address: address.to_owned(),
        port,
        ..EgressRequest::default()
    }
}

#[test]
fn every_connection_is_denied_with_the_rule_that_is_missing() {
    let mut egress = Egress::default();
    let (decision, line) = egress.connection(&request(64, "10.0.0.1", 443), Instant::now());
    assert_eq!(decision.id, 7);
    assert!(!decision.allowed);
    assert_eq!(decision.reason, "no network policy allows 10.0.0.1:443");
    let line = line.unwrap();
    assert_eq!(
        line.message,
        "NET:OPEN [MED] DENIED /usr/bin/curl(64) -> 10.0.0.1:443 [no network policy allows it]"
    );
    assert_eq!(
        (line.level.as_str(), line.target.as_str()),
        ("warn", "egress")
    );
    assert_eq!(line.fields["binary"], "/usr/bin/curl");
    assert_eq!(line.fields["pid"], "64");
    assert_eq!(line.fields["destination"], "10.0.0.1:443");
    assert_eq!(line.fields["reason"], decision.reason);
}

#[test]
fn an_ipv6_destination_is_written_in_brackets() {
    let (decision, _) =
        Egress::default().connection(&request(1, "2001:db8::1", 80), Instant::now());
    assert_eq!(decision.reason, "no network policy allows [2001:db8::1]:80");
}

#[test]
fn no_name_exists_and_the_question_is_logged() {
    let question = NameQuestion {
        id: 3,
        name: "example.com.".to_owned(),
        record_type: 1,
    };
    let (answer, line) = Egress::default().name(&question, Instant::now());
    assert_eq!((answer.id, answer.addresses.len()), (3, 0));
    assert_eq!(
        line.unwrap().message,
        "NET:RESOLVE [MED] DENIED example.com [no network policy names it]"
    );
}

#[test]
fn repeats_are_counted_and_told_once_in_a_window() {
    let mut egress = Egress::default();
    let start = Instant::now();
    assert!(
        egress
            .connection(&request(64, "10.0.0.1", 443), start)
            .1
            .is_some()
    );
    for pid in 65..165 {
        let (decision, line) = egress.connection(&request(pid, "10.0.0.1", 443), start);
        assert!(!decision.allowed && line.is_none());
    }
    let due = egress.due().unwrap();
    assert!(egress.flush(start).is_empty());
    let lines = egress.flush(due);
    assert_eq!(lines.len(), 1);
    assert_eq!(
        lines[0].message,
        "NET:OPEN [MED] DENIED /usr/bin/curl(164) -> 10.0.0.1:443 [no network policy allows it, 100 more in 10 s]"
    );
    assert!(egress.flush(due + Duration::from_secs(60)).is_empty());
    assert_eq!(egress.due(), None, "a quiet kind is forgotten");
    assert!(
        egress
            .connection(&request(64, "10.0.0.1", 443), due)
            .1
            .is_some()
    );
}

#[test]
fn a_scan_of_all_ports_leaves_a_bounded_log() {
    let mut egress = Egress::default();
    let start = Instant::now();
    let lines = (1..=65_535)
        .filter_map(|port| egress.connection(&request(1, "10.0.0.1", port), start).1)
        .count();
    let later = egress.flush(start + Duration::from_secs(11));
    assert!(lines <= 128);
    assert_eq!(later.len(), 1);
    assert!(
        later[0].message.contains("65407 more"),
        "{}",
        later[0].message
    );
}
