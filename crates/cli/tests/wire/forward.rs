//! Forwards: bytes both ways, half-closes, the background.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};

use openshell_proto::api::SandboxPhase as P;
use serde_json::Value;

use super::fake::Fake;
use super::run::{eventually, signal};

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port()
}

fn shout(port: u16) -> Option<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    stream.write_all(b"hello").ok()?;
    stream.shutdown(Shutdown::Write).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    Some(answer)
}

#[test]
fn a_forward_in_the_foreground_serves_until_it_is_interrupted() {
    let fake = Fake::start().with("demo", P::Ready);
    let port = free_port();
    let mut child = fake.spawn(&["forward", "start", &format!("{port}:80"), "demo"]);
    eventually("an answer", || shout(port).as_deref() == Some("HELLO"));
    let list: Value =
        serde_json::from_str(&fake.run(&["forward", "list", "-o", "json"]).stdout).unwrap();
    assert_eq!(list["forwards"][0]["alive"], true);
    signal(&child, "-INT");
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert_eq!(fake.run(&["forward", "list", "-o", "name"]).stdout, "");
}

#[test]
fn a_forward_in_the_background_is_listed_and_stopped() {
    let fake = Fake::start().with("demo", P::Ready);
    let port = free_port().to_string();
    let done = fake.run(&["forward", "start", &port, "demo", "-d"]);
    assert_eq!(
        (done.code, done.stdout.trim()),
        (0, port.as_str()),
        "{done:?}"
    );
    assert_eq!(shout(port.parse().unwrap()).as_deref(), Some("HELLO"));
    let list: Value =
        serde_json::from_str(&fake.run(&["forward", "list", "-o", "json"]).stdout).unwrap();
    let forward = &list["forwards"][0];
    assert_eq!(
        (&forward["sandbox"], &forward["alive"]),
        (&"demo".into(), &true.into())
    );

    assert_eq!(fake.run(&["forward", "stop", &port, "other"]).code, 3);
    let done = fake.run(&["forward", "stop", &port]);
    assert_eq!(done.code, 0, "{done:?}");
    assert_eq!(shout(port.parse().unwrap()), None);
    assert_eq!(fake.run(&["forward", "stop", &port]).code, 3);
}

#[test]
fn a_forward_that_cannot_be_says_why() {
    let fake = Fake::start()
        .with("demo", P::Ready)
        .with("still", P::Stopped);
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    for background in [&[][..], &["-d"]] {
        let mut line = vec!["forward", "start", port.as_str(), "demo"];
        line.extend(background);
        let done = fake.run(&line);
        assert_eq!(done.code, 1, "{done:?}");
        assert!(done.stderr.contains("in use"), "{done:?}");
    }
    assert_eq!(fake.run(&["forward", "start", "1", "still"]).code, 4);
    assert_eq!(fake.run(&["forward", "start", "1", "none"]).code, 3);
}
