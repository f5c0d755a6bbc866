//! Without a gateway.

use std::time::{Duration, Instant};

use serde_json::Value;

use super::run::{command, done};

#[test]
fn a_gateway_that_is_not_there_is_5_with_what_to_do() {
    let dir = tempfile::tempdir().unwrap();
    let mut run = command(
        dir.path(),
        &[
            "sandbox",
            "list",
            "--gateway-endpoint",
            "http://127.0.0.1:1",
        ],
    );
    let done = done(run.output().unwrap());
    assert_eq!((done.code, done.stdout.as_str()), (5, ""));
    insta::assert_snapshot!(done.stderr.trim_end(), @r"
    error: the gateway at http://127.0.0.1:1 cannot be reached
      why: nothing listens there
     hint: start the gateway (`openshell-gateway`), or run `openshell doctor`
    ");
}

#[test]
fn without_a_registered_gateway_it_says_how_to_get_one() {
    let dir = tempfile::tempdir().unwrap();
    let done = done(command(dir.path(), &["status"]).output().unwrap());
    assert_eq!(done.code, 5, "{done:?}");
    assert!(done.stderr.contains("gateway add"));
}

#[test]
fn usage_errors_are_2_and_help_is_0() {
    let dir = tempfile::tempdir().unwrap();
    for (args, code) in [
        (&["nonsense"][..], 2),
        (&["sandbox", "exec", "a", "--"], 2),
        (&["--help"], 0),
        (&["sandbox", "create", "--help"], 0),
        (&["help", "exit-codes"], 0),
        (&["--version"], 0),
        (&["version"], 0),
        (&["gateway", "list"], 0),
        (&["gateway", "select", "none"], 3),
    ] {
        let done = done(command(dir.path(), args).output().unwrap());
        assert_eq!(done.code, code, "{args:?}: {done:?}");
    }
}

#[test]
fn the_exit_codes_are_a_help_topic() {
    let dir = tempfile::tempdir().unwrap();
    let done = done(
        command(dir.path(), &["help", "exit-codes"])
            .output()
            .unwrap(),
    );
    for code in ["124  a wait", "  3  not found", "  5  the gateway"] {
        assert!(done.stdout.contains(code), "{done:?}");
    }
}

#[test]
fn four_shells_get_completions_that_ask_for_names() {
    let dir = tempfile::tempdir().unwrap();
    for shell in ["bash", "zsh", "fish", "powershell"] {
        let done = done(
            command(dir.path(), &["completions", shell])
                .output()
                .unwrap(),
        );
        assert_eq!(done.code, 0, "{shell}: {done:?}");
        assert!(
            done.stdout.contains("COMPLETE") && done.stdout.contains("openshell"),
            "{shell}"
        );
    }
}

#[test]
fn every_command_has_a_man_page() {
    let dir = tempfile::tempdir().unwrap();
    let man = dir.path().join("man");
    let done = done(
        command(dir.path(), &["man", "--dir", man.to_str().unwrap()])
            .output()
            .unwrap(),
    );
    assert_eq!(done.code, 0, "{done:?}");
    for page in [
        "openshell.1",
        "openshell-sandbox-exec.1",
        "openshell-doctor.1",
    ] {
        assert!(man.join(page).exists(), "{page}");
    }
}

#[test]
fn gateways_are_added_listed_selected_and_removed() {
    let dir = tempfile::tempdir().unwrap();
    let run = |args: &[&str]| done(command(dir.path(), args).output().unwrap());
    assert_eq!(run(&["gateway", "add", "http://127.0.0.1:7"]).code, 0);
    assert_eq!(
        run(&[
            "gateway",
            "add",
            "http://127.0.0.1:8",
            "--name",
            "b",
            "--no-select"
        ])
        .code,
        0
    );
    assert_eq!(
        run(&["gateway", "add", "http://127.0.0.1:8", "--name", "b"]).code,
        4
    );
    assert_eq!(
        run(&["gateway", "add", "http://10.1.2.3:8", "--name", "c"]).code,
        2
    );
    assert_eq!(
        run(&["gateway", "add", "https://10.1.2.3:8", "--name", "c"]).code,
        2
    );
    let json: Value =
        serde_json::from_str(&run(&["gateway", "list", "-o", "json"]).stdout).unwrap();
    assert_eq!(json["gateways"][1]["name"], "local");
    assert_eq!(json["gateways"][1]["active"], true);
    assert_eq!(run(&["gateway", "select", "b"]).code, 0);
    assert_eq!(run(&["gateway", "remove", "local"]).code, 0);
    assert_eq!(run(&["gateway", "list", "-o", "name"]).stdout, "b\n");
}

#[test]
fn doctor_works_without_a_gateway_and_finds_an_engine_that_is_not_there() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("none.sock");
    let mut run = command(dir.path(), &["doctor"]);
    run.env("DOCKER_HOST", format!("unix://{}", socket.display()));
    let done = done(run.output().unwrap());
    assert_eq!(done.code, 1, "{done:?}");
    assert!(
        done.stdout.contains("✗ docker") && done.stdout.contains("fix: install"),
        "{done:?}"
    );
    assert!(done.stdout.contains("! gateway"), "{done:?}");
}

#[test]
fn doctor_finds_a_port_that_another_program_holds() {
    let dir = tempfile::tempdir().unwrap();
    let other = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = other.local_addr().unwrap().port();
    let holder = std::thread::spawn(move || {
        // Takes the connection and hangs up: not a gateway.
        drop(other.accept());
        other
    });
    let endpoint = format!("http://127.0.0.1:{port}");
    let done = done(
        command(dir.path(), &["doctor", "--gateway-endpoint", &endpoint])
            .output()
            .unwrap(),
    );
    drop(holder.join());
    assert_eq!(done.code, 1, "{done:?}");
    assert!(
        done.stdout.contains("is in use by another program"),
        "{done:?}"
    );
}

#[test]
fn the_version_costs_next_to_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let fastest = (0..10)
        .map(|_| {
            let begun = Instant::now();
            assert!(
                command(dir.path(), &["--version"])
                    .status()
                    .unwrap()
                    .success()
            );
            begun.elapsed()
        })
        .min()
        .unwrap();
    // A debug build on a busy machine; the release build is measured by the benchmark.
    assert!(fastest < Duration::from_millis(100), "{fastest:?}");
}
