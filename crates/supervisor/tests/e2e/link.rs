//! The link to the sandbox: who is let in, what a break means.

use std::time::Duration;

use openshell_core::token::Audience;
use openshell_proto::link::control_from_sandbox::Message;
use openshell_proto::link::{LogLine, NameQuestion, control_from_supervisor};
use openshell_supervisor::{Outcome, Settings};
use tokio::io::AsyncReadExt as _;
use tokio::net::UnixStream;

use crate::gateway::Gateway;
use crate::pair::{Pair, SECRET, World, within};
use crate::sandbox::{FakeSandbox, Posture};

#[tokio::test]
async fn a_broken_link_is_attached_again_by_the_same_instance_without_a_second_main() {
    let mut pair = Pair::ready().await;
    pair.sandbox.hang_up();
    pair.gateway.fence.seen("Link(false)").await;
    pair.sandbox.dial(&pair.world.socket()).await;
    pair.gateway.fence.seen("Link(true)").await;
    let seen = pair
        .sandbox
        .sees("attached", |s| s.attached.len() == 2)
        .await;
    assert_eq!(seen.attached[0], seen.attached[1]);
    assert_eq!(seen.main.len(), 1);
}

#[tokio::test]
async fn a_link_that_does_not_come_back_fails_the_run() {
    let mut world = World::new();
    world.timings.link_again = Duration::from_millis(200);
    let mut pair = Pair::ready_in(world).await;
    pair.sandbox.hang_up();
    assert_eq!(pair.supervisor.ended().await, Outcome::Failed);
    pair.gateway.fence.seen("Failed(\"LinkLost\"").await;
    assert_eq!(Outcome::Failed.exit_code(), 70);
}

#[tokio::test]
async fn a_sandbox_that_never_dials_fails_the_run_before_any_hello() {
    let mut world = World::new();
    world.timings.link_first = Duration::from_millis(100);
    let gateway = Gateway::start(&world).await;
    let mut supervisor = world.supervise(world.bootstrap(&gateway.endpoint()));
    assert_eq!(supervisor.ended().await, Outcome::Failed);
    gateway.fence.seen("Failed(\"LinkTimedOut\"").await;
    gateway.fence.seen("Refused NotEnforced").await;
    let (lines, _) = gateway.hub.logs(world.sandbox, 10);
    assert_eq!(lines[0].line.level, "error");
    assert!(lines[0].line.time.is_some());
}

#[tokio::test]
async fn a_posture_with_a_hole_starts_nothing_and_names_the_hole() {
    let world = World::new();
    let gateway = Gateway::start(&world).await;
    let mut supervisor = world.supervise(world.bootstrap(&gateway.endpoint()));
    let mut sandbox = FakeSandbox::new(&world, Posture::WithoutEgress, SECRET);
    sandbox.dial(&world.socket()).await;
    assert_eq!(supervisor.ended().await, Outcome::Failed);
    gateway.fence.seen("egress_interception").await;
    let seen = sandbox.sees("anything", |_| true).await;
    assert!(seen.main.is_empty());
}

#[tokio::test]
async fn a_sandbox_that_refuses_the_token_fails_the_run() {
    let world = World::new();
    let gateway = Gateway::start(&world).await;
    let mut bootstrap = world.bootstrap(&gateway.endpoint());
    bootstrap.sandbox_token = world.token(Audience::Gateway, world.sandbox, world.generation);
    let mut supervisor = world.supervise(bootstrap);
    let mut sandbox = world.sandbox();
    sandbox.dial(&world.socket()).await;
    assert_eq!(supervisor.ended().await, Outcome::Failed);
    gateway.fence.seen("Failed(\"LinkRefused\"").await;
}

#[tokio::test]
async fn a_sandbox_already_bound_to_another_supervisor_refuses_a_new_one() {
    let mut pair = Pair::ready().await;
    pair.supervisor.term.cancel();
    assert_eq!(pair.supervisor.ended().await, Outcome::Terminated);
    let bootstrap = pair.world.bootstrap(&pair.gateway.endpoint());
    let mut second = pair.world.supervise(bootstrap);
    pair.sandbox.dial(&pair.world.socket()).await;
    assert_eq!(second.ended().await, Outcome::Failed);
    pair.gateway
        .fence
        .seen("already bound to another supervisor process")
        .await;
}

#[tokio::test]
async fn whoever_does_not_hold_the_link_secret_is_dropped_and_the_sandbox_still_gets_in() {
    let world = World::new();
    let gateway = Gateway::start(&world).await;
    let supervisor = world.supervise(world.bootstrap(&gateway.endpoint()));
    let mut impostor = FakeSandbox::new(&world, Posture::Complete, [8; 32]);
    impostor.dial(&world.socket()).await;
    impostor
        .sees("it was asked", |s| !s.attached.is_empty())
        .await;
    let mut sandbox = world.sandbox();
    sandbox.dial(&world.socket()).await;
    gateway.fence.seen("MainStarted").await;
    let seen = impostor.sees("anything", |_| true).await;
    assert!(seen.main.is_empty());
    assert!(supervisor.running());
}

#[tokio::test]
async fn a_second_connection_is_refused_while_one_is_attached() {
    let pair = Pair::ready().await;
    let mut second = UnixStream::connect(pair.world.socket()).await.unwrap();
    let read = within("it is closed", second.read(&mut [0; 1])).await;
    assert!(matches!(read, Ok(0) | Err(_)), "{read:?}");
    // The first is as it was.
    let question = NameQuestion {
        id: 9,
        name: "example.com".to_owned(),
        record_type: 1,
    };
    pair.sandbox.say(Message::Name(question)).await;
    let seen = pair
        .sandbox
        .sees("an answer", |s| !s.answers.is_empty())
        .await;
    assert!(matches!(
        &seen.answers[0],
        control_from_supervisor::Message::Name(answer) if answer.id == 9 && answer.addresses.is_empty()
    ));
}

#[tokio::test]
async fn another_uid_is_not_let_in() {
    let mut world = World::new();
    world.timings.link_first = Duration::from_secs(2);
    let gateway = Gateway::start(&world).await;
    let mut bootstrap = world.bootstrap(&gateway.endpoint());
    bootstrap.workload_uid += 1;
    let mut supervisor = world.supervise(bootstrap);
    let mut sandbox = world.sandbox();
    sandbox.dial(&world.socket()).await;
    assert_eq!(supervisor.ended().await, Outcome::Failed);
    let seen = sandbox.sees("anything", |_| true).await;
    assert!(seen.attached.is_empty());
}

#[tokio::test]
async fn an_oversized_control_message_closes_the_link() {
    let pair = Pair::ready().await;
    let line = LogLine {
        message: "x".repeat(100 << 10),
        ..LogLine::default()
    };
    pair.sandbox.say(Message::Log(line)).await;
    pair.gateway.fence.seen("Link(false)").await;
}

#[tokio::test]
async fn the_end_of_the_link_after_main_is_no_failure() {
    let mut world = World::new();
    world.timings.link_again = Duration::from_millis(100);
    let pair = Pair::ready_in(world).await;
    pair.sandbox.end_main(0).await;
    pair.gateway.fence.seen("MainExited(0").await;
    pair.sandbox.hang_up();
    pair.gateway.fence.seen("Link(false)").await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert!(pair.supervisor.running());
    assert!(
        !pair
            .gateway
            .fence
            .told()
            .iter()
            .any(|t| t.contains("LinkLost"))
    );
}

#[test]
fn a_bootstrap_is_read_once_and_unlinked() {
    let world = World::new();
    let path = world.directory.path().join("supervisor.json");
    let bootstrap = world.bootstrap("http://127.0.0.1:1");
    std::fs::write(&path, serde_json::to_vec(&bootstrap).unwrap()).unwrap();
    let settings = Settings::take(&path).unwrap();
    assert_eq!(settings.link_secret, SECRET);
    assert!(!path.exists());
    assert!(Settings::take(&path).is_err());
}

#[test]
fn plaintext_and_a_ca_do_not_go_together() {
    let world = World::new();
    let mut bootstrap = world.bootstrap("http://127.0.0.1:1");
    bootstrap.gateway_ca_pem = "a CA".to_owned();
    assert!(Settings::new(bootstrap).is_err());
    assert!(Settings::new(world.bootstrap("https://127.0.0.1:1")).is_err());
}
