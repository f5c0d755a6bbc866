//! Who may attach, and what a lost link does.

use std::time::{Duration, Instant};

use openshell_core::Generation;
use openshell_core::SandboxId;
use openshell_core::token::Audience;
use openshell_proto::link::main_state::State;
use openshell_proto::link::{AttachRequest, FreezeRequest, StartMainRequest};
use tonic::Code;

use crate::support::{Sandbox, Setup, docker, eventually, sh};

/// A main that counts in a file as long as it runs.
const COUNT: &str = "while :; do echo x >> /sandbox/count; usleep 10000; done";

fn size(sandbox: &Sandbox) -> u64 {
    std::fs::metadata(sandbox.workspace("count")).map_or(0, |m| m.len())
}

async fn counts(sandbox: &Sandbox) {
    let before = size(sandbox);
    eventually("main runs", || (size(sandbox) > before).then_some(())).await;
}

/// Nothing is written any more: looked at over a while that is long against the counter's step.
async fn stands_still(sandbox: &Sandbox) -> bool {
    let before = size(sandbox);
    tokio::time::sleep(Duration::from_millis(300)).await;
    size(sandbox) == before
}

#[tokio::test]
async fn only_the_supervisor_of_this_run_attaches_and_only_once_is_it_pinned() {
    let sandbox = Sandbox::start();
    let wrong: Vec<(&str, AttachRequest)> = vec![
        (
            "another generation",
            AttachRequest {
                token: sandbox.token(|c| c.generation = Generation(2)),
                ..sandbox.request("a", None)
            },
        ),
        (
            "another sandbox",
            AttachRequest {
                token: sandbox.token(|c| c.sandbox_id = SandboxId::random()),
                ..sandbox.request("a", None)
            },
        ),
        (
            "another audience",
            AttachRequest {
                token: sandbox.token(|c| c.aud = Audience::Gateway),
                ..sandbox.request("a", None)
            },
        ),
        (
            "expired",
            AttachRequest {
                token: sandbox.token(|c| c.exp = 1),
                ..sandbox.request("a", None)
            },
        ),
        (
            "forged",
            AttachRequest {
                token: sandbox.token(|_| ()) + "AAAA",
                ..sandbox.request("a", None)
            },
        ),
    ];
    let mut link = sandbox.accept().await;
    for (what, request) in wrong {
        let refused = link.attach(request).await.unwrap_err();
        assert_eq!(refused.code(), Code::Unauthenticated, "{what}: {refused}");
    }
    let early = link
        .client
        .start_main(StartMainRequest::default())
        .await
        .unwrap_err();
    assert_eq!(early.code(), Code::Unauthenticated);
    assert!(early.message().contains("has not completed attach"));

    let response = link.attach(sandbox.request("a", None)).await.unwrap();
    let posture = response.posture.unwrap();
    for property in &posture.properties {
        assert!(property.enforced, "{property:?}");
    }
    assert_eq!(posture.properties.len(), 5);
    assert_eq!((posture.uid, posture.gid), (1000, 1000));
    assert!(posture.landlock_abi >= 3);
    assert!(matches!(
        response.main.unwrap().state,
        Some(State::NotStarted(_))
    ));
    assert!(!sandbox.dir.path().join("l/boot/sandbox.json").exists());

    link.cut();
    let mut second = sandbox.accept().await;
    let other = second.attach(sandbox.request("b", None)).await.unwrap_err();
    assert!(
        other
            .message()
            .contains("bound to another supervisor process"),
        "{other}"
    );
    second.attach(sandbox.request("a", None)).await.unwrap();
}

#[tokio::test]
async fn a_lost_link_freezes_within_a_second_and_the_same_instance_thaws() {
    let sandbox = Sandbox::start();
    let mut link = sandbox.attach("a").await;
    link.start_main(sh(COUNT)).await;
    counts(&sandbox).await;
    link.cut();
    let lost = Instant::now();
    while !stands_still(&sandbox).await {
        assert!(
            lost.elapsed() < Duration::from_secs(1),
            "not frozen within a second"
        );
    }
    // Frozen, and another instance does not change that.
    let mut other = sandbox.accept().await;
    other.attach(sandbox.request("b", None)).await.unwrap_err();
    assert!(stands_still(&sandbox).await);
    other.cut();
    let mut again = sandbox.accept().await;
    let response = again.attach(sandbox.request("a", None)).await.unwrap();
    assert!(response.resumed);
    assert!(matches!(
        response.main.unwrap().state,
        Some(State::Running(_))
    ));
    counts(&sandbox).await;
}

#[tokio::test]
async fn an_ordered_freeze_outlasts_a_lost_link_and_ends_by_order() {
    let sandbox = Sandbox::start();
    let mut link = sandbox.attach("a").await;
    link.start_main(sh(COUNT)).await;
    counts(&sandbox).await;
    let frozen = link.client.freeze(FreezeRequest { frozen: true }).await;
    assert_eq!(frozen.unwrap().into_inner().running, 0);
    assert!(stands_still(&sandbox).await);
    let refused = link
        .exec(sh("true"))
        .await
        .output
        .message()
        .await
        .unwrap_err();
    assert_eq!(refused.code(), Code::Unavailable, "{refused}");
    link.cut();
    let mut again = sandbox.attach("a").await;
    assert!(stands_still(&sandbox).await);
    let thaw = FreezeRequest { frozen: false };
    again.client.freeze(thaw).await.unwrap();
    counts(&sandbox).await;
}

#[tokio::test]
async fn what_wakes_while_everything_is_frozen_is_stopped_again() {
    // From outside, so as this user: the signal stands for one of a timer that the workload had set before.
    let own = rustix::process::getuid();
    let mut setup = Setup::default();
    if !own.is_root() {
        setup.engine = vec!["-u", Box::leak(own.as_raw().to_string().into_boxed_str())];
    }
    let sandbox = Sandbox::start_with(setup);
    let mut link = sandbox.attach("a").await;
    link.start_main(sh(COUNT)).await;
    counts(&sandbox).await;
    link.client
        .freeze(FreezeRequest { frozen: true })
        .await
        .unwrap();
    assert!(stands_still(&sandbox).await);
    let before = size(&sandbox);
    for line in docker(&["top", &sandbox.id, "-o", "pid,args"])
        .lines()
        .filter(|line| !line.contains("openshell-sandbox"))
    {
        let number = line.split_whitespace().next().unwrap().parse();
        let Ok(Some(pid)) = number.map(rustix::process::Pid::from_raw) else {
            continue;
        };
        rustix::process::kill_process(pid, rustix::process::Signal::CONT).unwrap();
    }
    eventually("it wakes", || (size(&sandbox) > before).then_some(())).await;
    let woken = Instant::now();
    while !stands_still(&sandbox).await {
        assert!(woken.elapsed() < Duration::from_secs(5), "it goes on");
    }
    link.client
        .freeze(FreezeRequest { frozen: false })
        .await
        .unwrap();
    counts(&sandbox).await;
}

#[tokio::test]
async fn an_incomplete_boundary_is_reported_and_nothing_is_started() {
    let sandbox = Sandbox::start_with(Setup {
        drop_defaults: true,
        engine: vec!["-u", "1000:1000"],
        ..Setup::default()
    });
    let mut link = sandbox.accept().await;
    let response = link.attach(sandbox.request("a", None)).await.unwrap();
    let missing: Vec<String> = response
        .posture
        .unwrap()
        .properties
        .into_iter()
        .filter(|p| !p.enforced)
        .map(|p| format!("{}: {}", p.name, p.mechanism))
        .collect();
    assert!(missing.iter().any(|m| m.contains("eth0")), "{missing:?}");
    assert!(missing.iter().any(|m| m.contains("CapBnd")), "{missing:?}");
    let request = StartMainRequest {
        process: Some(sh("true")),
        ..StartMainRequest::default()
    };
    let refused = link.client.start_main(request).await.unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition);
    assert!(refused.message().contains("eth0"), "{refused}");
}
