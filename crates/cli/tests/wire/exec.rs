//! `sandbox exec`: streams, signals, ends.

use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};

use openshell_proto::api::SandboxPhase as P;

use super::fake::Fake;
use super::run::{eventually, signal};

fn ready() -> Fake {
    Fake::start().with("demo", P::Ready)
}

#[test]
fn the_exit_code_of_exec_is_the_commands_own() {
    let fake = ready();
    for code in ["0", "1", "17", "126", "137", "255"] {
        let done = fake.run(&["sandbox", "exec", "demo", "--", "exit", code]);
        assert_eq!(done.code.to_string(), code, "{done:?}");
        assert_eq!((done.stdout.as_str(), done.stderr.as_str()), ("", ""));
    }
}

#[test]
fn stdout_and_stderr_stay_apart() {
    let done = ready().run(&["sandbox", "exec", "-n", "demo", "--", "speak"]);
    assert_eq!(
        (done.stdout.as_str(), done.stderr.as_str()),
        ("to stdout", "to stderr")
    );
}

#[test]
fn the_process_gets_what_was_asked_for() {
    let fake = ready();
    let done = fake.run(&[
        "sandbox",
        "exec",
        "demo",
        "--workdir",
        "/tmp",
        "--env",
        "A=b=c",
        "--no-login-shell",
        "--",
        "spec",
    ]);
    assert_eq!(
        done.stdout,
        r#"workdir=/tmp env={"A": "b=c"} tty=false login=false size=0x0"#
    );
    let done = fake.run(&["sandbox", "exec", "demo", "--tty", "--", "spec"]);
    assert_eq!(
        done.stdout,
        "workdir= env={} tty=true login=true size=80x24"
    );
}

#[test]
fn stdin_is_passed_on_whole_and_its_end_with_it() {
    let input: Vec<u8> = (0..8_000_000_u32).map(|i| (i % 251) as u8).collect();
    let output = ready().run_with(&["sandbox", "exec", "demo", "--", "cat"], &input);
    assert_eq!(output.status.code(), Some(0));
    assert!(
        output.stdout == input,
        "{} of {} bytes came back",
        output.stdout.len(),
        input.len()
    );
}

#[test]
fn an_empty_stdin_ends_at_once() {
    let done = ready().run(&["sandbox", "exec", "demo", "--", "cat"]);
    assert_eq!(done.code, 0, "{done:?}");
}

#[test]
fn a_signal_goes_to_the_process_and_its_end_is_ours() {
    for (name, number) in [("-INT", 2), ("-TERM", 15), ("-HUP", 1)] {
        let fake = ready();
        let mut child = fake.spawn(&["sandbox", "exec", "demo", "--", "hang"]);
        // Not before it listens to signals: it has by the time it reads from the gateway.
        eventually("the signal handler", || catches(child.id(), number));
        signal(&child, name);
        assert_eq!(child.wait().unwrap().code(), Some(128 + number));
        assert_eq!(fake.world.change(|s| s.signals.clone()), [number]);
    }
}

/// Whether a process has a handler for a signal.
fn catches(pid: u32, signal: i32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let mask = status
        .lines()
        .find_map(|l| l.strip_prefix("SigCgt:"))
        .unwrap_or("0");
    u64::from_str_radix(mask.trim(), 16).unwrap() & (1 << (signal - 1)) != 0
}

#[test]
fn a_killed_client_abandons_its_process() {
    let fake = ready();
    let mut child = fake.spawn(&["sandbox", "exec", "demo", "--", "hang"]);
    eventually("the process", || catches(child.id(), 2));
    child.kill().unwrap();
    child.wait().unwrap();
    eventually("its end", || fake.world.called("abandoned hang"));
}

#[test]
fn a_reader_that_has_seen_enough_ends_it() {
    let fake = ready();
    let mut child = fake.spawn(&["sandbox", "exec", "demo", "--", "flood"]);
    let mut stdout = child.stdout.take().unwrap();
    stdout.read_exact(&mut [0; 1000]).unwrap();
    drop(stdout);
    assert_eq!(child.wait().unwrap().code(), Some(141));
    eventually("its end", || fake.world.called("abandoned flood"));
}

#[test]
fn a_slow_reader_holds_the_process_back_and_our_memory_stays_small() {
    let fake = ready();
    let mut child = fake.spawn(&["sandbox", "exec", "demo", "--", "flood"]);
    let mut stdout = child.stdout.take().unwrap();
    stdout.read_exact(&mut vec![0; 20_000_000]).unwrap();
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    let peak = status
        .lines()
        .find_map(|l| l.strip_prefix("VmHWM:"))
        .unwrap();
    let kib: u64 = peak.trim().trim_end_matches(" kB").trim().parse().unwrap();
    // A debug build with symbols mapped; the stream itself may not add more than its windows.
    assert!(kib < 64 << 10, "{kib} KiB");
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_time_out_is_124_and_a_phase_that_forbids_it_is_4() {
    let fake = ready().with("still", P::Stopped);
    let done = fake.run(&["sandbox", "exec", "demo", "--timeout", "1", "--", "cat"]);
    assert_eq!(done.code, 124, "{done:?}");
    let done = fake.run(&["sandbox", "exec", "still", "--", "cat"]);
    assert_eq!(done.code, 4);
    assert!(done.stderr.contains("start it first"), "{done:?}");
    let done = fake.run(&["sandbox", "exec", "none", "--", "cat"]);
    assert_eq!(done.code, 3, "{done:?}");
}

#[test]
fn a_terminal_is_raw_while_the_process_runs_and_is_given_back() {
    let fake = ready();
    let exe = env!("CARGO_BIN_EXE_openshell");
    let script = format!(
        "stty cols 97 rows 31; stty -a | tr '\\n' ' '; echo; {exe} sandbox exec demo -- spec; echo; stty -a | tr '\\n' ' '"
    );
    let mut child = Command::new("script")
        .args(["-qec", &script, "/dev/null"])
        .env("OPENSHELL_GATEWAY_ENDPOINT", &fake.endpoint)
        .env("XDG_CONFIG_HOME", fake.dir.path())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines: Vec<String> = BufReader::new(child.stdout.take().unwrap())
        .lines()
        .map_while(Result::ok)
        .collect();
    child.wait().unwrap();
    let lines: Vec<&str> = lines
        .iter()
        .map(|l| l.trim())
        .filter(|l| !l.is_empty())
        .collect();
    assert!(lines[1].contains("tty=true"), "{lines:?}");
    assert!(lines[1].contains("size=97x31"), "{lines:?}");
    assert_eq!(lines[0], lines[2]);
}
