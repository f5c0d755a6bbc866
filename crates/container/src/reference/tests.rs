//! References as people write them.

use super::*;

#[test]
fn a_registry_and_a_tag_are_found_or_added() {
    for (written, registry, complete) in [
        ("debian", Some("docker.io"), "debian:latest"),
        ("debian:12", Some("docker.io"), "debian:12"),
        ("me/tool", Some("docker.io"), "me/tool:latest"),
        ("ghcr.io/me/tool:1", Some("ghcr.io"), "ghcr.io/me/tool:1"),
        ("localhost/x", Some("localhost"), "localhost/x:latest"),
        (
            "localhost:5000/x",
            Some("localhost:5000"),
            "localhost:5000/x:latest",
        ),
        ("debian@sha256:ab", Some("docker.io"), "debian@sha256:ab"),
    ] {
        let read = Reference::parse(written).unwrap();
        assert_eq!(read.registry.as_deref(), registry, "{written}");
        assert_eq!(read.complete, complete, "{written}");
    }
    let id = format!("sha256:{}", "0a".repeat(32));
    assert_eq!(Reference::parse(&id).unwrap().registry, None);
}

#[test]
fn nothing_that_could_change_a_request_passes() {
    let long = "a".repeat(513);
    for written in [
        "", " ", "a b", "a?b", "a%2fb", "a#b", "../x", "a//b", "a/./b", "/a", "a/", "a\0b", "ä",
        "a\nb", &long,
    ] {
        let error = Reference::parse(written).unwrap_err();
        assert_eq!(error.kind, DriverErrorKind::Invalid, "{written:?}");
        assert!(error.message.len() < 400);
    }
}
