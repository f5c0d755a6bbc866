//! A store that a gateway cannot use: it says why, ends with 1 and changes nothing; once mended, all is there.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use openshell_e2e::command::{self, Outcome};
use openshell_e2e::gateway;
use rustix::process::Signal;

use crate::world::{IDLE, PATIENCE, World};

fn state(world: &World) -> PathBuf {
    world.gateway.settings().directory.join("state")
}

/// The one file below the state directory that is a database.
fn database(world: &World) -> PathBuf {
    let files = contents(&state(world));
    let mut databases = files
        .iter()
        .filter(|(_, bytes)| bytes.starts_with(b"SQLite format 3\0"));
    let (path, _) = databases.next().expect("a store");
    path.clone()
}

/// Every file below a directory.
fn contents(directory: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut open = vec![directory.to_owned()];
    while let Some(directory) = open.pop() {
        for entry in directory.read_dir().expect("a directory") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                open.push(path);
            } else {
                // A socket is not read; that it is there counts.
                let bytes = std::fs::read(&path).unwrap_or_default();
                found.insert(path, bytes);
            }
        }
    }
    found
}

/// The gateway as it was started before, in the foreground; it must end by itself.
fn starts_in_vain(world: &World, mut command: Command) -> Outcome {
    let settings = world.gateway.settings();
    command
        .arg("--config")
        .arg(settings.directory.join("gateway.toml"))
        .env("XDG_CONFIG_HOME", &settings.config_home)
        .env_remove("OPENSHELL_GATEWAY");
    command::run_with(&mut command, &[], PATIENCE).expect("it ends by itself")
}

fn program(world: &World) -> PathBuf {
    world.gateway.settings().dist.join("bin/openshell-gateway")
}

/// It ended with 1, and named the reason and the place.
fn says(outcome: &Outcome, words: &[&str]) {
    let said = format!("{}{}", outcome.text(), outcome.errors());
    assert_eq!(outcome.code, 1, "{said}");
    for word in words {
        assert!(said.contains(word), "{word:?} is not in: {said}");
    }
    assert!(!said.contains("panicked"), "{said}");
}

/// A world whose gateway has ended and left a sandbox that was stopped.
fn at_rest(name: &str) -> World {
    let mut world = World::new(name);
    world.create("box", &[], IDLE);
    world.said("box", "echo kept > /sandbox/note");
    world.ok(&["sandbox", "stop", "box"]);
    world.gateway.end(Signal::TERM).expect("it ends");
    world
}

/// The gateway starts again and everything is as it was.
fn recovers(mut world: World) {
    world.gateway.launch().expect("the gateway starts again");
    assert_eq!(world.phase("box"), "Stopped");
    world.ok(&["sandbox", "start", "box"]);
    assert_eq!(world.said("box", "cat /sandbox/note"), "kept");
    world.delete("box");
    world.nothing_is_left();
}

#[test]
fn a_store_that_is_read_only_is_refused_and_left_as_it_is() {
    let world = at_rest("store-readonly");
    let before = contents(&state(&world));
    // A mount of its own, in a namespace of its own: it ends with the gateway.
    let script = "mount --bind \"$0\" \"$0\" && mount -o remount,bind,ro \"$0\" && exec \"$@\"";
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation", "private", "sh", "-c", script]);
    command.arg(state(&world)).arg(program(&world));
    let outcome = starts_in_vain(&world, command);
    let place = state(&world).display().to_string();
    says(&outcome, &["ead-only", "can be written", &place]);
    assert!(before == contents(&state(&world)), "files have changed");
    recovers(world);
}

#[test]
fn a_store_from_the_future_is_refused_and_left_as_it_is() {
    let world = at_rest("store-future");
    let database = database(&world);
    let version = |value: i64| {
        let store = rusqlite::Connection::open(&database).expect("the store");
        let before = store.pragma_query_value(None, "user_version", |row| row.get::<_, i64>(0));
        store
            .pragma_update(None, "user_version", value)
            .expect("a write");
        before.expect("a version")
    };
    let now = version(9_999);
    let records = |path: &Path| contents(path).keys().cloned().collect::<Vec<_>>();
    let (files, bytes) = (
        records(&state(&world)),
        std::fs::read(&database).expect("the store"),
    );
    let outcome = starts_in_vain(&world, Command::new(program(&world)));
    let place = database.display().to_string();
    says(&outcome, &["schema 9999", "newer gateway", &place]);
    assert!(
        bytes == std::fs::read(&database).expect("the store"),
        "the store was changed"
    );
    let left: Vec<_> = records(&state(&world))
        .into_iter()
        .filter(|path| !files.contains(path))
        .collect();
    assert!(left.is_empty(), "left behind: {left:?}");
    assert_eq!(version(now), 9_999);
    recovers(world);
}

#[test]
fn a_store_that_another_gateway_holds_is_refused_and_its_holder_goes_on() {
    let world = World::new("store-locked");
    world.create("box", &[], IDLE);
    let holder = world.gateway.pid().expect("a process").to_string();
    let mut second = Command::new(program(&world));
    // Only the store is shared: the ports are free.
    for flag in [
        "--bind-address",
        "--health-bind-address",
        "--metrics-bind-address",
    ] {
        let address = gateway::free_address().expect("a port");
        second.arg(flag).arg(address.to_string());
    }
    let outcome = starts_in_vain(&world, second);
    says(&outcome, &["another gateway", &holder]);
    assert_eq!(world.said("box", "echo alive"), "alive");
    world.delete("box");
    world.nothing_is_left();
}

#[test]
fn a_store_that_another_program_has_locked_is_refused_in_bounded_time() {
    let world = at_rest("store-busy");
    let other = rusqlite::Connection::open(database(&world)).expect("the store");
    other
        .execute_batch("PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE;")
        .expect("a lock");
    let outcome = starts_in_vain(&world, Command::new(program(&world)));
    says(&outcome, &["another program holds it"]);
    drop(other);
    recovers(world);
}

#[test]
fn a_store_that_is_not_one_is_refused_and_left_as_it_is() {
    let world = at_rest("store-damaged");
    let database = database(&world);
    let sound = std::fs::read(&database).expect("the store");
    let nonsense = vec![b'x'; sound.len()];
    std::fs::write(&database, &nonsense).expect("a write");
    let outcome = starts_in_vain(&world, Command::new(program(&world)));
    says(&outcome, &["not a database", "backup"]);
    assert!(
        nonsense == std::fs::read(&database).expect("the store"),
        "the file was changed"
    );
    std::fs::write(&database, &sound).expect("a write");
    recovers(world);
}
