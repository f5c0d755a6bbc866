//! Images: which can run, which cannot and what is said of them.

use std::time::{Duration, Instant};

use openshell_e2e::image::{self, Recipe};

use crate::world::{IDLE, PATIENCE, World, engine_socket, make_image};

#[test]
fn images_that_cannot_be_run_end_in_a_clear_error_and_leave_nothing() {
    let foreign = foreign_binary();
    make_image(&Recipe {
        without_shell: true,
        ..Recipe::usual("openshell-dev/empty:1")
    });
    make_image(&Recipe {
        files: &[
            ("usr/plain", b"not a program", 0o644),
            ("usr/foreign", &foreign, 0o755),
        ],
        ..Recipe::usual("openshell-dev/odd:1")
    });
    let world = World::new("images-bad");
    // What could not be made at all.
    for image in [
        "openshell-dev/absent:1",
        "127.0.0.1:1/x/y:1",
        "UPPER/case:1",
        "a b",
    ] {
        let started = Instant::now();
        let outcome = world.run(&[
            "sandbox", "create", "--name", "box", "--from", image, "--detach", "--", "true",
        ]);
        assert_ne!(outcome.code, 0, "{image}");
        assert!(
            started.elapsed() < Duration::from_secs(20),
            "{image} took {:?}",
            started.elapsed()
        );
        assert!(
            outcome.errors().contains(image),
            "{image}: {}",
            outcome.errors()
        );
        let _ = world.run(&["sandbox", "delete", "box"]);
    }
    // What was made and cannot run its main process.
    for (image, main, exit) in [
        ("openshell-dev/empty:1", "/bin/sh", 127),
        ("openshell-dev/odd:1", "/usr/plain", 126),
        ("openshell-dev/odd:1", "/usr/foreign", 126),
        ("openshell-dev/odd:1", "/usr/absent", 127),
    ] {
        world.try_create("box", &["--from", image], &[main]);
        let record = world.wait_phase("box", "Error", PATIENCE);
        assert_eq!(record["exit_code"], exit, "{image} {main}: {record}");
        let message = record["message"].as_str().unwrap_or_default();
        assert!(message.contains(main), "{image} {main}: {message}");
        world.delete("box");
    }
    world.nothing_is_left();
}

/// An ELF header of a machine that this is not.
fn foreign_binary() -> Vec<u8> {
    let mut header = b"\x7fELF\x02\x01\x01".to_vec();
    header.resize(16, 0);
    // An executable for IBM S/390.
    header.extend([2, 0, 22, 0, 1, 0, 0, 0]);
    header.resize(64, 0);
    header
}

#[test]
fn an_image_that_wants_root_runs_as_an_ordinary_user() {
    make_image(&Recipe {
        user: "",
        ..Recipe::usual("openshell-dev/root:1")
    });
    let world = World::new("rootless");
    world.create("box", &["--from", "openshell-dev/root:1"], IDLE);
    assert_eq!(
        world.said("box", "id -u; id -g; touch /sandbox/mine && echo ok"),
        "1000\n1000\nok"
    );
    world.delete("box");
    world.nothing_is_left();
}

#[test]
fn a_workspace_begins_with_what_the_image_has_there_and_is_the_users() {
    make_image(&Recipe {
        files: &[("sandbox/given", b"by the image", 0o644)],
        ..Recipe::usual("openshell-dev/workspace:1")
    });
    let world = World::new("workspace");
    world.create("box", &["--from", "openshell-dev/workspace:1"], IDLE);
    assert_eq!(
        world.said(
            "box",
            "cat /sandbox/given; echo; touch /sandbox/mine && echo ok"
        ),
        "by the image\nok"
    );
    world.delete("box");
    world.nothing_is_left();
}

#[test]
fn an_image_of_another_architecture_is_refused_with_the_way_out() {
    make_image(&Recipe::usual("openshell-dev/s390x:1"));
    let engine = format!("unix://{}", engine_socket().display());
    image::claim_architecture(&engine, "openshell-dev/s390x:1", "s390x").expect("an image");
    let world = World::new("architecture");
    let started = Instant::now();
    let outcome = world.try_create("box", &["--from", "openshell-dev/s390x:1"], IDLE);
    let said = outcome.errors();
    assert_ne!(outcome.code, 0, "it was made");
    for word in ["openshell-dev/s390x:1", "s390x", "linux/"] {
        assert!(said.contains(word), "{word:?} is not in: {said}");
    }
    assert!(started.elapsed() < Duration::from_secs(20));
    let _ = world.run(&["sandbox", "delete", "box"]);
    world.nothing_is_left();
}

#[test]
fn an_image_without_a_shell_runs_its_programs_and_says_that_it_has_no_shell() {
    let busybox = std::fs::read(image::busybox().expect("busybox")).expect("busybox");
    make_image(&Recipe {
        without_shell: true,
        files: &[
            ("usr/sleep", &busybox, 0o755),
            ("usr/printf", &busybox, 0o755),
        ],
        ..Recipe::usual("openshell-dev/shellless:1")
    });
    let world = World::new("shellless");
    world.create(
        "box",
        &["--from", "openshell-dev/shellless:1"],
        &["/usr/sleep", "1000000"],
    );
    let exec = ["sandbox", "exec", "box"];
    let printf = ["--", "/usr/printf", "[%s]", "a b", "$HOME"];
    // There is no login without a shell; the program can be run all the same.
    for more in [&["--no-login-shell"] as &[&str], &[]] {
        let said = world.ok(&[&exec, more, &printf].concat()).text();
        assert_eq!(said, "[a b][$HOME]", "{more:?}");
        let absent = world.run(&[&exec, more, &["--", "sh", "-c", "true"]].concat());
        assert_eq!(absent.code, 127, "{more:?}: {}", absent.errors());
        assert!(
            absent.errors().contains("not found"),
            "{more:?}: {}",
            absent.errors()
        );
    }
    // Without a command the main process is a login shell, which is not there.
    world.try_create("login", &["--from", "openshell-dev/shellless:1"], &[]);
    let record = world.wait_phase("login", "Error", PATIENCE);
    assert_eq!(record["exit_code"], 127, "{record}");
    let message = record["message"].as_str().unwrap_or_default();
    assert!(message.contains("no shell"), "{record}");
    world.delete("login");
    world.delete("box");
    world.nothing_is_left();
}
