//! While the gateway is away: what was in flight through it, and what the supervisors do without it.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::Stdio;
use std::time::Duration;

use openshell_e2e::gateway::free_address;
use openshell_e2e::wait;
use rustix::process::Signal;

use crate::world::{Half, IDLE, PATIENCE, World, cli};

#[test]
fn an_exec_in_flight_ends_with_an_unknown_outcome_and_never_with_zero() {
    let mut world = World::new("s4-exec");
    world.create("box", &[], IDLE);
    for signal in [Signal::KILL, Signal::TERM] {
        let script = "echo begun; touch /tmp/begun; sleep 1000000";
        let exec = [
            "sandbox",
            "exec",
            "box",
            "--no-login-shell",
            "--",
            "sh",
            "-c",
            script,
        ];
        let connect = ["sandbox", "connect", "box"];
        let clients = [&exec[..], &connect[..]].map(|words| {
            let mut client = cli(&world, words);
            client
                .stdin(Stdio::null())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped());
            client.spawn().expect("the CLI")
        });
        wait::until("the command to run", PATIENCE, || {
            Ok((world.shell("box", "rm /tmp/begun").code == 0).then_some(()))
        })
        .expect("it runs");
        world.gateway.end(signal).expect("it ends");
        for (client, words) in clients.into_iter().zip(["unknown", "not known"]) {
            let output = client.wait_with_output().expect("it ends");
            let said = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(125), "{signal:?}: {said}");
            assert!(said.contains(words), "{signal:?}: {said}");
        }
        world.gateway.launch().expect("it comes back");
        world.wait_phase("box", "Ready", PATIENCE);
        // Nobody follows it any more: it is ended.
        wait::until("the command to be ended", PATIENCE, || {
            Ok((world.shell("box", "ps | grep -q 'sleep 100000[0]$'").code == 0).then_some(()))
        })
        .expect("main is still there");
        let count = "ps | grep -c 'sleep 100000[0]$'";
        wait::until("only main to be left", PATIENCE, || {
            Ok((world.shell("box", count).text() == "1").then_some(()))
        })
        .unwrap_or_else(|error| panic!("{error:#}: {}", world.said("box", "ps")));
    }
    assert_eq!(world.record("box")["generation"], 1);
    world.delete("box");
    world.nothing_is_left();
}

/// Sends a line through a forward and gives what comes back; none if nothing does.
fn echoed(stream: &mut TcpStream) -> Option<String> {
    stream.set_read_timeout(Some(Duration::from_secs(5))).ok()?;
    stream.write_all(b"hello\n").ok()?;
    let mut answer = [0; 6];
    stream.read_exact(&mut answer).ok()?;
    Some(String::from_utf8_lossy(&answer).into_owned())
}

#[test]
fn a_forward_breaks_with_the_gateway_and_serves_again_when_it_is_back() {
    let mut world = World::new("s4-forward");
    let main = ["sh", "-c", "while :; do nc -l -p 8080 -e cat; done"];
    world.create("box", &[], &main);
    let address = free_address().expect("a port");
    let ports = format!("{}:8080", address.port());
    let mut forward = cli(&world, &["forward", "start", &ports, "box"]);
    let mut forward = forward
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the CLI");
    let connected = || {
        let mut stream = TcpStream::connect(address)?;
        Ok(echoed(&mut stream).map(|_| stream))
    };
    let through = || {
        let tried: anyhow::Result<Option<TcpStream>> = connected();
        Ok(tried.unwrap_or_default())
    };
    let mut stream = wait::until("the forward", PATIENCE, through).expect("it serves");
    assert_eq!(echoed(&mut stream).as_deref(), Some("hello\n"));
    world.gateway.end(Signal::KILL).expect("it dies");
    // It does not hang: the connection is over.
    let mut rest = Vec::new();
    let over = stream.read_to_end(&mut rest);
    let reset = matches!(&over, Err(e) if e.kind() == ErrorKind::ConnectionReset);
    assert!(over.is_ok() || reset, "{over:?}");
    world.gateway.launch().expect("it comes back");
    world.wait_phase("box", "Ready", PATIENCE);
    wait::until("the forward to serve again", PATIENCE, through).expect("it serves again");
    forward.kill().expect("it runs still");
    forward.wait().expect("it has ended");
    world.delete("box");
    world.nothing_is_left();
}

#[test]
fn a_supervisor_without_a_gateway_goes_on_enforcing() {
    let mut world = World::new("s4-enforce");
    let template = "{{(index .IPAM.Config 0).Gateway}}";
    let inspect = ["network", "inspect", "bridge", "--format", template];
    let address = world.docker(&inspect).text();
    let listener = TcpListener::bind((address.as_str(), 0)).expect("a listener of our own");
    listener.set_nonblocking(true).expect("non-blocking");
    let port = listener.local_addr().expect("an address").port();
    let script = format!(
        "while :; do read now rest < /proc/uptime; nc {address} {port} < /dev/null 2> /tmp/why; \
         echo $? $now $(cat /tmp/why) >> /sandbox/tries; usleep 100000; done"
    );
    world.create("box", &[], &["sh", "-c", &script]);
    world.gateway.end(Signal::KILL).expect("it dies");
    let tries = |world: &World| {
        let text = world.file_by_engine("box", "/sandbox/tries");
        text.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    let before = tries(&world).len();
    wait::until("ten tries without a gateway", PATIENCE, || {
        Ok((tries(&world).len() >= before + 10).then_some(()))
    })
    .expect("it goes on");
    for line in tries(&world) {
        assert!(line.starts_with("1 ") && line.contains("refused"), "{line}");
    }
    let seen = listener
        .accept()
        .expect_err("the listener saw a connection");
    assert_eq!(seen.kind(), ErrorKind::WouldBlock);
    world.gateway.launch().expect("it comes back");
    world.wait_phase("box", "Ready", PATIENCE);
    // What was refused meanwhile is in the log.
    let log = wait::until("the refusals in the log", PATIENCE, || {
        let log = world.ok(&["logs", "box"]).text();
        Ok(log.contains(&format!("{address}:{port}")).then_some(()))
    });
    log.unwrap_or_else(|error| panic!("{error:#}"));
    world.delete("box");
    world.nothing_is_left();
}

/// What the journal says of an end for want of a gateway.
const GAVE_UP: &str = "it had reached no gateway for longer than gateway_outage_limit";

#[test]
fn a_gateway_that_stays_away_too_long_ends_the_runs_and_the_journal_says_so() {
    let limit = "[openshell.lifecycle]\ngateway_outage_limit_secs = 2\nstop_grace_secs = 1\n";
    for (name, restore) in [("s4-limit", ""), ("s4-limit-none", "restore = \"none\"\n")] {
        let mut world = World::with(name, |settings| settings.more = format!("{limit}{restore}"));
        // One heeds the word to end, one does not, one answers it with a code of its own.
        let tail = "echo run >> /sandbox/boots; while :; do usleep 100000; done";
        for (name, trap) in [
            ("plain", ""),
            ("deaf", "trap '' TERM; "),
            ("odd", "trap 'exit 3' TERM; "),
        ] {
            world.create(
                name,
                &["--restart-policy", "never"],
                &["sh", "-c", &format!("{trap}{tail}")],
            );
        }
        world.gateway.end(Signal::KILL).expect("it dies");
        for name in ["plain", "deaf", "odd"] {
            for half in [Half::Supervisor, Half::Workload] {
                world.wait_gone(name, half);
            }
            let supervisor = world.inspect(&world.container(name, Half::Supervisor));
            assert_eq!(supervisor["State"]["ExitCode"], 75);
        }
        world.gateway.launch().expect("it comes back");
        for name in ["plain", "deaf", "odd"] {
            if restore.is_empty() {
                let record = world.wait_run(name, 2);
                assert_eq!(record["reason"], "Restored", "{record}");
                world.wait_boots(name, 2);
            } else {
                let record = world.wait_phase(name, "Error", PATIENCE);
                assert_eq!(record["reason"], "GatewayUnreachable", "{record}");
                assert_eq!(record["last_exit"]["cause"], "contained", "{record}");
                world.ok(&["sandbox", "start", name]);
            }
            let events = world.events(name);
            assert!(events.contains(GAVE_UP), "{name}: {events}");
        }
        world.ok(&["sandbox", "delete", "--all", "--yes"]);
        world.nothing_is_left();
    }
}
