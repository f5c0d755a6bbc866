//! The boundary: what the engine shows of the two halves, and what the agent finds inside.

use std::io::ErrorKind;
use std::net::TcpListener;
use std::time::{Duration, Instant};

use openshell_e2e::image::Recipe;
use openshell_e2e::wait;
use serde_json::json;

use crate::world::{Half, IDLE, World, make_image};

#[test]
fn the_engine_shows_both_halves_without_rights() {
    let world = World::new("inspected");
    world.create("box", &["--cpu", "500m", "--memory", "128Mi"], IDLE);
    for half in [Half::Workload, Half::Supervisor] {
        let seen = world.inspect(&world.container("box", half));
        let host = &seen["HostConfig"];
        assert_eq!(host["CapDrop"], json!(["ALL"]), "{half:?}");
        assert_eq!(host["CapAdd"], json!(null), "{half:?}");
        assert_eq!(host["Privileged"], false, "{half:?}");
        let security = host["SecurityOpt"].to_string();
        assert!(
            security.contains("no-new-privileges"),
            "{half:?}: {security}"
        );
        assert!(!security.contains("unconfined"), "{half:?}: {security}");
        let restart = host["RestartPolicy"]["Name"].as_str().unwrap_or_default();
        assert!(["", "no"].contains(&restart), "{half:?}: {restart}");
        let user = seen["Config"]["User"].as_str().unwrap_or_default();
        assert!(
            !user.is_empty() && user != "root" && !user.starts_with("0"),
            "{half:?}: {user}"
        );
        let binds = host["Binds"].to_string();
        assert!(!binds.contains("docker.sock"), "{half:?}: {binds}");
    }
    let workload = world.inspect(&world.container("box", Half::Workload));
    assert_eq!(workload["HostConfig"]["NetworkMode"], "none");
    assert_eq!(workload["HostConfig"]["Memory"], 128 * 1024 * 1024);
    assert_eq!(workload["HostConfig"]["PidsLimit"], 2048);
    let supervisor = world.inspect(&world.container("box", Half::Supervisor));
    assert_eq!(supervisor["HostConfig"]["NetworkMode"], "host");
    assert_eq!(supervisor["HostConfig"]["ReadonlyRootfs"], true);
    world.delete("box");
    world.nothing_is_left();
}

#[test]
fn the_agent_finds_no_rights_no_way_out_and_no_secret() {
    let world = World::new("inside");
    world.create("box", &[], IDLE);
    let status = world.said("box", "cat /proc/self/status");
    for set in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
        assert!(
            status.contains(&format!("{set}:\t0000000000000000")),
            "{status}"
        );
    }
    assert!(status.contains("NoNewPrivs:\t1"), "{status}");
    assert!(status.contains("Seccomp:\t2"), "{status}");
    assert_eq!(world.said("box", "tail -n +2 /proc/net/route"), "");
    assert_eq!(
        world.said("box", "tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' '"),
        "lo"
    );
    // Each must fail; what it printed goes to the message.
    for attempt in [
        "ls /.openshell",
        "cat /.openshell/boot/sandbox.json",
        "ls /.openshell/bin",
        "echo x > /etc/made",
        "echo x > /made",
        "mkdir /bin/made",
        "cat /proc/1/environ",
        "cat /proc/1/mem",
        "kill -9 1",
        "kill -STOP 1",
        "mount -t tmpfs none /tmp",
        "unshare true",
        "chroot / true",
        "cat /run/openshell/supervisor.json",
    ] {
        let outcome = world.shell("box", attempt);
        assert_ne!(outcome.code, 0, "`{attempt}` succeeded: {}", outcome.text());
    }
    for allowed in [
        "echo x > /sandbox/made",
        "echo x > /tmp/made",
        "echo x > /dev/null",
    ] {
        assert_eq!(world.shell("box", allowed).code, 0, "`{allowed}` failed");
    }
    assert_eq!(world.phase("box"), "Ready");
    world.delete("box");
    world.nothing_is_left();
}

#[test]
fn a_connect_to_a_listener_outside_is_refused_logged_and_never_seen() {
    let world = World::new("egress");
    world.create("box", &[], IDLE);
    let template = "{{(index .IPAM.Config 0).Gateway}}";
    let address = world
        .docker(&["network", "inspect", "bridge", "--format", template])
        .text();
    let listener = TcpListener::bind((address.as_str(), 0)).expect("a listener on our own bridge");
    listener.set_nonblocking(true).expect("non-blocking");
    let port = listener.local_addr().expect("an address").port();

    // The reason must be a refusal at once, not a time-out.
    let refused = world.shell("box", &format!("nc {address} {port} </dev/null"));
    assert_ne!(refused.code, 0);
    assert!(refused.errors().contains("refused"), "{}", refused.errors());
    let one_attempt = format!("nc {address} {port} </dev/null 2>/dev/null");
    let script = format!("i=0; while [ $i -lt 40 ]; do {one_attempt}; i=$((i+1)); done; exit 9");
    let started = Instant::now();
    assert_eq!(world.shell("box", &script).code, 9);
    let each = started.elapsed() / 40;
    assert!(each < Duration::from_millis(50), "a refusal takes {each:?}");

    let seen = listener
        .accept()
        .expect_err("the listener saw a connection");
    assert_eq!(seen.kind(), ErrorKind::WouldBlock);
    let destination = format!("{address}:{port}");
    let logged = wait::until("the denial in the log", Duration::from_secs(10), || {
        let log = world.ok(&["logs", "box"]).text();
        Ok(log
            .lines()
            .find(|line| line.contains(&destination))
            .map(str::to_owned))
    })
    .expect("a log line");
    assert!(
        logged.contains("busybox") || logged.contains("/bin/nc"),
        "no binary in: {logged}"
    );
    world.delete("box");
    world.nothing_is_left();
}

fn assert_unknown(world: &World, lookup: &str) {
    let lookup = world.shell("box", lookup);
    let said = lookup.text() + &lookup.errors();
    assert!(said.contains("NXDOMAIN"), "{said}");
}

#[test]
fn names_are_asked_of_nobody_else_whatever_the_image_says() {
    make_image(&Recipe {
        files: &[("etc/resolv.conf", b"nameserver 192.0.2.53\n", 0o644)],
        ..Recipe::usual("openshell-dev/resolver:1")
    });
    let world = World::new("resolver");
    world.create("box", &["--from", "openshell-dev/resolver:1"], IDLE);
    assert_unknown(&world, "nslookup example.com");
    world.delete("box");
    world.nothing_is_left();
}

#[test]
fn names_do_not_resolve_and_loopback_works() {
    let world = World::new("names");
    world.create("box", &[], IDLE);
    assert_unknown(&world, "nslookup example.com");
    assert_unknown(&world, "nslookup example.com 127.0.0.53");
    let interfaces = "tail -n +3 /proc/net/dev | cut -d: -f1";
    assert_eq!(world.said("box", interfaces).trim(), "lo");
    let own = world.said("box", "nslookup localhost");
    assert!(own.contains("Address: 127.0.0.1"), "{own}");
    let talk = "echo over loopback | nc -l -p 8080 & sleep 1; nc 127.0.0.1 8080 </dev/null";
    assert_eq!(world.said("box", talk), "over loopback");
    world.delete("box");
    world.nothing_is_left();
}
