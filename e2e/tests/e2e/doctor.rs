//! `openshell doctor` finds what is wrong with a machine, and says how to mend it.

use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use openshell_e2e::{command, image};
use rustix::process::Signal;

use crate::world::{World, dist, engine_socket};

/// A certificate that ended in 2024.
const EXPIRED: &str = include_str!("expired.crt");

/// Runs it, which must find something, and gives what it printed.
fn finds(doctor: &mut Command) -> String {
    let outcome = command::run(doctor.args(["doctor", "-o", "json"])).expect("it ends");
    let said = outcome.text();
    assert_eq!(
        outcome.code,
        1,
        "it found nothing: {said} {}",
        outcome.errors()
    );
    said.to_lowercase()
}

fn must_say(said: &str, words: &[&str]) {
    for word in words {
        assert!(said.contains(word), "{word:?} is not in:\n{said}");
    }
}

#[test]
fn a_healthy_machine_passes() {
    let world = World::new("healthy");
    let mut doctor = world.gateway.cli();
    doctor.env(
        "DOCKER_HOST",
        format!("unix://{}", engine_socket().display()),
    );
    let outcome = command::run(doctor.args(["doctor", "-o", "json"])).expect("it ends");
    assert_eq!(outcome.code, 0, "{}", outcome.text());
}

#[test]
fn an_engine_that_is_down_is_found() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut doctor = Command::new(dist().join("bin/openshell"));
    doctor.env("XDG_CONFIG_HOME", directory.path());
    doctor.env(
        "DOCKER_HOST",
        format!("unix://{}/none.sock", directory.path().display()),
    );
    must_say(&finds(&mut doctor), &["engine", "none.sock"]);
}

#[test]
fn a_socket_without_permission_is_found() {
    let directory = tempfile::tempdir().expect("a directory");
    std::fs::set_permissions(directory.path(), std::fs::Permissions::from_mode(0o755))
        .expect("a mode");
    let binary = directory.path().join("openshell");
    std::fs::copy(dist().join("bin/openshell"), &binary).expect("a copy");
    let mut doctor = Command::new(&binary);
    doctor
        .env("XDG_CONFIG_HOME", directory.path())
        .env("HOME", directory.path());
    doctor.env(
        "DOCKER_HOST",
        format!("unix://{}", engine_socket().display()),
    );
    doctor.uid(65534).gid(65534).current_dir("/");
    must_say(&finds(&mut doctor), &["may not use", "group"]);
}

#[test]
fn an_expired_certificate_is_found() {
    let world = World::new("expired");
    let registered = world
        .gateway
        .settings()
        .config_home
        .join("openshell/gateways/expired/mtls");
    std::fs::write(registered.join("tls.crt"), EXPIRED).expect("a certificate");
    must_say(&finds(&mut world.gateway.cli()), &["expired", "tls.crt"]);
}

#[test]
fn a_port_that_something_else_holds_is_found() {
    let mut world = World::new("occupied");
    world.gateway.end(Signal::TERM).expect("it ends");
    let address = world.gateway.settings().address;
    let _holder = TcpListener::bind(address).expect("the port");
    must_say(
        &finds(&mut world.gateway.cli()),
        &[&address.port().to_string()],
    );
}

#[test]
fn leftovers_on_the_engine_are_found() {
    let world = World::new("leftover");
    let id = "0193b3c4-0000-7000-8000-000000000001";
    let name = format!("openshell-leftover--ghost-{id}");
    let labels = [
        "openshell.ai/managed-by=openshell".to_owned(),
        "openshell.ai/sandbox-namespace=leftover".to_owned(),
        format!("openshell.ai/sandbox-id={id}"),
        "openshell.ai/sandbox-name=ghost".to_owned(),
        "openshell.ai/sandbox-workspace=default".to_owned(),
        "openshell.ai/isolation-role=sandbox".to_owned(),
    ];
    let mut words = vec!["create", "--network", "none", "--name", &name];
    for label in &labels {
        words.extend(["--label", label]);
    }
    words.extend([image::TEST_IMAGE, "true"]);
    world.docker(&words);
    let mut doctor = world.gateway.cli();
    let outcome = command::run(doctor.args(["doctor", "-o", "json"])).expect("it ends");
    must_say(&outcome.text().to_lowercase(), &["leftover", "ghost"]);
    world.docker(&["rm", "-f", &name]);
}
