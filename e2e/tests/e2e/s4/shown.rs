//! What users are shown while a gateway that is back awaits a supervisor.

use std::process::{Child, Stdio};

use openshell_e2e::{ticks, wait};
use rustix::process::{Pid, Signal, kill_process};

use crate::world::{Half, PATIENCE, World, cli};

/// A supervisor that does nothing until this is dropped.
struct Halted(Pid);

impl Halted {
    fn of(world: &World, name: &str) -> Self {
        let pid = world.process(name, Half::Supervisor);
        kill_process(pid, Signal::STOP).expect("it is stopped");
        Self(pid)
    }
}

impl Drop for Halted {
    fn drop(&mut self) {
        let _ = kill_process(self.0, Signal::CONT);
    }
}

fn ended(child: &mut Child) -> i32 {
    let end = || Ok(child.try_wait()?);
    let status = wait::until("the CLI to end", PATIENCE, end).expect("it ends");
    status.code().expect("not by a signal")
}

#[test]
fn s4_g_nothing_is_called_ready_before_it_is_proven_and_the_words_say_what_is_awaited() {
    let mut world = World::new("s4-g");
    world.create("box", &[], ticks::MAIN);
    world.create("other", &[], ticks::MAIN);
    let file = tempfile::NamedTempFile::new().expect("a file");
    let mut list = cli(&world, &["sandbox", "list", "--watch"]);
    let mut list = list
        .stdout(file.reopen().expect("a file"))
        .stderr(Stdio::null())
        .spawn()
        .expect("the CLI");
    let halted = Halted::of(&world, "box");
    world.gateway.end(Signal::KILL).expect("it dies");
    world.gateway.launch().expect("it comes back");
    let record = world.record("box");
    assert_eq!(record["phase"], "Provisioning", "{record}");
    assert_eq!(record["reason"], "SupervisorNotConnected", "{record}");
    let message = record["message"].as_str().unwrap_or_default();
    assert!(message.contains("awaited"), "{message}");
    // It delays no other.
    world.wait_phase("other", "Ready", PATIENCE);
    assert_eq!(world.said("other", "echo here"), "here");

    let exec = world.shell("box", "true");
    assert_ne!(exec.code, 0);
    assert!(exec.errors().contains("Provisioning"), "{}", exec.errors());
    assert!(exec.errors().contains("awaited"), "{}", exec.errors());
    let table = world.ok(&["sandbox", "list"]).text();
    let row = table.lines().find(|row| row.starts_with("box"));
    assert!(
        row.is_some_and(|row| row.contains("Provisioning")),
        "{table}"
    );
    // The gateway itself is well, and says so.
    let (code, page) = world.gateway.page("/readyz").expect("a page");
    assert_eq!((code, page.as_str()), (200, "ready\n"));
    let status = world.ok(&["status"]).text();
    assert!(status.contains("Healthy"), "{status}");
    let doctor = world.run(&["doctor"]).text();
    assert!(
        doctor.contains("\"box\"") && doctor.contains("supervisor"),
        "the doctor says nothing of it: {doctor}"
    );
    let mut wait_for = cli(&world, &["sandbox", "wait", "box", "--for", "ready"]);
    let mut wait_for = wait_for.stdout(Stdio::null()).spawn().expect("the CLI");
    let in_vain = ["sandbox", "wait", "box", "--for", "ready", "--timeout", "1"];
    let in_vain = world.run(&in_vain);
    assert_eq!(in_vain.code, 124, "{}", in_vain.errors());
    assert!(
        in_vain.errors().contains("SupervisorNotConnected"),
        "{}",
        in_vain.errors()
    );
    assert_eq!(world.phase("box"), "Provisioning");

    drop(halted);
    assert_eq!(ended(&mut wait_for), 0);
    let record = world.record("box");
    assert_eq!(record["reason"], "Adopted", "{record}");
    assert_eq!(record["generation"], 1);
    world.wait_boots("box", 1);
    let shown = wait::until("the list to show it", PATIENCE, || {
        let shown = std::fs::read_to_string(file.path())?;
        let rows: Vec<_> = shown.lines().filter(|row| row.starts_with("box")).collect();
        let told = rows.len() > 1 && rows.last().is_some_and(|row| row.contains("Ready"));
        Ok(told.then(|| rows.join("\n")))
    });
    list.kill().expect("it runs still");
    list.wait().expect("it has ended");
    let shown = shown.unwrap_or_else(|error| panic!("{error:#}"));
    assert!(shown.contains("Provisioning"), "{shown}");
    world.ok(&["sandbox", "delete", "--all", "--yes"]);
    world.nothing_is_left();
}
