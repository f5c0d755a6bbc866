//! Bad input is an INVALID_ARGUMENT that names its field.

use super::*;
use tonic::Code;

fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs
        .iter()
        .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
        .collect()
}

fn refused(result: Result<(), Status>, field: &str) {
    let e = result.expect_err(field);
    assert_eq!(e.code(), Code::InvalidArgument);
    assert!(e.message().starts_with(field), "{} / {field}", e.message());
    assert!(!e.details().is_empty());
}

#[test]
fn labels_are_those_of_kubernetes() {
    labels(
        "labels",
        &map(&[("app", "web"), ("x.io/team", ""), ("A.b_c-d", "1.0")]),
    )
    .unwrap();
    for (k, v) in [
        ("", "v"),
        ("-a", "v"),
        ("a b", "v"),
        ("/a", "v"),
        ("UP.io/a", "v"),
        ("a/", "v"),
        ("a", "v v"),
        ("a", "-"),
        ("a", "\0"),
        ("ключ", "v"),
    ] {
        refused(labels("labels", &map(&[(k, v)])), "labels[");
    }
    refused(
        labels("labels", &map(&[("a", &"x".repeat(64))])),
        "labels[\"a\"]",
    );
    refused(
        labels("labels", &map(&[("a", &"x".repeat(10_000))])),
        "labels[\"a\"]",
    );
}

#[test]
fn five_hundred_labels_are_too_many() {
    let many = (0..500).map(|i| (format!("k{i}"), String::new())).collect();
    refused(labels("labels", &many), "labels: 500 pairs");
}

#[test]
fn an_environment_has_names_no_nul_and_an_end() {
    let ok = map(&[("PATH", "/bin"), ("_x", "ü\n"), ("a.b-c", "")]);
    environment("environment", &ok, KEPT).unwrap();
    for (k, v) in [("", "x"), ("1a", "x"), ("a=b", "x"), ("a", "x\0y")] {
        refused(
            environment("environment", &map(&[(k, v)]), KEPT),
            "environment[",
        );
    }
    let long = "x".repeat(40 << 10);
    refused(
        environment("environment", &map(&[("a", &long)]), KEPT),
        "environment[\"a\"]",
    );
    environment("environment", &map(&[("a", &long)]), ONCE).unwrap();
    let many = (0..20)
        .map(|i| (format!("k{i}"), "x".repeat(20 << 10)))
        .collect();
    refused(environment("environment", &many, KEPT), "environment: ");
}

#[test]
fn a_command_has_a_program_no_nul_and_an_end() {
    let argv = |s: &[&str]| s.iter().map(|a| (*a).to_owned()).collect::<Vec<_>>();
    command("command", &argv(&["sh", "-c", ""]), KEPT).unwrap();
    refused(command("command", &argv(&["", "x"]), KEPT), "command[0]");
    refused(command("command", &argv(&["a", "b\0"]), KEPT), "command[1]");
    refused(
        command("command", &vec!["x".to_owned(); 1025], KEPT),
        "command: 1025",
    );
    refused(
        command("command", &vec!["x".repeat(70_000); 2], KEPT),
        "command: ",
    );
    refused(
        command("command", &["x".repeat(128 << 10)], ONCE),
        "command[0]",
    );
}

#[test]
fn image_references_are_told_from_other_text() {
    let hex = "a".repeat(64);
    for ok in [
        "debian",
        "debian:12",
        "openshell-dev/busybox:1",
        "docker.io/library/debian:bookworm-slim",
        "localhost:5000/a/b_c:V1",
        "Registry.Example.com/x",
        &format!("debian@sha256:{hex}"),
        &format!("localhost/x:1@sha256:{hex}"),
        &format!("sha256:{hex}"),
    ] {
        image("image", ok).unwrap_or_else(|e| panic!("{ok}: {e}"));
    }
    for bad in [
        "",
        "Debian",
        "a b",
        "a:",
        "a:b:c",
        ":1",
        "/a",
        "a/",
        "a//b",
        "a@sha256:12",
        "sha256:12",
        "a\0",
        "-a",
        "http://x/y",
        "x:70000/y/Z",
    ] {
        refused(image("image", bad), "image");
    }
    refused(image("image", &"a".repeat(600)), "image");
}

#[test]
fn a_relative_working_directory_lies_in_the_workspace() {
    assert_eq!(workdir("workdir", String::new()).unwrap(), "");
    assert_eq!(workdir("workdir", "/tmp".into()).unwrap(), "/tmp");
    assert_eq!(workdir("workdir", "src".into()).unwrap(), "/sandbox/src");
    assert!(workdir("workdir", "a\0".into()).is_err());
    assert!(workdir("workdir", "a".repeat(5000)).is_err());
}
