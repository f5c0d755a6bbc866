//! Commands: create, stop, start, restart, delete, alone and at once.

use std::collections::BTreeSet;
use std::time::Duration;

use openshell_core::{Phase, Reason, RestartPolicy};

use super::harness::{Harness, new_sandbox};
use crate::driver::{DriverError, DriverErrorKind, Role, Sighting};
use crate::fence::{CommandError, LifecycleFence};
use crate::simulated::{Fault, Method};

#[tokio::test(start_paused = true)]
async fn a_create_is_durable_when_it_returns_and_becomes_ready() {
    let h = Harness::new().await;
    let accepted = h.create("a", RestartPolicy::Never).await.expect("created");
    assert_eq!(accepted.life.phase, Phase::Provisioning);
    let id = accepted.meta.id;
    assert!(h.store.sandbox(id).await.expect("readable").is_some());
    let ready = h.phase(id, Phase::Ready).await;
    assert_eq!(ready.life.condition.reason, Reason::Running);
    assert!(ready.life.operation.is_none());
    for method in [Method::PrepareImage, Method::PrepareRun, Method::Launch] {
        assert_eq!(h.driver.count(method, id), 1, "{method:?}");
    }
    let stored = h.store.sandbox(id).await.expect("readable");
    assert_eq!(stored.as_ref(), Some(&*h.record(id)));
    let journal = h.journal(id).await;
    assert_eq!(
        journal.first().map(|e| e.input.as_str()),
        Some("command create")
    );
    assert_eq!(journal.last().map(|e| e.new_phase), Some(Phase::Ready));
}

#[tokio::test(start_paused = true)]
async fn l1_of_twenty_creates_of_one_name_exactly_one_wins() {
    let h = Harness::new().await;
    let creates = (0..20).map(|_| h.create("same", RestartPolicy::Never));
    let results = futures_util::future::join_all(creates).await;
    assert_eq!(results.iter().filter(|r| r.is_ok()).count(), 1);
    let taken =
        |r: &Result<_, _>| matches!(r, Err(CommandError::AlreadyExists(name)) if name == "same");
    assert_eq!(results.iter().filter(|r| taken(r)).count(), 19);
    assert_eq!(h.fence.list().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_request_id_makes_one_sandbox_and_refuses_other_contents() {
    let h = Harness::new().await;
    let ask = |name: &str| {
        h.fence
            .create(new_sandbox(name, RestartPolicy::Never, Some("r1")))
    };
    let (first, second) = tokio::join!(ask("a"), ask("a"));
    let (first, second) = (first.expect("made"), second.expect("answered alike"));
    assert_eq!(first.meta.id, second.meta.id);
    assert_eq!(
        ask("b").await.expect_err("other contents"),
        CommandError::RequestIdReused("r1".to_owned())
    );
}

#[tokio::test(start_paused = true)]
async fn l6_a_stop_ends_stopped_only_when_the_engine_confirms_it() {
    let h = Harness::new().await;
    h.driver.make_stubborn(true);
    let id = h.ready("a", RestartPolicy::Never).await;
    let before = tokio::time::Instant::now();
    h.fence.stop(id).await.expect("accepted");
    assert_eq!(h.record(id).life.phase, Phase::Stopping);
    h.phase(id, Phase::Stopped).await;
    assert_eq!(before.elapsed().as_secs(), 10, "the grace, and no more");
    assert!(matches!(
        h.driver.sighting(id, Role::Workload),
        Some(Sighting::Exited(..))
    ));
    h.until(id, "its supervisor is removed", |r| {
        r.life.retired.is_empty()
    })
    .await;
    assert_eq!(h.driver.container(id, Role::Supervisor), None);
}

#[tokio::test(start_paused = true)]
async fn a_stop_does_not_wait_for_the_removal_of_the_supervisor() {
    let h = Harness::new().await;
    let id = h.ready("a", RestartPolicy::Never).await;
    h.driver
        .script(Method::RemoveSupervisor, Some(id), Fault::Hang);
    let before = tokio::time::Instant::now();
    h.fence.stop(id).await.expect("accepted");
    h.phase(id, Phase::Stopped).await;
    assert!(before.elapsed() < Duration::from_secs(1));
    h.fence.start(id).await.expect("accepted");
    h.ready_run(id, 2).await;
    h.until(id, "the removal is repeated", |r| r.life.retired.is_empty())
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_start_after_a_stop_keeps_the_id_and_the_workload_container() {
    let h = Harness::new().await;
    let id = h.ready("a", RestartPolicy::Never).await;
    let workload = h.driver.container(id, Role::Workload);
    let supervisor = h.driver.container(id, Role::Supervisor);
    h.fence.stop(id).await.expect("accepted");
    h.phase(id, Phase::Stopped).await;
    h.fence.start(id).await.expect("accepted");
    h.ready_run(id, 2).await;
    assert_eq!(h.driver.container(id, Role::Workload), workload);
    assert_ne!(h.driver.container(id, Role::Supervisor), supervisor);
    assert_eq!(h.driver.count(Method::PrepareImage, id), 1);
}

#[tokio::test(start_paused = true)]
async fn l7_a_start_during_a_stop_starts_again_after_it() {
    let h = Harness::new().await;
    h.driver.make_stubborn(true);
    let id = h.ready("a", RestartPolicy::Never).await;
    h.fence.stop(id).await.expect("accepted");
    h.fence.start(id).await.expect("accepted");
    h.ready_run(id, 2).await;
}

#[tokio::test(start_paused = true)]
async fn a_restart_is_a_new_run_of_the_same_sandbox() {
    let h = Harness::new().await;
    let id = h.ready("a", RestartPolicy::Never).await;
    h.fence.restart(id).await.expect("accepted");
    let again = h.ready_run(id, 2).await;
    assert_eq!(again.life.restart.count, 0);
}

#[tokio::test(start_paused = true)]
async fn l13_a_delete_leaves_nothing() {
    let h = Harness::new().await;
    let id = h.ready("a", RestartPolicy::Never).await;
    h.fence.delete(id).await.expect("accepted");
    h.gone(id).await;
    assert_eq!(h.driver.containers(), 0);
    assert!(h.store.sandbox(id).await.expect("readable").is_none());
    assert!(h.fence.by_id(id).is_none());
    assert!(matches!(
        h.fence.start(id).await,
        Err(CommandError::NotFound(_))
    ));
    h.ready("a", RestartPolicy::Never).await;
}

#[tokio::test(start_paused = true)]
async fn l12_a_delete_during_a_launch_wins_and_leaves_nothing() {
    let h = Harness::new().await;
    for method in [Method::PrepareImage, Method::PrepareRun, Method::Launch] {
        h.driver
            .script(method, None, Fault::Delay(Duration::from_secs(3)));
        let id = h
            .create("a", RestartPolicy::Always)
            .await
            .expect("created")
            .meta
            .id;
        h.eventually("the call is made", || h.driver.count(method, id) == 1)
            .await;
        h.fence.delete(id).await.expect("accepted");
        // A pull is given up at once, so that it may be gone by now.
        assert!(matches!(
            h.fence.start(id).await,
            Err(CommandError::Refused {
                phase: Phase::Deleting,
                ..
            } | CommandError::NotFound(_))
        ));
        h.gone(id).await;
        assert_eq!(h.driver.containers(), 0, "{method:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn l13_a_failed_create_leaves_no_container_and_says_why() {
    let h = Harness::new().await;
    for (method, kind, reason) in [
        (
            Method::PrepareImage,
            DriverErrorKind::ImagePull,
            Reason::ImagePullFailed,
        ),
        (
            Method::PrepareRun,
            DriverErrorKind::NameTaken,
            Reason::StartFailed,
        ),
        (Method::Launch, DriverErrorKind::Engine, Reason::StartFailed),
    ] {
        h.driver.script(
            method,
            None,
            Fault::Fail(DriverError::new(kind, "no such luck")),
        );
        let id = h
            .create("a", RestartPolicy::Never)
            .await
            .expect("accepted")
            .meta
            .id;
        let failed = h.phase(id, Phase::Error).await;
        assert_eq!(failed.life.condition.reason, reason);
        assert!(failed.life.condition.message.contains("no such luck"));
        assert_eq!(h.driver.containers(), 0, "{method:?}");
        h.fence
            .start(id)
            .await
            .expect("a start works from there (L7)");
        h.phase(id, Phase::Ready).await;
        h.fence.delete(id).await.expect("accepted");
        h.gone(id).await;
    }
}

#[tokio::test(start_paused = true)]
async fn l15_a_slow_sandbox_delays_no_other() {
    let h = Harness::new().await;
    h.driver.make_stubborn(true);
    let slow = h.ready("slow", RestartPolicy::Never).await;
    h.driver.make_stubborn(false);
    h.fence.stop(slow).await.expect("accepted");
    let before = tokio::time::Instant::now();
    let others = (0..10).map(|n| {
        let h = &h;
        async move {
            let id = h.ready(&format!("s{n}"), RestartPolicy::Never).await;
            h.fence.stop(id).await.expect("accepted");
            h.phase(id, Phase::Stopped).await;
            h.fence.delete(id).await.expect("accepted");
            h.gone(id).await;
            id
        }
    });
    let ids: BTreeSet<_> = futures_util::future::join_all(others)
        .await
        .into_iter()
        .collect();
    assert_eq!(ids.len(), 10);
    assert!(before.elapsed() < Duration::from_secs(1));
    assert_eq!(h.record(slow).life.phase, Phase::Stopping);
    h.phase(slow, Phase::Stopped).await;
}

#[tokio::test(start_paused = true)]
async fn l16_a_driver_that_hangs_or_panics_does_not_hold_a_sandbox_for_ever() {
    let h = Harness::new().await;
    for fault in [Fault::Hang, Fault::Panic] {
        h.driver.script(Method::PrepareRun, None, fault.clone());
        h.driver.script(Method::Launch, None, fault);
        let id = h.ready("a", RestartPolicy::Never).await;
        h.fence.delete(id).await.expect("accepted");
        h.gone(id).await;
    }
}

#[tokio::test(start_paused = true)]
async fn l6_a_stop_that_the_engine_refuses_is_an_error_and_can_be_tried_again() {
    let h = Harness::new().await;
    let id = h.ready("a", RestartPolicy::Never).await;
    for _ in 0..4 {
        let refusal = DriverError::new(DriverErrorKind::Engine, "device busy");
        h.driver
            .script(Method::Stop, Some(id), Fault::Fail(refusal));
    }
    h.fence.stop(id).await.expect("accepted");
    let failed = h.phase(id, Phase::Error).await;
    assert_eq!(failed.life.condition.reason, Reason::StopFailed);
    assert!(failed.life.condition.message.contains("device busy"));
    h.fence.stop(id).await.expect("accepted");
    h.phase(id, Phase::Stopped).await;
}

#[tokio::test(start_paused = true)]
async fn an_image_pull_shows_its_progress_and_a_stop_ends_it() {
    let h = Harness::new().await;
    h.driver.script(Method::PrepareImage, None, Fault::Hang);
    let id = h
        .create("a", RestartPolicy::Never)
        .await
        .expect("created")
        .meta
        .id;
    let pulling = h
        .until(id, "pulling", |r| {
            r.life.condition.reason == Reason::PullingImage
        })
        .await;
    assert_eq!(pulling.life.condition.message, "pulling busybox");
    h.fence.stop(id).await.expect("accepted");
    h.phase(id, Phase::Stopped).await;
    assert_eq!(h.driver.containers(), 0);
}

#[tokio::test(start_paused = true)]
async fn l1_a_conflict_reloads_and_decides_again_and_never_aborts_the_command() {
    let h = Harness::new().await;
    let id = h.ready("a", RestartPolicy::Never).await;
    let known = h.record(id);
    let ahead = h
        .store
        .put_sandbox(&known, Vec::new(), None)
        .await
        .expect("written behind the fence's back");
    assert!(ahead > known.resource_version);
    h.fence.stop(id).await.expect("accepted all the same");
    let stopped = h.phase(id, Phase::Stopped).await;
    assert!(stopped.resource_version > ahead);
}
