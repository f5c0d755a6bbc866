//! A person at a terminal: closing it ends what runs in it, and an interrupt takes back what is not ready yet.

use std::fs::File;
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use openshell_e2e::{command, wait};
use rustix::process::{Pid, Signal};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

use crate::world::{IDLE, PATIENCE, World, cli};

/// Starts the CLI as the leader of a session with a terminal of its own; the other end is held by the caller.
fn at_a_terminal(world: &World, words: &[&str]) -> (Child, OwnedFd) {
    let near = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC);
    let near = near.expect("a terminal");
    grantpt(&near).expect("a terminal");
    unlockpt(&near).expect("a terminal");
    let path = ptsname(&near, Vec::new()).expect("a name");
    let path = path.to_str().expect("a name").to_owned();
    let far = || {
        File::options()
            .read(true)
            .write(true)
            .open(&path)
            .expect("its other end")
    };
    let plain = cli(world, words);
    let mut command = Command::new("setsid");
    command
        .arg("--ctty")
        .arg(plain.get_program())
        .args(plain.get_args());
    for (key, value) in plain.get_envs() {
        match value {
            Some(value) => command.env(key, value),
            None => command.env_remove(key),
        };
    }
    command.stdin(far()).stdout(far()).stderr(far());
    (command.spawn().expect("setsid"), near)
}

fn runs(world: &World, what: &str) -> bool {
    world.shell("box", &format!("ps | grep '[ ]{what}'")).code == 0
}

#[test]
fn a_closed_terminal_ends_the_process_that_was_started_from_it() {
    let world = World::new("closed-terminal");
    world.create("box", &[], IDLE);
    for (mark, tty) in [("7171717", "--tty"), ("7272727", "--no-tty")] {
        let words = [
            "sandbox",
            "exec",
            "box",
            tty,
            "--no-login-shell",
            "--",
            "sleep",
            mark,
        ];
        let (mut child, terminal) = at_a_terminal(&world, &words);
        let what = format!("sleep {mark}");
        wait::until("the process to run", PATIENCE, || {
            Ok(runs(&world, &what).then_some(()))
        })
        .expect("it runs");
        drop(terminal);
        wait::until("the client to end", PATIENCE, || Ok(child.try_wait()?))
            .unwrap_or_else(|error| panic!("{tty}: {error:#}"));
        wait::until("the process to end", Duration::from_secs(10), || {
            Ok((!runs(&world, &what)).then_some(()))
        })
        .unwrap_or_else(|error| panic!("{tty}: {error:#}"));
    }
    assert_eq!(world.phase("box"), "Ready");
    world.delete("box");
    world.nothing_is_left();
}

/// Sends an interrupt and gives the exit code; the sandbox must then be gone.
fn interrupt(world: &World, mut create: Child) -> i32 {
    rustix::process::kill_process(Pid::from_child(&create), Signal::INT).expect("a signal");
    let status = wait::until("create to end", PATIENCE, || Ok(create.try_wait()?));
    wait::until("the sandbox to be gone", PATIENCE, || {
        Ok((world.run(&["sandbox", "get", "box"]).code == 3).then_some(()))
    })
    .unwrap_or_else(|error| panic!("{error:#}"));
    world.nothing_is_left();
    command::exit_code(status.expect("an end"))
}

fn create(world: &World, words: &[&str]) -> Child {
    let mut create = cli(
        world,
        &[&["sandbox", "create", "--name", "box"], words].concat(),
    );
    create
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    create.spawn().expect("the CLI")
}

#[test]
fn an_interrupt_during_a_pull_takes_the_sandbox_back() {
    // A registry that accepts and never answers.
    let registry = TcpListener::bind("127.0.0.1:0").expect("a port");
    let image = format!("{}/x/y:1", registry.local_addr().expect("an address"));
    let world = World::new("interrupted-pull");
    for detach in [&["--detach"] as &[&str], &[]] {
        let words = [&["--from", &image], detach, &["--", "true"]].concat();
        let child = create(&world, &words);
        // The engine is at the registry's door: this is the pull.
        let (_held, _) = registry.accept().expect("the engine's connection");
        let started = Instant::now();
        assert_eq!(interrupt(&world, child), 130, "{detach:?}");
        assert!(started.elapsed() < Duration::from_secs(15), "{detach:?}");
    }
}

#[test]
fn an_interrupt_at_each_phase_before_ready_takes_the_sandbox_back() {
    let world = World::new("interrupted-phase");
    for phase in ["Provisioning", "Starting"] {
        for detach in [&["--detach"] as &[&str], &["--no-tty"]] {
            let child = create(&world, &[detach, &["--"], IDLE].concat());
            let seen = wait::until("the sandbox to be on its way", PATIENCE, || {
                let got = world.run(&["sandbox", "get", "box", "-o", "json"]);
                let now = if got.code == 0 {
                    got.json()?
                } else {
                    return Ok(None);
                };
                let now = now["phase"].as_str().unwrap_or_default().to_owned();
                Ok((now == phase || now == "Ready").then_some(now))
            });
            if seen.expect("a phase") == phase {
                interrupt(&world, child);
            } else {
                // It was quicker than we looked.
                end(child);
                world.delete("box");
            }
        }
    }
    world.nothing_is_left();
}

fn end(mut child: Child) {
    let _ = child.kill();
    let _ = child.wait();
}
