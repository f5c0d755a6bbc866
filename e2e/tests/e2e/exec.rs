//! Exec as its users feel it: status, streams, ends, signals.

use std::process::Stdio;
use std::time::{Duration, Instant};

use openshell_e2e::{command, wait};
use rustix::process::{Pid, Signal};

use crate::world::{IDLE, PATIENCE, World, cli};

#[test]
fn exec_returns_the_commands_own_status() {
    let world = World::new("status");
    world.create("box", &[], IDLE);
    world.said("box", "echo text > /sandbox/plain");
    let exec = ["sandbox", "exec", "box", "--no-login-shell"];
    let cases: [(&[&str], i32); 7] = [
        (&["--", "true"], 0),
        (&["--", "false"], 1),
        (&["--", "sh", "-c", "exit 42"], 42),
        (&["--", "sh", "-c", "kill -TERM $$"], 143),
        (&["--", "no-such-program"], 127),
        (&["--", "/sandbox/plain"], 126),
        (&["--timeout", "1", "--", "sleep", "60"], 124),
    ];
    for (words, code) in cases {
        let outcome = world.run(&[&exec, words].concat());
        assert_eq!(outcome.code, code, "{words:?}: {}", outcome.errors());
    }
    let nothing = world.run(&exec);
    assert_eq!(nothing.code, 2, "exec of nothing: {}", nothing.errors());
    world.delete("box");
    world.nothing_is_left();
}

#[test]
fn exec_carries_arguments_environment_and_directory_as_they_are() {
    let world = World::new("verbatim");
    world.create("box", &[], IDLE);
    let words = ["a b", "", "$HOME", "'\"\\", "*", "-x"];
    for login in [true, false] {
        let mut command = vec![
            "sandbox",
            "exec",
            "box",
            "--workdir",
            "/tmp",
            "--env",
            "K=v w",
        ];
        if !login {
            command.push("--no-login-shell");
        }
        let mut printing = command.clone();
        printing.extend(["--", "printf", "[%s]"]);
        printing.extend(words);
        assert_eq!(
            world.ok(&printing).text(),
            "[a b][][$HOME]['\"\\][*][-x]",
            "login: {login}"
        );
        let mut looking = command;
        looking.extend(["--", "sh", "-c", "pwd; echo $K"]);
        assert_eq!(world.ok(&looking).text(), "/tmp\nv w", "login: {login}");
    }
    world.delete("box");
    world.nothing_is_left();
}

#[test]
fn stdin_has_a_real_end_and_may_never_end() {
    let world = World::new("stdin");
    world.create("box", &[], IDLE);
    let words = ["sandbox", "exec", "box", "--", "cat"];
    let outcome =
        command::run_with(&mut cli(&world, &words), b"one\ntwo", PATIENCE).expect("it ends");
    assert_eq!(
        (outcome.code, outcome.stdout.as_slice()),
        (0, b"one\ntwo".as_slice())
    );

    // A stdin that never ends does not keep a command that does not read it.
    let mut child = cli(&world, &["sandbox", "exec", "box", "--", "echo", "done"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the CLI");
    let held = child.stdin.take();
    let started = Instant::now();
    let status = wait::until("the CLI to end", Duration::from_secs(10), || {
        Ok(child.try_wait()?)
    });
    drop(held);
    assert!(status.expect("an end").success());
    assert!(started.elapsed() < Duration::from_secs(5));
    world.delete("box");
    world.nothing_is_left();
}

#[test]
fn the_process_of_a_killed_client_ends() {
    let world = World::new("killed-client");
    world.create("box", &[], IDLE);
    let words = [
        "sandbox",
        "exec",
        "box",
        "--no-login-shell",
        "--",
        "sleep",
        "7654321",
    ];
    let mut child = cli(&world, &words)
        .stdin(Stdio::null())
        .spawn()
        .expect("the CLI");
    let runs = || world.shell("box", "ps | grep 'sleep 765432[1]'").code == 0;
    wait::until("the process to run", PATIENCE, || Ok(runs().then_some(()))).expect("it runs");
    child.kill().expect("the client dies");
    child.wait().expect("the client is gone");
    wait::until("the process to end", Duration::from_secs(10), || {
        Ok((!runs()).then_some(()))
    })
    .expect("the process of a killed client goes on");
    world.delete("box");
    world.nothing_is_left();
}

#[test]
fn an_interrupt_reaches_the_process_and_the_client_ends_with_it() {
    let world = World::new("interrupt");
    world.create("box", &[], IDLE);
    let script = "trap 'echo interrupted; exit 9' INT; echo ready; while :; do usleep 50000; done";
    let words = [
        "sandbox",
        "exec",
        "box",
        "--no-login-shell",
        "--",
        "sh",
        "-c",
        script,
    ];
    let mut child = cli(&world, &words)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the CLI");
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(
        child.stdout.take().expect("stdout"),
    ));
    assert_eq!(lines.next().expect("a line").expect("text"), "ready");
    rustix::process::kill_process(Pid::from_child(&child), Signal::INT).expect("a signal");
    assert_eq!(lines.next().expect("a line").expect("text"), "interrupted");
    assert_eq!(command::exit_code(child.wait().expect("an end")), 9);
    world.delete("box");
    world.nothing_is_left();
}

#[test]
fn output_that_nobody_reads_does_not_pile_up_anywhere() {
    let world = World::new("unread");
    world.create("box", &[], IDLE);
    let words = [
        "sandbox",
        "exec",
        "box",
        "--no-login-shell",
        "--",
        "cat",
        "/dev/zero",
    ];
    let mut child = cli(&world, &words)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the CLI");
    wait::pause(Duration::from_secs(2));
    let gateway = world.gateway.pid().expect("a gateway");
    let memory = openshell_e2e::host::memory(gateway).expect("its memory");
    assert!(
        memory.resident_kib < 64 * 1024,
        "the gateway holds {} KiB",
        memory.resident_kib
    );
    child.kill().expect("the client dies");
    child.wait().expect("it is gone");
    world.delete("box");
    world.nothing_is_left();
}
