//! The doctor finds each of: engine down, wrong permissions, expired certificate, port in use.

use std::io::{Read, Write};
use std::os::unix::net::UnixListener;

use super::*;
use crate::certs::Validity;

#[test]
fn a_missing_engine_is_found_with_its_fix() {
    let dir = tempfile::tempdir().unwrap();
    let check = engine::at(&engine::DOCKER, &dir.path().join("docker.sock"));
    assert_eq!(check.status, Verdict::Failed);
    assert!(check.fix.contains("install"), "{check:?}");
}

#[test]
fn an_engine_that_is_down_is_found_with_its_fix() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("docker.sock");
    drop(UnixListener::bind(&path).unwrap());
    let check = engine::at(&engine::DOCKER, &path);
    assert_eq!(check.status, Verdict::Failed);
    assert!(check.message.contains("down"), "{check:?}");
}

fn engine_that_says(answer: &'static str) -> Check {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("docker.sock");
    let listener = UnixListener::bind(&path).unwrap();
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut request = [0; 1024];
        let _ = stream.read(&mut request).unwrap();
        stream.write_all(answer.as_bytes()).unwrap();
    });
    let check = engine::at(&engine::DOCKER, &path);
    server.join().unwrap();
    check
}

#[test]
fn an_engine_that_is_new_enough_is_well_and_an_old_one_is_not() {
    let check = engine_that_says(
        "HTTP/1.0 200 OK\r\n\r\n{\"Version\":\"20.10.24\",\"ApiVersion\":\"1.41\"}",
    );
    assert_eq!(check.status, Verdict::Ok, "{check:?}");
    let check =
        engine_that_says("HTTP/1.0 200 OK\r\n\r\n{\"Version\":\"19.03\",\"ApiVersion\":\"1.40\"}");
    assert!(check.fix.contains("upgrade"), "{check:?}");
    let check = engine_that_says("220 smtp\r\n");
    assert!(check.message.contains("no engine"), "{check:?}");
}

#[test]
fn the_other_engine_at_a_socket_is_told_by_its_own_word() {
    let check = engine_that_says(
        "HTTP/1.0 200 OK\r\n\r\n{\"Version\":\"4.3.1\",\"ApiVersion\":\"1.41\",\"Components\":[{\"Name\":\"Podman Engine\"}]}",
    );
    assert_eq!(check.status, Verdict::Failed, "{check:?}");
    assert!(check.message.contains("Podman 4.3.1"), "{check:?}");
    assert!(
        check.fix.contains("compute_driver = \"podman\""),
        "{check:?}"
    );
}

#[test]
fn one_engine_is_enough_and_none_is_told_of_both() {
    let nowhere = std::path::Path::new("/nowhere/engine.sock");
    let absent = |kind| engine::at(kind, nowhere);
    let well = || Check::ok(engine::PODMAN.name, "answers");
    let one = engine::enough((well(), false), (absent(&engine::DOCKER), false));
    assert_eq!(one, [well()]);
    // One that somebody named is spoken of, and breaks nothing.
    let named = engine::enough((well(), false), (absent(&engine::DOCKER), true));
    assert_eq!(named[1].status, Verdict::Warning);
    let none = engine::enough(
        (absent(&engine::PODMAN), false),
        (absent(&engine::DOCKER), false),
    );
    assert!(none.len() == 2 && none.iter().all(|c| c.status == Verdict::Failed));
}

#[test]
fn an_expired_certificate_is_found_with_its_fix() {
    let time = |s: &str| s.parse().unwrap();
    let validity = Validity {
        from: time("2025-01-01T00:00:00Z"),
        until: time("2026-01-01T00:00:00Z"),
    };
    let at = |now: &str| certificates::judge("tls.crt", validity, time(now)).status;
    assert_eq!(at("2025-06-01T00:00:00Z"), Verdict::Ok);
    assert_eq!(at("2025-12-30T00:00:00Z"), Verdict::Warning);
    assert_eq!(at("2026-01-02T00:00:00Z"), Verdict::Failed);
    assert_eq!(at("2024-01-02T00:00:00Z"), Verdict::Failed);
}

#[test]
fn a_port_in_use_is_found_with_the_program_that_holds_it() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let number = listener.local_addr().unwrap().port();
    let holder = port::holder(number).unwrap();
    assert!(
        holder.label.contains(&std::process::id().to_string()),
        "{holder:?}"
    );
    drop(listener);
    assert_eq!(port::holder(number), None);
}

#[test]
fn only_sockets_that_listen_count() {
    let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n   \
        0: 0100007F:4506 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4711 1 0\n   \
        1: 0100007F:4506 0100007F:1234 01 00000000:00000000 00:00000000 00000000     0        0 4712 1 0\n";
    assert_eq!(port::listening(table, 0x4506), [4711]);
    assert!(port::listening(table, 0x1234).is_empty());
}

#[test]
fn the_kernel_is_judged_by_what_it_offers() {
    assert_eq!(
        kernel::landlock("6.8.0-31", Some("lockdown,landlock,yama")).status,
        Verdict::Ok
    );
    assert_eq!(
        kernel::landlock("6.8.0", Some("lockdown,yama")).status,
        Verdict::Failed
    );
    assert_eq!(
        kernel::landlock("5.15.0", Some("landlock")).status,
        Verdict::Warning
    );
    assert_eq!(
        kernel::seccomp(Some("kill trap user_notif allow")).status,
        Verdict::Ok
    );
    assert_eq!(kernel::seccomp(Some("kill trap")).status, Verdict::Failed);
}

#[test]
fn what_the_gateway_says_of_its_engine_outranks_our_own_view() {
    let mut checks = [
        Check::failed(engine::DOCKER.name, "this user may not use it", "…"),
        Check::ok(gateway::ENGINE, "answers"),
    ];
    defer_to_gateway(&mut checks);
    assert_eq!(checks[0].status, Verdict::Warning);
}
