//! Orders through the API: holds, and request ids that are taken up once.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test helpers")]

mod support;

use openshell_proto::api::{self, SandboxPhase};
use openshell_proto::plus;
use support::Gateway;
use tonic::Code;

fn start(request_id: &str) -> api::StartSandboxRequest {
    api::StartSandboxRequest {
        name: "a".to_owned(),
        request_id: request_id.to_owned(),
        ..Default::default()
    }
}

fn stop(name: &str, request_id: &str) -> api::StopSandboxRequest {
    api::StopSandboxRequest {
        name: name.to_owned(),
        request_id: request_id.to_owned(),
        ..Default::default()
    }
}

fn hold(reason: &str) -> plus::HoldSandboxRequest {
    plus::HoldSandboxRequest {
        name: "a".to_owned(),
        reason: reason.to_owned(),
        ..Default::default()
    }
}

#[tokio::test]
async fn a_held_sandbox_says_by_whom_and_why_and_a_release_leaves_it_stopped() {
    let g = Gateway::start().await;
    g.ready("a").await;
    let life = g.plus().hold_sandbox(hold("looks odd")).await.unwrap();
    let held = life.into_inner().hold.unwrap();
    assert_eq!(
        (held.by.as_str(), held.reason.as_str()),
        ("ada", "looks odd")
    );
    let stopped = g.phase("a", SandboxPhase::Stopped).await;
    let conditions = stopped.status.unwrap().conditions;
    let kinds: Vec<_> = conditions
        .iter()
        .map(|c| (&*c.r#type, &*c.status))
        .collect();
    assert_eq!(kinds, [("Ready", "False"), ("Held", "True")]);
    assert_eq!(conditions[0].reason, "Held");

    let refused = g.user().start_sandbox(start("")).await.unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition);
    for word in ["ada", "looks odd", "openshell sandbox release a"] {
        assert!(refused.message().contains(word), "{refused}");
    }
    let long = g.plus().hold_sandbox(hold(&"x".repeat(1025))).await;
    assert_eq!(long.unwrap_err().code(), Code::InvalidArgument);

    let release = plus::ReleaseSandboxRequest {
        name: "a".to_owned(),
        ..Default::default()
    };
    let life = g
        .plus()
        .release_sandbox(release)
        .await
        .unwrap()
        .into_inner();
    assert_eq!((life.hold, life.reason.as_str()), (None, "StoppedByUser"));
    g.user().start_sandbox(start("")).await.unwrap();
    g.phase("a", SandboxPhase::Ready).await;
}

#[tokio::test]
async fn each_request_id_is_taken_up_once_and_for_one_thing() {
    let g = Gateway::start().await;
    let mut user = g.user();
    g.ready("a").await;
    g.ready("b").await;
    user.stop_sandbox(stop("a", "r1")).await.unwrap();
    g.phase("a", SandboxPhase::Stopped).await;
    user.start_sandbox(start("r1")).await.unwrap();
    g.phase("a", SandboxPhase::Ready).await;
    let answered = user.stop_sandbox(stop("a", "r1")).await.unwrap();
    let status = answered.into_inner().sandbox.unwrap().status.unwrap();
    assert_eq!(status.phase(), SandboxPhase::Ready, "not stopped again");
    let refused = user.stop_sandbox(stop("b", "r1")).await.unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument);
    assert!(refused.message().contains("request_id"), "{refused}");
}

#[tokio::test]
async fn a_repeated_delete_speaks_of_the_sandbox_that_it_deleted() {
    let g = Gateway::start().await;
    let mut user = g.user();
    let delete = || api::DeleteSandboxRequest {
        name: "a".to_owned(),
        request_id: "r1".to_owned(),
        ..Default::default()
    };
    let id = g.ready("a").await.metadata.unwrap().id;
    user.delete_sandbox(delete()).await.unwrap();
    g.gone("a").await;
    let again = user.delete_sandbox(delete()).await.unwrap().into_inner();
    assert_eq!(again.outcome(), api::DeletionOutcome::Accepted);
    assert_eq!(again.sandbox_id, id);
    g.ready("a").await;
    let again = user.delete_sandbox(delete()).await.unwrap().into_inner();
    assert_eq!(again.sandbox_id, id, "and not of its namesake");
    g.phase("a", SandboxPhase::Ready).await;
}
