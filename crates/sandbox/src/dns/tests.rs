//! Queries and answers.

use super::wire::{A, AAAA, answer, parse};
use super::*;

fn query(name: &str, record_type: u16) -> Vec<u8> {
    let mut bytes = vec![0xab, 0xcd, 0x01, 0x00, 0, 1, 0, 0, 0, 0, 0, 0];
    for label in name.split('.') {
        bytes.push(u8::try_from(label.len()).unwrap());
        bytes.extend(label.as_bytes());
    }
    bytes.push(0);
    bytes.extend(record_type.to_be_bytes());
    bytes.extend(1u16.to_be_bytes());
    bytes
}

#[test]
fn an_unknown_name_is_answered_with_its_own_question() {
    let query = query("Api.Example", A);
    let question = parse(&query).unwrap().unwrap();
    assert_eq!(question.name, "api.example");
    let reply = answer(&query, Some(&question), Code::NoSuchName, &[], 0);
    assert_eq!(reply[..2], [0xab, 0xcd]);
    assert_eq!(reply[2..4], [0x81, 0x83]);
    assert_eq!(reply[4..12], [0, 1, 0, 0, 0, 0, 0, 0]);
    assert_eq!(reply[12..], query[12..]);
}

#[test]
fn only_addresses_of_the_asked_kind_are_given() {
    let both = [
        "198.18.0.1".parse().unwrap(),
        "2001:db8::1".parse().unwrap(),
    ];
    for (kind, length) in [(A, 4), (AAAA, 16)] {
        let query = query("a.b", kind);
        let question = parse(&query).unwrap().unwrap();
        let reply = answer(&query, Some(&question), Code::Ok, &both, 7);
        assert_eq!(reply[7], 1);
        assert_eq!(reply.len(), query.len() + 12 + length);
    }
}

#[test]
fn what_is_no_query_is_not_answered_and_what_is_malformed_is_said_to_be() {
    let good = query("a.b", A);
    let mut reply = good.clone();
    reply[2] |= 0x80;
    assert!(parse(&reply).is_none());
    assert!(parse(&good[..11]).is_none());
    for cut in 12..good.len() {
        assert_eq!(parse(&good[..cut]), Some(Err(Code::Malformed)), "{cut}");
    }
    let mut pointer = good.clone();
    pointer[12] = 0xc0;
    assert_eq!(parse(&pointer), Some(Err(Code::Malformed)));
    let mut two = good;
    two[5] = 2;
    assert_eq!(parse(&two), Some(Err(Code::Malformed)));
}
