//! Orders with a request id are taken up once, whatever crashes in between.

use openshell_core::{Phase, RestartPolicy, WorkspaceName};
use openshell_store::RequestKey;

use super::harness::{Harness, new_sandbox};
use crate::config::FenceConfig;
use crate::fence::{CommandError, LifecycleFence, Order, request_key};

fn key(verb: &str, id: &str, contents: &[&str]) -> Option<RequestKey> {
    let workspace = WorkspaceName::default_workspace();
    Some(request_key(verb, &workspace, id.to_owned(), contents))
}

#[tokio::test(start_paused = true)]
async fn a_repeated_order_is_answered_and_not_done_again_even_after_a_crash() {
    let h = Harness::new().await;
    let id = h.ready("a", RestartPolicy::Never).await;
    let stop = |g: &Harness| {
        let fence = g.fence.clone();
        async move {
            fence
                .order(id, Order::Stop, key("stop", "r1", &["a"]))
                .await
        }
    };
    stop(&h).await.expect("accepted");
    h.phase(id, Phase::Stopped).await;
    h.fence.kill();
    let g = h.again(FenceConfig::default()).await;
    g.fence.start(id).await.expect("accepted");
    g.ready_run(id, 2).await;
    let answered = stop(&g).await.expect("answered");
    assert_eq!(answered.life.phase, Phase::Ready, "as it is now");
    assert_eq!(g.record(id).life.generation.0, 2);
}

#[tokio::test(start_paused = true)]
async fn an_order_that_changes_nothing_is_remembered_too() {
    let h = Harness::new().await;
    let id = h.ready("a", RestartPolicy::Never).await;
    h.fence
        .order(id, Order::Start, key("start", "r1", &["a"]))
        .await
        .expect("it runs already");
    h.fence.stop(id).await.expect("accepted");
    h.phase(id, Phase::Stopped).await;
    h.fence
        .order(id, Order::Start, key("start", "r1", &["a"]))
        .await
        .expect("answered");
    assert_eq!(h.record(id).life.phase, Phase::Stopped, "not done again");
}

#[tokio::test(start_paused = true)]
async fn a_request_id_with_other_contents_is_refused_and_nothing_is_done() {
    let h = Harness::new().await;
    let a = h.ready("a", RestartPolicy::Never).await;
    let b = h.ready("b", RestartPolicy::Never).await;
    h.fence
        .order(a, Order::Stop, key("stop", "r1", &["a"]))
        .await
        .expect("accepted");
    let refused = h
        .fence
        .order(b, Order::Stop, key("stop", "r1", &["b"]))
        .await;
    assert_eq!(
        refused.expect_err("another sandbox"),
        CommandError::RequestIdReused("r1".to_owned())
    );
    assert_eq!(h.record(b).life.phase, Phase::Ready);
}

#[tokio::test(start_paused = true)]
async fn what_was_refused_may_be_asked_for_again_with_the_same_id() {
    let h = Harness::new().await;
    let id = h.ready("a", RestartPolicy::Never).await;
    let hold = Order::Hold {
        by: "ada".to_owned(),
        reason: String::new(),
    };
    h.fence.order(id, hold, None).await.expect("accepted");
    h.phase(id, Phase::Stopped).await;
    let start = || h.fence.order(id, Order::Start, key("start", "r1", &["a"]));
    assert!(matches!(start().await, Err(CommandError::Refused { .. })));
    h.fence
        .order(id, Order::Release, None)
        .await
        .expect("accepted");
    start().await.expect("accepted now");
    h.ready_run(id, 2).await;
}

#[tokio::test(start_paused = true)]
async fn a_repeated_delete_is_answered_when_everything_is_gone() {
    let h = Harness::new().await;
    let id = h.ready("a", RestartPolicy::Never).await;
    let key = key("delete", "r1", &["a"]);
    h.fence
        .order(id, Order::Delete, key.clone())
        .await
        .expect("accepted");
    h.gone(id).await;
    h.fence.kill();
    let g = h.again(FenceConfig::default()).await;
    let next = g.ready("a", RestartPolicy::Never).await;
    let seen = g.fence.seen(&key.expect("a key")).await.expect("readable");
    assert_eq!(seen, Some(id), "and not the one that has its name now");
    assert_ne!(next, id);
}

#[tokio::test(start_paused = true)]
async fn a_repeated_create_is_answered_after_a_crash() {
    let h = Harness::new().await;
    let ask = |name| new_sandbox(name, RestartPolicy::Never, Some("r1"));
    let first = h.fence.create(ask("a")).await.expect("created");
    h.fence.kill();
    let g = h.again(FenceConfig::default()).await;
    let again = g.fence.create(ask("a")).await.expect("answered");
    assert_eq!(again.meta.id, first.meta.id);
    assert_eq!(
        g.fence.create(ask("b")).await.expect_err("other contents"),
        CommandError::RequestIdReused("r1".to_owned())
    );
    g.phase(first.meta.id, Phase::Ready).await;
    assert_eq!(g.fence.list().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_hold_outlives_the_gateway_and_its_restore() {
    let h = Harness::new().await;
    let id = h.ready("a", RestartPolicy::Always).await;
    let hold = Order::Hold {
        by: "ada".to_owned(),
        reason: "looks odd".to_owned(),
    };
    h.fence.order(id, hold, None).await.expect("accepted");
    // Killed before the stop is confirmed: it is finished by the next gateway.
    h.fence.kill();
    let g = h.again(FenceConfig::default()).await;
    let held = g.phase(id, Phase::Stopped).await;
    let kept = held.life.hold.clone().expect("still held");
    assert_eq!(
        (kept.by.as_str(), kept.reason.as_str()),
        ("ada", "looks odd")
    );
    assert!(matches!(
        g.fence.start(id).await,
        Err(CommandError::Refused { .. })
    ));
    // Its engine's clock is set back, too.
    g.environment.set_clock(-3600);
    g.driver
        .start_outside(id, crate::driver::Role::Workload)
        .await;
    g.eventually("it is stopped again", || {
        !matches!(
            g.driver.sighting(id, crate::driver::Role::Workload),
            Some(crate::driver::Sighting::Running(_))
        )
    })
    .await;
    g.phase(id, Phase::Stopped).await;
    g.fence
        .order(id, Order::Release, None)
        .await
        .expect("accepted");
    g.fence.start(id).await.expect("accepted");
    g.ready_run(id, 2).await;
}
