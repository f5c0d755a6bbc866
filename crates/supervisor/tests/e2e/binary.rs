//! The built binary as a process: bootstrap, memory, log, signals.

use std::io::Read as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use openshell_api::session::RelayTarget;
use openshell_proto::link::ProcessSpec;
use rustix::process::{Pid, Signal, kill_process};

use crate::gateway::Gateway;
use crate::pair::{World, within};

/// A release build may be tried instead.
fn binary() -> String {
    std::env::var("OPENSHELL_TEST_SUPERVISOR")
        .unwrap_or_else(|_| env!("CARGO_BIN_EXE_openshell-supervisor").to_owned())
}

#[tokio::test]
async fn it_unlinks_its_bootstrap_keeps_small_logs_json_and_ends_at_once_when_told() {
    let world = World::new();
    let gateway = Gateway::start(&world).await;
    let file = world.directory.path().join("supervisor.json");
    let bootstrap = world.bootstrap(&gateway.endpoint());
    std::fs::write(&file, serde_json::to_vec(&bootstrap).unwrap()).unwrap();
    let mut child = Command::new(binary())
        .arg("--bootstrap")
        .arg(&file)
        .arg("--link-directory")
        .arg(world.directory.path())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let started = Instant::now();
    let mut sandbox = world.sandbox();
    sandbox.dial(&world.socket()).await;
    gateway.fence.seen("MainStarted").await;
    let ready = started.elapsed();
    assert!(!file.exists());

    let target = RelayTarget::Exec(ProcessSpec {
        argv: vec!["echo".to_owned()],
        ..ProcessSpec::default()
    });
    let opening = Instant::now();
    let relay = gateway.hub.open(world.sandbox, world.generation, target);
    let relay = relay.await.unwrap();
    let opened = opening.elapsed();
    let rss = resident_kib(child.id());
    drop(relay);

    let pid = Pid::from_child(&child);
    let told = Instant::now();
    kill_process(pid, Signal::TERM).unwrap();
    let status = within("it ends", async {
        loop {
            if let Some(status) = child.try_wait().unwrap() {
                break status;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    })
    .await;
    println!(
        "start to main {ready:?}, relay opened in {opened:?}, {rss} KiB resident, ended in {:?}",
        told.elapsed()
    );
    assert!(status.success(), "{status}");
    assert!(told.elapsed() < Duration::from_secs(2));
    assert!(rss < 24 << 10, "{rss} KiB");
    assert!(!world.socket().exists());
    let mut log = String::new();
    child
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut log)
        .unwrap();
    assert!(log.contains("supervising"), "{log}");
    for line in log.lines() {
        let _: serde_json::Value = serde_json::from_str(line).unwrap();
    }
    for secret in [bootstrap.gateway_token, bootstrap.link_secret] {
        assert!(!log.contains(&secret), "a secret is in the log");
    }
}

#[test]
fn without_a_bootstrap_it_says_so_and_fails() {
    let output = Command::new(binary())
        .args(["--bootstrap", "/nowhere/supervisor.json"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    let log = String::from_utf8(output.stderr).unwrap();
    assert!(log.contains("/nowhere/supervisor.json"), "{log}");
}

#[test]
fn an_unknown_argument_is_a_usage_error() {
    let output = Command::new(binary()).arg("--nonsense").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
}

fn resident_kib(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|l| l.starts_with("VmRSS")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}
