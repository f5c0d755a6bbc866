//! Bad input: a clear error, nothing changed, nothing left.

use std::os::unix::ffi::OsStrExt as _;
use std::process::Command;
use std::time::Duration;

use openshell_e2e::command;
use openshell_e2e::gateway::{Gateway, Settings};
use openshell_e2e::image;
use openshell_e2e::relay::{Calls, Fault};

use crate::world::{IDLE, PATIENCE, World, cli, dist, engine_socket};

/// Words, the exit code, a word that the message must contain.
type Case<'a> = (&'a [&'a str], i32, &'a str);

fn each_is_refused(world: &World, cases: &[Case<'_>]) {
    for (words, code, message) in cases {
        let outcome = world.run(words);
        let said = outcome.errors();
        assert_eq!(outcome.code, *code, "{words:?} said: {said}");
        assert!(
            said.to_lowercase().contains(&message.to_lowercase()),
            "{words:?} said: {said}"
        );
        assert!(!said.contains("panicked"), "{words:?} said: {said}");
    }
}

#[test]
fn a_name_must_be_a_name() {
    let world = World::new("names-bad");
    let long = "x".repeat(41);
    for name in [
        long.as_str(),
        "UPPER",
        "-dash",
        "dash-",
        "a b",
        "a/b",
        "\u{e4}",
        "a.b",
        "",
    ] {
        let outcome = world.run(&[
            "sandbox",
            "create",
            &format!("--name={name}"),
            "--detach",
            "--",
            "true",
        ]);
        assert_eq!(outcome.code, 2, "{name:?}: {}", outcome.errors());
        assert!(
            outcome.errors().contains("name"),
            "{name:?}: {}",
            outcome.errors()
        );
    }
    world.nothing_is_left();
}

#[test]
fn quantities_labels_and_environment_are_checked_before_anything_is_made() {
    let world = World::new("values-bad");
    let create = |more: &[&str]| -> Vec<String> {
        let words = ["sandbox", "create", "--name", "box", "--detach"];
        words
            .iter()
            .chain(more)
            .chain(&["--", "true"])
            .map(|word| (*word).to_owned())
            .collect()
    };
    let long = format!("key={}", "v".repeat(10_000));
    let mut cases = Vec::new();
    for (flag, values) in [
        (
            "--cpu",
            ["0", "-1", "1e99", "half", "", "0.0001"].as_slice(),
        ),
        (
            "--memory",
            ["0", "-5", "99999999999999Gi", "128Mo", "", "1"].as_slice(),
        ),
        (
            "--label",
            ["no-equals-sign", "=value", "k\n=v", "k=v\n", long.as_str()].as_slice(),
        ),
        ("--env", ["NO_EQUALS_SIGN_AND_NOT_SET", "=value"].as_slice()),
        ("--restart-policy", ["sometimes", ""].as_slice()),
    ] {
        cases.extend(
            values
                .iter()
                .map(|value| create(&[&format!("{flag}={value}")])),
        );
    }
    let many: Vec<String> = (0..500)
        .map(|index| format!("--label=key{index}=value"))
        .collect();
    cases.push(create(&many.iter().map(String::as_str).collect::<Vec<_>>()));
    for case in cases {
        let words: Vec<&str> = case.iter().map(String::as_str).collect();
        let outcome = world.run(&words);
        let shown: String = words.join(" ").chars().take(120).collect();
        assert_eq!(outcome.code, 2, "`{shown}`: {}", outcome.errors());
        assert!(
            !outcome.errors().is_empty(),
            "`{shown}` was refused without a word"
        );
    }
    world.nothing_is_left();
}

#[test]
fn arguments_that_are_not_utf8_are_refused_in_words() {
    let world = World::new("bytes-bad");
    let mut create = cli(&world, &["sandbox", "create", "--detach", "--name"]);
    create.arg(std::ffi::OsStr::from_bytes(b"a\xff"));
    let outcome = command::run(&mut create).expect("it ends");
    assert_eq!(outcome.code, 2, "{}", outcome.errors());
    world.nothing_is_left();
}

#[test]
fn what_does_not_exist_is_not_found_by_every_verb() {
    let world = World::new("absent");
    let cases: [Case<'_>; 8] = [
        (&["sandbox", "get", "nobody"], 3, "nobody"),
        (&["sandbox", "start", "nobody"], 3, "nobody"),
        (&["sandbox", "stop", "nobody"], 3, "nobody"),
        (&["sandbox", "exec", "nobody", "--", "true"], 3, "nobody"),
        (&["sandbox", "events", "nobody"], 3, "nobody"),
        (
            &["sandbox", "download", "nobody", "/sandbox/x", "/tmp/never"],
            3,
            "nobody",
        ),
        (&["logs", "nobody"], 3, "nobody"),
        (
            &[
                "--workspace",
                "nowhere",
                "sandbox",
                "create",
                "--detach",
                "--",
                "true",
            ],
            3,
            "nowhere",
        ),
    ];
    each_is_refused(&world, &cases);
    world.nothing_is_left();
}

#[test]
fn of_twenty_who_want_one_name_one_gets_it() {
    let world = World::new("contended");
    let outcomes = std::thread::scope(|scope| {
        let racers: Vec<_> = (0..20)
            .map(|_| scope.spawn(|| world.try_create("prize", &[], IDLE)))
            .collect();
        let outcomes = racers
            .into_iter()
            .map(|racer| racer.join().expect("a racer"));
        outcomes.collect::<Vec<_>>()
    });
    let won = outcomes.iter().filter(|outcome| outcome.code == 0).count();
    let lost = outcomes.iter().filter(|outcome| outcome.code == 4).count();
    let others: Vec<_> = outcomes
        .iter()
        .filter(|outcome| ![0, 4].contains(&outcome.code))
        .collect();
    assert_eq!((won, lost), (1, 19), "others: {others:?}");
    assert_eq!(world.phase("prize"), "Ready");
    world.delete("prize");
    world.nothing_is_left();
}

#[test]
fn an_interrupted_create_takes_back_what_it_made() {
    let world = World::new("interrupted");
    for milliseconds in [5, 20, 60, 120, 200, 300, 450] {
        let words = [
            "sandbox", "create", "--name", "box", "--detach", "--", "sleep", "1000000",
        ];
        let mut create = cli(&world, &words);
        create
            .stdin(std::process::Stdio::null())
            .stderr(std::process::Stdio::null());
        let mut create = create.spawn().expect("the CLI");
        openshell_e2e::wait::pause(Duration::from_millis(milliseconds));
        let pid = rustix::process::Pid::from_child(&create);
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::INT);
        let status =
            openshell_e2e::wait::until("create to end", PATIENCE, || Ok(create.try_wait()?));
        if status.expect("an end").success() {
            // It was ready before the interrupt came.
            world.delete("box");
        }
        openshell_e2e::wait::until("the sandbox to be gone", PATIENCE, || {
            Ok((world.run(&["sandbox", "get", "box"]).code == 3).then_some(()))
        })
        .unwrap_or_else(|error| panic!("after {milliseconds} ms: {error:#}"));
        world.nothing_is_left();
    }
}

#[test]
fn l13_a_delete_waits_for_what_a_create_is_making() {
    let world = World::behind_relay("in-the-making", "");
    // The first call that makes something of an image which no sandbox was made from yet: it looks into it.
    let creations = Calls::creations();
    let making = world
        .relay()
        .trap(creations.clone().once(), Fault::HoldCall);
    std::thread::scope(|scope| {
        let create = scope.spawn(|| world.try_create("box", &[], &["sleep", "1000000"]));
        making.wait_held(1, PATIENCE).expect("something is made");
        let delete = scope.spawn(|| world.run(&["sandbox", "delete", "box"]));
        world.wait_phase("box", "Deleting", PATIENCE);
        assert_eq!(world.relay().under_way(&creations), 1, "it was given up");
        making.release();
        let delete = delete.join().expect("the CLI ends");
        assert_eq!(delete.code, 0, "{}", delete.errors());
        assert_ne!(create.join().expect("the CLI ends").code, 0);
    });
    world.nothing_is_left();
}

#[test]
fn without_a_gateway_the_cli_says_so_and_what_to_do() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut settings = Settings::for_test(&dist(), directory.path(), &engine_socket(), "nobody")
        .expect("settings");
    settings.config_home = directory.path().join("empty");
    let mut cli = openshell_e2e::gateway::cli(&settings);
    let outcome = command::run(
        cli.env_remove("OPENSHELL_GATEWAY")
            .args(["sandbox", "list"]),
    );
    let outcome = outcome.expect("it ends");
    assert_ne!(outcome.code, 0);
    assert!(
        outcome.errors().contains("openshell gateway add"),
        "{}",
        outcome.errors()
    );

    let mut world = World::new("gone");
    world
        .gateway
        .end(rustix::process::Signal::TERM)
        .expect("it ends");
    let outcome = world.run(&["sandbox", "list"]);
    assert_eq!(outcome.code, 5, "{}", outcome.errors());
}

#[test]
fn a_gateway_that_cannot_start_says_why() {
    let world = World::new("starter");
    let directory = tempfile::tempdir().expect("a directory");
    let settings = |name: &str| {
        Settings::for_test(
            &dist(),
            &directory.path().join(name),
            &engine_socket(),
            name,
        )
        .expect("settings")
    };
    let taken = Settings {
        address: world.gateway.settings().address,
        ..settings("taken")
    };
    let unknown = Settings {
        more: "[openshell.lifecycle]\nstop_grace_sec = 3\n".to_owned(),
        ..settings("unknown")
    };
    for (settings, word) in [(taken, "in use"), (unknown, "stop_grace_secs")] {
        let error = Gateway::start(settings).expect_err("it started");
        assert!(format!("{error:#}").contains(word), "{error:#}");
    }
    // The same state is one gateway's.
    let second = Settings {
        more: String::new(),
        address: openshell_e2e::gateway::free_address().expect("a port"),
        health: openshell_e2e::gateway::free_address().expect("a port"),
        ..world.gateway.settings().clone()
    };
    let pid = world.gateway.pid().expect("a process").to_string();
    let state = second.directory.join("state");
    let mut command = Command::new(second.dist.join("bin/openshell-gateway"));
    command
        .env("OPENSHELL_STATE_DIR", &state)
        .env("XDG_CONFIG_HOME", directory.path());
    command.env("OPENSHELL_BIND_ADDRESS", second.address.to_string());
    let outcome = command::run_with(&mut command, &[], PATIENCE).expect("it ends");
    assert_ne!(outcome.code, 0);
    let said = format!("{}{}", outcome.text(), outcome.errors());
    assert!(
        said.contains(&pid),
        "the holder's pid {pid} is not in: {said}"
    );
}

#[test]
fn a_foreign_container_with_our_labels_is_left_alone() {
    let world = World::new("foreign");
    world.create("box", &[], IDLE);
    let id = world.record("box")["id"]
        .as_str()
        .expect("an id")
        .to_owned();
    let labels = [
        "openshell.ai/managed-by=openshell".to_owned(),
        "openshell.ai/sandbox-namespace=foreign".to_owned(),
        format!("openshell.ai/sandbox-id={id}"),
        "openshell.ai/sandbox-name=box".to_owned(),
        "openshell.ai/isolation-role=sandbox".to_owned(),
    ];
    let mut words = vec!["run", "-d", "--network", "none", "--name", "not-ours"];
    for label in &labels {
        words.extend(["--label", label]);
    }
    words.extend([image::TEST_IMAGE, "sleep", "1000000"]);
    world.docker(&words);
    world.ok(&["sandbox", "stop", "box"]);
    world.ok(&["sandbox", "start", "box"]);
    world.delete("box");
    let foreign = world.docker(&["inspect", "--format", "{{.State.Running}}", "not-ours"]);
    assert_eq!(
        foreign.text(),
        "true",
        "a container that is not ours was stopped"
    );
    world.docker(&["rm", "-f", "not-ours"]);
    world.nothing_is_left();
}
