//! Create, wait, start, stop, delete, list, get: what is said, and the exit codes.

use openshell_proto::api::SandboxPhase as P;
use serde_json::Value;

use super::fake::Fake;
use super::run::{eventually, signal};

#[test]
fn a_detached_create_prints_the_name_once_it_is_ready() {
    let fake = Fake::start();
    let done = fake.run(&[
        "sandbox", "create", "--name", "a", "--from", "img", "--detach", "--", "sleep", "9",
    ]);
    assert_eq!((done.code, done.stdout.as_str()), (0, "a\n"));
    fake.world
        .change(|s| assert!(!s.awaited, "nobody comes to watch"));
    assert!(done.stderr.contains("Ready (Running)"), "{done:?}");
}

#[test]
fn a_detached_create_prints_the_record_as_asked() {
    let done = Fake::start().run(&[
        "sandbox", "create", "--from", "img", "-q", "--detach", "-o", "json", "--", "sleep", "9",
    ]);
    let json: Value = serde_json::from_str(&done.stdout).unwrap();
    assert_eq!(
        (json["name"].as_str(), json["phase"].as_str()),
        (Some("made-up"), Some("Ready"))
    );
    assert_eq!(
        (json["generation"].as_u64(), json["image"].as_str()),
        (Some(3), Some("img"))
    );
    assert_eq!(done.stderr, "");
}

#[test]
fn an_attached_create_answers_with_the_main_processs_output_and_status() {
    let fake = Fake::start();
    fake.world.change(|s| s.main = Some(("hello", 42)));
    let done = fake.run(&["sandbox", "create", "--name", "a", "-q", "--", "./main"]);
    assert_eq!((done.code, done.stdout.as_str()), (42, "hello"), "{done:?}");
    assert!(!fake.world.called("delete a"));
    fake.world
        .change(|s| assert!(s.awaited, "the gateway is told that we come"));
}

#[test]
fn with_no_keep_it_is_deleted_afterwards_and_the_status_stays() {
    let fake = Fake::start();
    fake.world.change(|s| s.main = Some(("hello", 42)));
    let done = fake.run(&[
        "sandbox",
        "create",
        "--name",
        "a",
        "-q",
        "--no-keep",
        "--",
        "./main",
    ]);
    assert_eq!(done.code, 42);
    assert!(fake.world.called("delete a"));
}

#[test]
fn a_main_process_that_was_quicker_than_we_still_gives_its_status() {
    let fake = Fake::start();
    let done = fake.run(&["sandbox", "create", "--name", "quick", "-q", "--", "./main"]);
    assert_eq!(done.code, 7, "{done:?}");
}

#[test]
fn a_create_that_fails_says_why_and_what_to_do() {
    for args in [&["--detach"][..], &[]] {
        let mut line = vec!["sandbox", "create", "--name", "broken", "-q"];
        line.extend(args);
        line.extend(["--", "x"]);
        let done = Fake::start().run(&line);
        assert_eq!(done.code, 125, "{done:?}");
        assert!(
            done.stderr.contains("ImagePullFailed") && done.stderr.contains("events broken"),
            "{done:?}"
        );
        assert_eq!(done.stdout, "");
    }
}

#[test]
fn a_taken_name_is_a_conflict_and_what_is_there_is_not_touched() {
    let fake = Fake::start().with("a", P::Ready);
    let done = fake.run(&["sandbox", "create", "--name", "a", "--detach", "--", "x"]);
    assert_eq!(done.code, 4);
    assert!(!fake.world.called("delete a"));
}

#[test]
fn an_interrupted_create_deletes_what_it_made_and_says_so() {
    for name in ["-INT", "-TERM"] {
        let fake = Fake::start();
        let child = fake.spawn(&["sandbox", "create", "--name", "slow", "--", "x"]);
        eventually("the create", || fake.world.called("create slow"));
        signal(&child, name);
        let done = super::run::done(child.wait_with_output().unwrap());
        assert!(matches!(done.code, 130 | 143), "{done:?}");
        assert!(done.stderr.contains("is deleted"), "{done:?}");
        assert!(fake.world.change(|s| s.sandboxes.is_empty()));
    }
}

#[test]
fn bad_input_is_refused_before_anything_is_sent() {
    let fake = Fake::start();
    for args in [
        &["--name", "Capitals"][..],
        &["--name", ""],
        &["--name", "-dash"],
        &["--name", &"x".repeat(41)],
        &["--cpu", "0"],
        &["--memory", "1Zi"],
        &["--policy", "p.yaml"],
        &["--label", "nothing"],
    ] {
        let mut line = vec!["sandbox", "create", "--detach"];
        line.extend(args);
        let done = fake.run(&line);
        assert_eq!(done.code, 2, "{args:?}: {done:?}");
    }
    assert!(fake.world.change(|s| s.calls.is_empty()));
}

#[test]
fn start_stop_and_restart_wait_for_the_end_of_several_and_print_their_names() {
    let fake = Fake::start().with("a", P::Ready).with("b", P::Ready);
    for (verb, phase) in [
        ("stop", P::Stopped),
        ("start", P::Ready),
        ("restart", P::Ready),
    ] {
        let done = fake.run(&["sandbox", verb, "a", "b"]);
        assert_eq!(
            (done.code, done.stdout.as_str()),
            (0, "a\nb\n"),
            "{verb}: {done:?}"
        );
        let ended = fake
            .world
            .change(|s| s.sandboxes["b"].status.clone().unwrap().phase());
        assert_eq!(ended, phase);
    }
}

#[test]
fn a_stop_with_hold_says_why_and_a_release_undoes_it() {
    let fake = Fake::start().with("a", P::Ready);
    let done = fake.run(&["sandbox", "stop", "a", "--reason", "x"]);
    assert_eq!(done.code, 2, "a reason without a hold: {done:?}");
    let done = fake.run(&["sandbox", "stop", "a", "--hold", "--reason", "looks odd"]);
    assert_eq!((done.code, done.stdout.as_str()), (0, "a\n"), "{done:?}");
    assert!(fake.world.called("hold a looks odd"));
    let done = fake.run(&["sandbox", "release", "a"]);
    assert_eq!((done.code, done.stdout.as_str()), (0, "a\n"), "{done:?}");
    assert!(fake.world.called("release a"));
    assert_eq!(fake.run(&["sandbox", "release", "none"]).code, 3);
}

#[test]
fn what_fails_is_told_and_the_rest_is_done() {
    let fake = Fake::start().with("a", P::Ready).with("z", P::Ready);
    let done = fake.run(&["sandbox", "stop", "a", "none", "z"]);
    assert_eq!((done.code, done.stdout.as_str()), (3, "a\nz\n"), "{done:?}");
    assert!(done.stderr.contains("\"none\""));
}

#[test]
fn a_wait_that_is_too_long_is_124_and_says_where_it_stands() {
    let fake = Fake::start().with("stuck", P::Ready);
    let done = fake.run(&["sandbox", "stop", "stuck", "--timeout", "1"]);
    assert_eq!(done.code, 124);
    assert!(done.stderr.contains("still Stopping"), "{done:?}");
    let done = fake.run(&["sandbox", "stop", "stuck", "--no-wait"]);
    assert_eq!(done.code, 0);
    let done = fake.run(&["sandbox", "delete", "stuck", "--wait=false"]);
    assert_eq!(done.code, 0);
}

#[test]
fn a_stop_that_is_overtaken_by_a_start_ends_and_says_so() {
    for again in [P::Provisioning, P::Starting, P::Ready] {
        let fake = Fake::start().with("stuck", P::Ready);
        let child = fake.spawn(&["sandbox", "stop", "stuck", "--timeout", "60"]);
        eventually("the stop", || {
            fake.world
                .change(|s| s.sandboxes["stuck"].status.as_ref().unwrap().phase() == P::Stopping)
        });
        fake.world.set("stuck", again);
        let done = super::run::done(child.wait_with_output().unwrap());
        assert_eq!((done.code, done.stdout.as_str()), (4, ""), "{done:?}");
        assert!(done.stderr.contains("started by somebody else"), "{done:?}");
    }
}

#[test]
fn a_delete_waits_until_nothing_is_left_and_absence_is_success() {
    let fake = Fake::start().with("a", P::Ready).with("locked", P::Ready);
    let done = fake.run(&["sandbox", "delete", "a", "absent"]);
    assert_eq!((done.code, done.stdout.as_str()), (0, "a\nabsent\n"));
    assert!(done.stderr.contains("\"absent\" did not exist"));
    assert_eq!(fake.run(&["sandbox", "delete", "locked"]).code, 6);
}

#[test]
fn delete_all_never_asks_without_a_terminal_and_does_nothing_unless_told() {
    let fake = Fake::start()
        .with("a", P::Ready)
        .with("b", P::Ready)
        .with("c", P::Ready);
    let done = fake.run(&["sandbox", "delete", "--all"]);
    assert_eq!(done.code, 2);
    assert_eq!(fake.world.change(|s| s.sandboxes.len()), 3);
    let done = fake.run(&["sandbox", "delete", "--all", "--yes"]);
    assert_eq!(
        (done.code, done.stdout.as_str()),
        (0, "a\nb\nc\n"),
        "{done:?}"
    );
}

#[test]
fn a_wait_ends_when_it_is_so() {
    let fake = Fake::start().with("a", P::Starting);
    let child = fake.spawn(&["sandbox", "wait", "a", "--for", "ready"]);
    fake.world.set("a", P::Ready);
    assert_eq!(child.wait_with_output().unwrap().status.code(), Some(0));
    let child = fake.spawn(&["sandbox", "wait", "a", "--for", "deleted"]);
    fake.world.change(|s| s.sandboxes.remove("a"));
    assert_eq!(child.wait_with_output().unwrap().status.code(), Some(0));
    assert_eq!(fake.run(&["sandbox", "wait", "a"]).code, 3);
}

#[test]
fn a_list_has_its_envelope_all_pages_and_the_generation() {
    let fake = Fake::start()
        .with("a", P::Ready)
        .with("b", P::Stopped)
        .with("c", P::Error);
    let done = fake.run(&["sandbox", "list", "-o", "json"]);
    let json: Value = serde_json::from_str(&done.stdout).unwrap();
    assert_eq!(json["next_page_token"], "");
    assert_eq!(json["sandboxes"].as_array().unwrap().len(), 3);
    assert_eq!(json["sandboxes"][2]["reason"], "ImagePullFailed");
    assert_eq!(json["sandboxes"][1]["generation"], 4);
    let done = fake.run(&["sb", "ls", "-o", "name"]);
    assert_eq!(done.stdout, "a\nb\nc\n");
    let done = fake.run(&["sandbox", "list", "--limit", "2", "-o", "json"]);
    let json: Value = serde_json::from_str(&done.stdout).unwrap();
    assert_eq!(json["next_page_token"], "b");
    let done = fake.run(&["sandbox", "list", "--page-token", "b", "-o", "name"]);
    assert_eq!(done.stdout, "c\n");
    let done = fake.run(&["sandbox", "list", "-o", "yaml"]);
    assert!(done.stdout.starts_with("sandboxes:"), "{done:?}");
}

#[test]
fn a_record_is_shown_as_it_was_at_one_moment() {
    let fake = Fake::start().with("a", P::Ready);
    fake.world.change(|s| {
        let meta = s.sandboxes.get_mut("a").and_then(|s| s.metadata.as_mut());
        meta.unwrap().resource_version = 7;
    });
    for verb in [&["get", "a"] as &[&str], &["list"]] {
        let done = fake.run(&[&["sandbox"], verb, &["-o", "json"]].concat());
        let shown: serde_json::Value = serde_json::from_str(&done.stdout).unwrap();
        let record = shown.pointer("/sandboxes/0").unwrap_or(&shown);
        let seen = (&record["phase"], &record["generation"]);
        assert_eq!(seen, (&"Ready".into(), &3.into()), "{verb:?}");
    }
}

#[test]
fn a_record_of_nothing_is_not_found_in_words() {
    let done = Fake::start().run(&["sandbox", "get", "none"]);
    assert_eq!(done.code, 3);
    assert_eq!(done.stdout, "");
    insta::assert_snapshot!(done.stderr.trim_end(), @r#"
    error: sandbox "none" could not be read
      why: sandbox "none" does not exist in workspace "default"
     hint: `openshell sandbox list` shows what there is
    "#);
}

#[test]
fn connect_to_a_main_process_without_a_terminal_reads_only() {
    let fake = Fake::start().with("a", P::Ready);
    fake.world.change(|s| s.main = Some(("so far", 3)));
    let done = fake.run(&["sandbox", "connect", "a"]);
    assert_eq!((done.code, done.stdout.as_str()), (3, "so far"), "{done:?}");
    assert!(done.stderr.contains("read-only"));
}

#[test]
fn events_and_logs_are_lists_for_people_and_programs() {
    let fake = Fake::start().with("a", P::Ready);
    let done = fake.run(&["sandbox", "events", "a"]);
    assert!(
        done.stdout.contains("command stop") && done.stdout.contains("→ Stopping"),
        "{done:?}"
    );
    let done = fake.run(&["sandbox", "events", "a", "-o", "json"]);
    let json: Value = serde_json::from_str(&done.stdout).unwrap();
    assert_eq!(json["events"][1]["sequence"], 2);
    let done = fake.run(&[
        "logs", "a", "-n", "5", "--source", "sandbox", "--level", "warn", "-o", "json",
    ]);
    let json: Value = serde_json::from_str(&done.stdout).unwrap();
    assert_eq!(
        (&json["message"], &json["source"], &json["level"]),
        (&"5 lines".into(), &"sandbox".into(), &"warn".into())
    );
}

#[test]
fn status_and_doctor_tell_what_the_gateway_says() {
    let fake = Fake::start();
    let done = fake.run(&["status", "-o", "json"]);
    let json: Value = serde_json::from_str(&done.stdout).unwrap();
    assert_eq!(
        (&json["status"], &json["authentication"], &json["version"]),
        (
            &"Connected".into(),
            &"Authenticated".into(),
            &"1.2.3".into()
        )
    );
    let done = fake.run(&["doctor", "-o", "json"]);
    let json: Value = serde_json::from_str(&done.stdout).unwrap();
    let checks = json["checks"].as_array().unwrap();
    let leftovers = checks.iter().find(|c| c["check"] == "leftovers").unwrap();
    assert_eq!(leftovers["fix"], "docker rm -f abc");
}
