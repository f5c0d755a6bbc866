//! The session with the gateway: what it tells, what survives its breaks, who is refused.

use std::time::Duration;

use openshell_api::session::SessionConfig;
use openshell_core::token::{Audience, Signer};
use openshell_core::{Generation, SandboxId};
use openshell_lifecycle::ports::MainReport;
use openshell_proto::link::control_from_sandbox::Message;
use openshell_proto::link::{EgressRequest, LogLine, control_from_supervisor};
use openshell_supervisor::Outcome;

use crate::gateway::Gateway;
use crate::pair::{Pair, SECRET, World, within};
use crate::sandbox::{FakeSandbox, Posture};

#[tokio::test]
async fn main_is_started_once_as_the_record_says_and_reported() {
    let pair = Pair::ready().await;
    let seen = pair.sandbox.sees("main", |s| !s.main.is_empty()).await;
    assert_eq!(seen.main.len(), 1);
    assert_eq!(seen.main[0].argv, ["/bin/main", "--flag"]);
    assert_eq!(seen.main[0].environment["KEY"], "value");
    assert!(!seen.main[0].tty && !seen.main[0].login_shell);
    let told = pair.gateway.fence.told();
    assert_eq!(told[0], format!("Opened {:?}", MainReport::NotStarted));
}

#[tokio::test]
async fn a_watcher_is_announced_for_the_run_of_the_create_only() {
    for (generation, announced) in [(1, true), (2, false)] {
        let world = World {
            generation: Generation(generation),
            ..World::new()
        };
        let pair = Pair::ready_in(world).await;
        let seen = pair.sandbox.sees("main", |s| !s.main.is_empty()).await;
        assert_eq!(seen.awaited, [announced], "generation {generation}");
    }
}

#[tokio::test]
async fn an_exit_report_is_kept_over_a_session_break() {
    let mut pair = Pair::ready().await;
    pair.gateway.stop().await;
    pair.sandbox.end_main(17).await;
    pair.sandbox
        .sees("the sandbox may go", |s| {
            s.answers
                .iter()
                .any(|a| matches!(a, control_from_supervisor::Message::ExitAck(_)))
        })
        .await;
    pair.sandbox.hang_up();
    pair.gateway.start_again().await;
    pair.gateway.fence.seen("Opened Exited(17").await;
    pair.gateway.fence.seen("MainExited(17").await;
    assert!(pair.supervisor.running(), "it waits to be removed");
}

#[tokio::test]
async fn a_gateway_that_restarts_gets_the_same_run_back_untouched() {
    let mut pair = Pair::ready().await;
    pair.gateway.stop().await;
    pair.gateway.start_again().await;
    pair.gateway.fence.seen("Opened Running").await;
    let hellos = pair.gateway.fence.hellos.lock().unwrap().clone();
    assert_eq!(hellos[0].instance, hellos[1].instance);
    let seen = pair.sandbox.sees("anything", |_| true).await;
    assert_eq!((seen.main.len(), seen.attached.len()), (1, 1));
}

#[tokio::test]
async fn a_second_supervisor_of_the_run_is_refused_and_the_first_stays() {
    let pair = Pair::ready().await;
    let other = World {
        directory: tempfile::tempdir().unwrap(),
        signer: Signer::from_pkcs8(&Signer::generate_pkcs8().unwrap()).unwrap(),
        ..World::new()
    };
    // Same credentials, another process, a sandbox of its own.
    let mut sandbox = FakeSandbox::new(&pair.world, Posture::Complete, SECRET);
    let mut bootstrap = pair.world.bootstrap(&pair.gateway.endpoint());
    bootstrap.generation = pair.world.generation;
    let second = other.supervise(bootstrap);
    sandbox.dial(&other.socket()).await;
    pair.gateway.fence.seen("Refused OtherInstance").await;
    assert!(
        pair.gateway
            .hub
            .connected(pair.world.sandbox, pair.world.generation)
    );
    assert!(
        !pair
            .gateway
            .fence
            .told()
            .iter()
            .any(|t| t.contains("Closed"))
    );
    drop(second);
}

#[tokio::test]
async fn a_token_of_another_run_or_key_opens_no_session() {
    let world = World::new();
    let gateway = Gateway::start(&world).await;
    let stranger = World::new();
    let tokens = [
        world.token(Audience::Gateway, SandboxId::random(), world.generation),
        world.token(Audience::Gateway, world.sandbox, Generation(2)),
        world.token(Audience::Sandbox, world.sandbox, world.generation),
        stranger.token(Audience::Gateway, world.sandbox, world.generation),
    ];
    for token in tokens {
        let mut bootstrap = world.bootstrap(&gateway.endpoint());
        bootstrap.gateway_token = token;
        let supervisor = world.supervise(bootstrap);
        let mut sandbox = world.sandbox();
        sandbox.dial(&world.socket()).await;
        sandbox
            .sees("it is attached", |s| !s.attached.is_empty())
            .await;
        // Long enough for several tries.
        tokio::time::sleep(Duration::from_millis(300)).await;
        assert!(supervisor.running());
        assert_eq!(gateway.hub.sessions(), 0);
    }
    assert!(
        gateway.fence.told().is_empty(),
        "{:?}",
        gateway.fence.told()
    );
}

#[tokio::test]
async fn an_order_to_freeze_reaches_the_sandbox_and_holds_over_a_new_link() {
    let mut pair = Pair::ready().await;
    let handle = pair.gateway.fence.hellos.lock().unwrap()[0].handle.clone();
    handle.freeze(true);
    pair.sandbox.sees("frozen", |s| s.frozen == [true]).await;
    pair.sandbox.hang_up();
    pair.gateway.fence.seen("Link(false)").await;
    pair.sandbox.dial(&pair.world.socket()).await;
    pair.sandbox
        .sees("frozen again, as attaching thaws", |s| {
            s.frozen == [true, true]
        })
        .await;
    pair.gateway.fence.seen("Link(true)").await;
    handle.freeze(false);
    pair.sandbox
        .sees("thawed", |s| s.frozen == [true, true, false])
        .await;
}

#[tokio::test]
async fn a_session_that_the_fence_closes_ends_and_the_supervisor_comes_back() {
    let pair = Pair::ready().await;
    let handle = pair.gateway.fence.hellos.lock().unwrap()[0].handle.clone();
    handle.close("a test");
    pair.gateway.fence.seen("Closed(\"a test\")").await;
    pair.gateway.fence.seen_times("Opened", 2).await;
}

#[tokio::test]
async fn log_lines_and_denials_reach_the_log_of_the_sandbox_once() {
    let pair = Pair::ready().await;
    let (hub, id) = (&pair.gateway.hub, pair.world.sandbox);
    let mut follow = hub.follow_logs(id);
    let line = LogLine {
        message: "hello from inside".to_owned(),
        ..LogLine::default()
    };
    pair.sandbox.say(Message::Log(line)).await;
    let request = EgressRequest {
        id: 5,
        pid: 64,
        binary: "/usr/bin/curl".to_owned(),
        transport: "tcp".to_owned(),
        address: "10.0.0.1".to_owned(),
        port: 443,
        ..EgressRequest::default()
    };
    pair.sandbox.say(Message::Egress(request)).await;
    let seen = pair
        .sandbox
        .sees("an answer", |s| !s.answers.is_empty())
        .await;
    let control_from_supervisor::Message::Egress(decision) = &seen.answers[0] else {
        panic!("{seen:?}")
    };
    assert!(!decision.allowed);
    for (n, expected) in ["hello from inside", "NET:OPEN [MED] DENIED"]
        .into_iter()
        .enumerate()
    {
        let line = within("a log line", follow.recv()).await.unwrap();
        assert!(line.line.message.starts_with(expected), "{line:?}");
        assert_eq!((line.sequence, line.source), (n as u64 + 1, "sandbox"));
    }
    assert_eq!(hub.logs(id, 100).1, 2);
}

#[tokio::test]
async fn lines_said_while_the_gateway_is_away_arrive_afterwards_in_order() {
    let mut pair = Pair::ready().await;
    pair.gateway.stop().await;
    for n in 0..300 {
        let line = LogLine {
            message: n.to_string(),
            ..LogLine::default()
        };
        pair.sandbox.say(Message::Log(line)).await;
    }
    pair.gateway.start_again().await;
    let id = pair.world.sandbox;
    within("all lines", async {
        while pair.gateway.hub.logs(id, 1000).1 < 300 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
    let (lines, _) = pair.gateway.hub.logs(id, 1000);
    let messages: Vec<_> = lines.into_iter().map(|l| l.line.message).collect();
    assert_eq!(
        messages,
        (0..300).map(|n| n.to_string()).collect::<Vec<_>>()
    );
}

#[tokio::test]
async fn a_gateway_that_stays_away_too_long_ends_the_run() {
    for (main_ends, outcome) in [
        (false, Outcome::GatewayUnreachable),
        // Whoever comes back finds that the run was over before.
        (true, Outcome::Unreported),
    ] {
        let world = World::new();
        let config = SessionConfig {
            gateway_outage_limit: Duration::from_millis(1500),
            ..SessionConfig::default()
        };
        let mut gateway = Gateway::start_with(&world, config).await;
        let mut supervisor = world.supervise(world.bootstrap(&gateway.endpoint()));
        let mut sandbox = world.sandbox();
        sandbox.dial(&world.socket()).await;
        gateway.fence.seen("MainStarted").await;
        gateway.stop().await;
        if main_ends {
            sandbox.end_main(17).await;
        }
        assert_eq!(supervisor.ended().await, outcome);
        sandbox.sees("stopped", |s| s.stopped == [1000]).await;
    }
}

#[tokio::test]
async fn a_session_stays_open_while_heartbeats_come_and_nothing_else() {
    let world = World::new();
    let config = SessionConfig {
        heartbeat: Duration::from_millis(50),
        dead_after: Duration::from_millis(400),
        ..SessionConfig::default()
    };
    let gateway = Gateway::start_with(&world, config).await;
    let _supervisor = world.supervise(world.bootstrap(&gateway.endpoint()));
    let mut sandbox = world.sandbox();
    sandbox.dial(&world.socket()).await;
    gateway.fence.seen("MainStarted").await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert!(!gateway.fence.told().iter().any(|t| t.contains("Closed")));
}
