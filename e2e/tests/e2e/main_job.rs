//! The main job: create, run, watch, stop, start, restart and delete.

use openshell_e2e::image::TEST_IMAGE as IMAGE;
use serde_json::json;

use crate::world::{IDLE, World};

#[test]
fn a_sandbox_is_created_used_stopped_started_and_deleted_with_one_id_and_its_files() {
    let world = World::new("main-job");
    world.create(
        "box",
        &["--label", "team=blue", "--env", "COLOUR=green"],
        IDLE,
    );
    let first = world.record("box");
    assert_eq!(first["phase"], "Ready");
    assert_eq!(first["generation"], 1);
    assert_eq!(
        world.said("box", "echo $COLOUR > /sandbox/note; id -u; pwd"),
        "1000\n/sandbox"
    );

    world.ok(&["sandbox", "stop", "box"]);
    assert_eq!(world.phase("box"), "Stopped");
    let refused = world.shell("box", "true");
    assert_eq!(refused.code, 4, "{}", refused.errors());

    world.ok(&["sandbox", "start", "box"]);
    let second = world.record("box");
    assert_eq!(
        (&second["phase"], &second["generation"]),
        (&json!("Ready"), &json!(2))
    );
    assert_eq!(second["id"], first["id"]);
    assert_eq!(world.said("box", "cat /sandbox/note"), "green");

    world.ok(&["sandbox", "restart", "box"]);
    assert_eq!(world.record("box")["generation"], 3);
    assert_eq!(world.said("box", "cat /sandbox/note"), "green");

    world.delete("box");
    assert_eq!(world.run(&["sandbox", "get", "box"]).code, 3);
    world.nothing_is_left();
}

#[test]
fn templates_and_workspaces_are_made_shown_used_and_deleted_several_at_once() {
    let world = World::new("templates");
    world.ok(&["workspace", "create", "team"]);
    world.ok(&["sandbox", "template", "create", "plain", "--image", IMAGE]);
    world.ok(&[
        "sandbox", "template", "create", "small", "--image", IMAGE, "--cpu", "500m", "--memory",
        "64Mi",
    ]);
    let shown = world.ok(&["sandbox", "template", "get", "small", "-o", "json"]);
    assert!(shown.text().contains("500m"), "{}", shown.text());
    world.ok(&[
        "sandbox",
        "create",
        "--name",
        "box",
        "--template",
        "small",
        "--detach",
        "--",
        "sleep",
        "1000",
    ]);
    assert_eq!(world.record("box")["image"], IMAGE);
    world.delete("box");
    let gone = world.ok(&["sandbox", "template", "delete", "plain", "absent", "small"]);
    assert!(gone.errors().contains("\"absent\" did not exist"));
    // One that cannot be deleted does not spare the next.
    let mixed = world.run(&["workspace", "delete", "default", "team"]);
    assert_eq!(mixed.code, 4, "{}", mixed.errors());
    assert!(!world.ok(&["workspace", "list"]).text().contains("team"));
    world.nothing_is_left();
}

#[test]
fn an_attached_create_shows_what_main_says_and_returns_its_status() {
    let world = World::new("attached");
    let main = "echo to-stdout; echo to-stderr >&2; exit 7";
    let outcome = world.run(&[
        "sandbox",
        "create",
        "--name",
        "job",
        "--no-keep",
        "--",
        "sh",
        "-c",
        main,
    ]);
    assert_eq!(outcome.code, 7, "{}", outcome.errors());
    assert!(outcome.text().contains("to-stdout"), "{}", outcome.text());
    assert!(
        outcome.errors().contains("to-stderr"),
        "{}",
        outcome.errors()
    );
    world.nothing_is_left();
}

#[test]
fn a_sandbox_without_a_name_gets_one_and_tells_it() {
    let world = World::new("nameless");
    let outcome = world.ok(&[
        "sandbox", "create", "--detach", "-o", "json", "--", "sleep", "1000000",
    ]);
    let record = outcome.json().expect("a record");
    let name = record["name"].as_str().expect("a name");
    assert_eq!(world.said(name, "echo here"), "here");
    world.delete(name);
    world.nothing_is_left();
}

#[test]
fn a_list_has_the_promised_fields_and_chooses_by_label() {
    let world = World::new("listing");
    world.create("one", &["--label", "kind=a"], IDLE);
    world.create(
        "two",
        &["--label", "kind=b", "--restart-policy", "on-failure"],
        IDLE,
    );
    let listed = world
        .ok(&["sandbox", "list", "-o", "json"])
        .json()
        .expect("a list");
    let sandboxes = listed["sandboxes"].as_array().expect("sandboxes");
    assert_eq!(sandboxes.len(), 2);
    for field in [
        "name",
        "id",
        "workspace",
        "phase",
        "reason",
        "message",
        "restart_policy",
        "restart_count",
        "next_restart_time",
        "exit_code",
        "generation",
        "image",
        "conditions",
        "labels",
        "created",
    ] {
        assert!(
            sandboxes[0].get(field).is_some(),
            "{field} is missing in {}",
            sandboxes[0]
        );
    }
    let chosen = world.ok(&["sandbox", "list", "--selector", "kind=b", "-o", "json"]);
    let chosen = chosen.json().expect("a list");
    assert_eq!(chosen["sandboxes"].as_array().map(Vec::len), Some(1));
    assert_eq!(chosen["sandboxes"][0]["restart_policy"], "on-failure");
    world.ok(&["sandbox", "delete", "one", "two"]);
    world.nothing_is_left();
}

#[test]
fn files_go_in_and_come_out_as_they_are() {
    let world = World::new("files");
    world.create("box", &[], IDLE);
    let directory = tempfile::tempdir().expect("a directory");
    let content: Vec<u8> = (0..200_000_u32).flat_map(u32::to_le_bytes).collect();
    let local = directory.path().join("data.bin");
    std::fs::write(&local, &content).expect("a file");
    let local = local.to_str().expect("a path");
    world.ok(&["sandbox", "upload", "box", local, "/sandbox"]);
    assert_eq!(
        world.said(
            "box",
            "wc -c < /sandbox/data.bin; stat -c %u /sandbox/data.bin"
        ),
        "800000\n1000"
    );
    let back = directory.path().join("back.bin");
    world.ok(&[
        "sandbox",
        "download",
        "box",
        "/sandbox/data.bin",
        back.to_str().expect("a path"),
    ]);
    assert_eq!(std::fs::read(&back).expect("the file"), content);

    // Files can be had of a sandbox that does not run.
    world.ok(&["sandbox", "stop", "box"]);
    let again = directory.path().join("again.bin");
    world.ok(&[
        "sandbox",
        "download",
        "box",
        "data.bin",
        again.to_str().expect("a path"),
    ]);
    assert_eq!(std::fs::read(&again).expect("the file"), content);
    world.delete("box");
    world.nothing_is_left();
}

#[test]
fn the_journal_and_the_logs_tell_what_happened() {
    let world = World::new("telling");
    world.create(
        "box",
        &[],
        &["sh", "-c", "echo spoken by main; exec sleep 1000000"],
    );
    world.ok(&["sandbox", "stop", "box"]);
    let events = world.events("box");
    for phase in ["Provisioning", "Ready", "Stopping", "Stopped"] {
        assert!(events.contains(phase), "{phase} is not in:\n{events}");
    }
    let status = world
        .ok(&["status", "-o", "json"])
        .json()
        .expect("a status");
    assert!(status.is_object(), "{status}");
    world.delete("box");
    world.nothing_is_left();
}
