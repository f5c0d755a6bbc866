//! Names on the engine that somebody else has taken: a clear error, their things untouched, nothing of ours left.

use openshell_e2e::image;
use serde_json::Value;

use crate::world::{Half, IDLE, World};

/// A start that must fail because of a name, and what the record says then.
fn cannot_start(world: &World, name: &str) -> Value {
    let outcome = world.run(&["sandbox", "start", "box"]);
    let said = outcome.errors();
    assert_ne!(outcome.code, 0, "it started");
    assert!(said.contains(name), "{said}");
    assert!(said.contains("not ours"), "{said}");
    let record = world.record("box");
    assert_eq!(record["phase"], "Error", "{record}");
    let message = record["message"].as_str().unwrap_or_default();
    assert!(message.contains(name), "{record}");
    record
}

/// The name of a sandbox's workload container; the container is then removed, past the gateway.
fn lose_the_container(world: &World) -> String {
    let id = world.container("box", Half::Workload);
    let name = world.inspect(&id)["Name"].as_str().map(str::to_owned);
    let name = name.expect("a name").trim_start_matches('/').to_owned();
    world.docker(&["rm", "-f", &id]);
    name
}

#[test]
fn l14_a_container_name_that_is_taken_stops_a_start_and_the_foreign_container_stays() {
    let world = World::new("taken-container");
    world.create("box", &[], IDLE);
    world.said("box", "echo kept > /sandbox/note");
    world.ok(&["sandbox", "stop", "box"]);
    let name = lose_the_container(&world);
    let foreign = world.docker(&[
        "run",
        "-d",
        "--name",
        &name,
        image::TEST_IMAGE,
        "sleep",
        "1000",
    ]);
    let foreign = foreign.text();
    cannot_start(&world, &name);
    let seen = world.inspect(&foreign);
    assert_eq!(seen["State"]["Running"], true, "the foreign container");
    assert_eq!(seen["Name"], format!("/{name}"));
    // Once it is out of the way a start has its files again (L7).
    world.docker(&["rename", &foreign, "taken-container-elsewhere"]);
    world.ok(&["sandbox", "start", "box"]);
    assert_eq!(world.said("box", "cat /sandbox/note"), "kept");
    world.delete("box");
    assert_eq!(world.inspect(&foreign)["State"]["Running"], true);
    world.docker(&["rm", "-f", &foreign]);
    world.nothing_is_left();
}

#[test]
fn l14_a_volume_name_that_is_taken_stops_a_start_and_the_foreign_volume_stays() {
    let world = World::new("taken-volume");
    world.create("box", &[], IDLE);
    world.ok(&["sandbox", "stop", "box"]);
    let name = format!("{}-workspace", lose_the_container(&world));
    world.docker(&["volume", "rm", &name]);
    world.docker(&["volume", "create", "--label", "owner=somebody", &name]);
    let mount = format!("{name}:/data");
    let by_stranger = |script: &str| {
        let words = [
            "run",
            "--rm",
            "-u",
            "0",
            "-v",
            &mount,
            image::TEST_IMAGE,
            "sh",
            "-c",
            script,
        ];
        world.docker(&words).text()
    };
    by_stranger("echo theirs > /data/file");
    cannot_start(&world, &name);
    // Not by a delete, either.
    world.delete("box");
    world.nothing_is_left();
    assert_eq!(by_stranger("cat /data/file; ls /data"), "theirs\nfile");
    world.docker(&["volume", "rm", &name]);
}
