//! The gateway ends and returns.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use openshell_core::journal::JournalEntry;
use openshell_core::{Generation, Phase, Reason, RestartPolicy, SandboxId, SupervisorInstance};
use openshell_store::{Passing, StoreError, Weather};

use super::harness::{Harness, hello, instance};
use crate::config::{FenceConfig, RestoreMode, ShutdownMode};
use crate::driver::{Role, Sighting};
use crate::fence::{CommandError, LifecycleFence};
use crate::ports::{Environment, MainReport, SessionEvent};
use crate::simulated::{Fault, Gate, Method};

fn bound(h: &Harness, id: SandboxId) -> SupervisorInstance {
    let run = h.record(id).life.run.clone().expect("a run");
    run.instance.expect("in session")
}

#[tokio::test(start_paused = true)]
async fn a_surviving_run_is_adopted_untouched() {
    let h = Harness::new().await;
    let id = h.ready("a", RestartPolicy::Never).await;
    let same = bound(&h, id);
    let calls = |m| h.driver.count(m, id);
    h.fence.shutdown().await;
    let before = [Method::Launch, Method::Stop].map(calls);
    let g = h.again(FenceConfig::default()).await;
    let shown = g
        .until(id, "honest", |r| r.life.phase != Phase::Ready)
        .await;
    assert_eq!(shown.life.condition.reason, Reason::SupervisorNotConnected);
    g.reconnect(id, same).await;
    let adopted = g.phase(id, Phase::Ready).await;
    assert_eq!(adopted.life.condition.reason, Reason::Adopted);
    assert_eq!(adopted.life.generation.0, 1);
    assert_eq!([Method::Launch, Method::Stop].map(calls), before);
    // It is watched again.
    g.main_exits(id, 5).await;
    g.phase(id, Phase::Error).await;
}

#[tokio::test(start_paused = true)]
async fn l17_what_is_not_proven_after_a_gateway_start_has_a_version_of_its_own() {
    let h = Harness::new().await;
    let id = h.ready("a", RestartPolicy::Never).await;
    let same = bound(&h, id);
    let before = h.record(id);
    h.fence.shutdown().await;
    let g = h.again(FenceConfig::default()).await;
    // The first that anybody can see of it: not Ready, newer than the Ready of before, and durable as it is shown.
    let shown = g.record(id);
    assert_eq!(shown.life.phase, Phase::Provisioning);
    assert_eq!(shown.resource_version, before.resource_version + 1);
    let stored = g.store.sandbox(id).await.expect("readable");
    assert_eq!(stored.as_ref(), Some(&*shown));
    // Who has read the old Ready, and writes by it, is told so.
    let late = g.store.put_sandbox(&before, Vec::new(), None).await;
    assert!(
        matches!(late, Err(StoreError::Conflict { expected, .. }) if expected == before.resource_version)
    );
    // And so it is for who reads on until it is proven.
    g.reconnect(id, same).await;
    let proven = g.phase(id, Phase::Ready).await;
    assert!(proven.resource_version > shown.resource_version);
}

#[tokio::test(start_paused = true)]
async fn l17_a_restore_that_cannot_be_recorded_yet_shows_no_old_ready() {
    let h = Harness::new().await;
    let id = h.ready("a", RestartPolicy::Never).await;
    let same = bound(&h, id);
    let before = h.record(id);
    h.fence.shutdown().await;
    let disk = Arc::new(Disk::default());
    disk.full.store(true, Ordering::Relaxed);
    let g = h.again_on(h.store.under(disk.clone())).await;
    let shown = g.record(id);
    assert_eq!(shown.life.phase, Phase::Provisioning);
    assert!(
        shown.resource_version > before.resource_version,
        "never backwards"
    );
    let stored = g.store.sandbox(id).await.expect("readable");
    assert_eq!(
        stored.map(|r| r.resource_version),
        Some(before.resource_version)
    );
    disk.full.store(false, Ordering::Relaxed);
    g.reconnect(id, same).await;
    let proven = g.phase(id, Phase::Ready).await;
    assert_eq!(proven.life.generation, Generation(1));
    assert!(proven.resource_version > shown.resource_version);
}

/// A disk that is full for a while.
#[derive(Default)]
struct Disk {
    full: AtomicBool,
}

impl Weather for Disk {
    fn before(&self, writes: bool) -> Passing<'_, Result<(), StoreError>> {
        let full = writes && self.full.load(Ordering::Relaxed);
        Box::pin(async move {
            if full {
                return Err(StoreError::Failed("the disk is full".to_owned()));
            }
            Ok(())
        })
    }

    fn after(&self, _writes: bool) -> Passing<'_, ()> {
        Box::pin(std::future::ready(()))
    }
}

#[tokio::test(start_paused = true)]
async fn l9_a_supervisor_that_died_meanwhile_is_relaunched_as_a_new_run() {
    let h = Harness::new().await;
    let id = h.ready("a", RestartPolicy::Never).await;
    h.fence.shutdown().await;
    h.driver.exit(id, Role::Supervisor, 1, false);
    let g = h.again(FenceConfig::default()).await;
    let again = g.ready_run(id, 2).await;
    assert_eq!(again.life.condition.reason, Reason::Restored);
}

#[tokio::test(start_paused = true)]
async fn a_supervisor_that_does_not_come_back_is_contained_and_relaunched() {
    let h = Harness::new().await;
    let id = h.ready("a", RestartPolicy::Never).await;
    h.fence.shutdown().await;
    let g = h.again(FenceConfig::default()).await;
    g.ready_run(id, 2).await;
    assert_eq!(g.driver.count(Method::Stop, id), 1);
}

#[tokio::test(start_paused = true)]
async fn l9_a_main_that_ended_meanwhile_goes_to_the_restart_policy_with_its_code() {
    let h = Harness::new().await;
    let never = h.ready("never", RestartPolicy::Never).await;
    let again = h.ready("again", RestartPolicy::OnFailure).await;
    let instances = [bound(&h, never), bound(&h, again)];
    h.fence.shutdown().await;
    for id in [never, again] {
        h.driver.exit(id, Role::Workload, 17, false);
    }
    let g = h.again(FenceConfig::default()).await;
    for (id, instance) in [never, again].into_iter().zip(instances) {
        let generation = g.record(id).life.generation;
        let ended = MainReport::Exited(17, g.environment.now());
        g.fence
            .session_opened(hello(id, generation, instance, ended))
            .await
            .expect("accepted");
    }
    let failed = g.phase(never, Phase::Error).await;
    assert_eq!(failed.life.last_exit.as_ref().map(|e| e.code), Some(17));
    assert_eq!(failed.life.condition.reason, Reason::MainProcessFailed);
    let restarted = g.ready_run(again, 2).await;
    assert_eq!(restarted.life.restart.count, 1);
}

#[tokio::test(start_paused = true)]
async fn what_was_stopped_stays_stopped_and_what_was_being_deleted_goes() {
    let h = Harness::new().await;
    let stopped = h.ready("stopped", RestartPolicy::Always).await;
    h.fence.stop(stopped).await.expect("accepted");
    h.phase(stopped, Phase::Stopped).await;
    let deleted = h.ready("deleted", RestartPolicy::Always).await;
    h.driver.script(Method::Remove, Some(deleted), Fault::Hang);
    h.fence.delete(deleted).await.expect("accepted");
    h.fence.shutdown().await;
    let g = h.again(FenceConfig::default()).await;
    g.gone(deleted).await;
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert_eq!(g.record(stopped).life.phase, Phase::Stopped);
    assert_eq!(g.driver.container(deleted, Role::Workload), None);
}

#[tokio::test(start_paused = true)]
async fn an_interrupted_stop_is_finished() {
    let h = Harness::new().await;
    let id = h.ready("a", RestartPolicy::Always).await;
    h.driver.script(Method::Stop, Some(id), Fault::Hang);
    h.fence.stop(id).await.expect("accepted");
    h.fence.shutdown().await;
    let g = h.again(FenceConfig::default()).await;
    g.phase(id, Phase::Stopped).await;
    assert!(matches!(
        g.driver.sighting(id, Role::Workload),
        Some(Sighting::Exited(..))
    ));
}

#[tokio::test(start_paused = true)]
async fn l13_an_interrupted_create_is_finished_without_leftovers() {
    let h = Harness::new().await;
    h.driver.script(Method::PrepareRun, None, Fault::Hang);
    let id = h
        .create("a", RestartPolicy::Never)
        .await
        .expect("created")
        .meta
        .id;
    h.eventually("it is being made", || {
        h.driver.count(Method::PrepareRun, id) == 1
    })
    .await;
    h.fence.shutdown().await;
    let g = h.again(FenceConfig::default()).await;
    g.phase(id, Phase::Ready).await;
    assert_eq!(g.driver.containers(), 2);
}

#[tokio::test(start_paused = true)]
async fn on_shutdown_stop_ends_all_runs_at_once_and_they_run_again() {
    let stop = FenceConfig {
        on_shutdown: ShutdownMode::Stop,
        ..FenceConfig::default()
    };
    let h = Harness::with(stop).await;
    let ids = [
        h.ready("a", RestartPolicy::Never).await,
        h.ready("b", RestartPolicy::Never).await,
    ];
    h.fence.shutdown().await;
    for id in ids {
        assert!(matches!(
            h.driver.sighting(id, Role::Workload),
            Some(Sighting::Exited(..))
        ));
        assert_eq!(h.driver.container(id, Role::Supervisor), None);
    }
    assert!(matches!(
        h.create("c", RestartPolicy::Never).await,
        Err(CommandError::ShuttingDown)
    ));
    let g = h.again(FenceConfig::default()).await;
    for id in ids {
        g.ready_run(id, 2).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_waits_for_what_is_being_made_and_for_nothing_else() {
    let h = Harness::new().await;
    let ready = h.ready("ready", RestartPolicy::Never).await;
    h.driver.script(
        Method::PrepareRun,
        None,
        Fault::Delay(Duration::from_secs(2)),
    );
    let id = h
        .create("a", RestartPolicy::Never)
        .await
        .expect("created")
        .meta
        .id;
    h.eventually("it is being made", || {
        h.driver.count(Method::PrepareRun, id) == 1
    })
    .await;
    let before = tokio::time::Instant::now();
    h.fence.shutdown().await;
    assert_eq!(before.elapsed().as_secs(), 2);
    let stored = h.store.sandbox(id).await.expect("readable").expect("there");
    let run = stored.life.run.expect("a run");
    assert!(run.workload.is_some() && run.supervisor.is_some(), "L2");
    assert_eq!(h.driver.count(Method::Launch, id), 0);
    assert!(matches!(
        h.driver.sighting(ready, Role::Workload),
        Some(Sighting::Running(_))
    ));
    let g = h.again(FenceConfig::default()).await;
    g.phase(id, Phase::Ready).await;
}

#[tokio::test(start_paused = true)]
async fn a_supervisor_that_an_interrupted_start_left_is_swept_up() {
    let h = Harness::new().await;
    let id = h.ready("a", RestartPolicy::Never).await;
    h.fence.stop(id).await.expect("accepted");
    h.until(id, "stopped and clean", |r| {
        r.life.phase == Phase::Stopped && r.life.retired.is_empty()
    })
    .await;
    h.fence.shutdown().await;
    h.driver.leave_supervisor(id, 1);
    assert_eq!(h.fence.leftovers().await.expect("listed").len(), 1);
    let g = h.again(FenceConfig::default()).await;
    g.eventually("it is removed", || {
        g.driver.container(id, Role::Supervisor).is_none()
    })
    .await;
    assert!(g.driver.container(id, Role::Workload).is_some());
    assert_eq!(g.fence.leftovers().await.expect("listed"), []);
}

#[tokio::test(start_paused = true)]
async fn l13_a_supervisor_of_an_earlier_run_is_swept_up_while_a_newer_one_is_being_made() {
    let h = Harness::new().await;
    let id = h.ready("a", RestartPolicy::Never).await;
    h.fence.stop(id).await.expect("accepted");
    h.until(id, "clean", |r| r.life.retired.is_empty()).await;
    h.driver
        .script(Method::PrepareRun, Some(id), Fault::Hold(Gate::new()));
    h.fence.start(id).await.expect("accepted");
    h.eventually("run 2 is being made", || {
        h.driver.count(Method::PrepareRun, id) == 2
    })
    .await;
    h.fence.kill();
    // What run 2 had made, and nobody has recorded.
    h.driver.leave_supervisor(id, 2);
    let making = Gate::new();
    h.driver
        .script(Method::PrepareRun, Some(id), Fault::Hold(making.clone()));
    let g = h.again(FenceConfig::default()).await;
    g.eventually("run 3 is being made, and run 2 swept up", || {
        g.driver.count(Method::PrepareRun, id) == 3
            && g.driver.container(id, Role::Supervisor).is_none()
    })
    .await;
    making.open();
    g.ready_run(id, 3).await;
    assert_eq!(g.driver.containers(), 2);
}

/// A run that an earlier gateway process has launched, and that nobody has heard of since.
async fn half_launched(gone: bool) -> (Harness, SandboxId) {
    let h = Harness::new().await;
    h.mute_supervisors();
    let accepted = h.create("a", RestartPolicy::Never).await.expect("created");
    let id = accepted.meta.id;
    h.until(id, "launched", |r| {
        r.life.condition.reason == Reason::SupervisorNotConnected
    })
    .await;
    h.fence.kill();
    if gone {
        h.driver.exit(id, Role::Workload, 70, false);
    }
    let waits = h.driver.count(Method::Wait, id);
    let g = h.again(FenceConfig::default()).await;
    if !gone {
        g.eventually("both halves are watched", || {
            g.driver.count(Method::Wait, id) == waits + 2
        })
        .await;
    }
    (g, id)
}

#[tokio::test(start_paused = true)]
async fn l9_a_launch_that_the_gateways_death_interrupted_is_made_anew() {
    // Its workload has never got its bootstrap, and gives up, or has done so before.
    for gone in [false, true] {
        let (g, id) = half_launched(gone).await;
        g.driver.exit(id, Role::Workload, 70, false);
        g.ready_run(id, 2).await;
    }
    // Its supervisor has waited for the workload in vain.
    let (g, id) = half_launched(false).await;
    let late = SessionEvent::Failed("LinkTimedOut".to_owned(), "nobody dialled".to_owned());
    g.fence
        .session_event(id, Generation(1), instance(5), late)
        .await;
    g.ready_run(id, 2).await;
}

#[tokio::test(start_paused = true)]
async fn what_was_stopped_with_the_gateway_runs_again_only_as_configured() {
    let stop = FenceConfig {
        on_shutdown: ShutdownMode::Stop,
        restore: RestoreMode::Policy,
        ..FenceConfig::default()
    };
    let h = Harness::with(stop.clone()).await;
    let never = h.ready("never", RestartPolicy::Never).await;
    let always = h.ready("always", RestartPolicy::Always).await;
    h.fence.shutdown().await;
    let g = h.again(stop).await;
    g.ready_run(always, 2).await;
    let resting = g.phase(never, Phase::Error).await;
    assert_eq!(
        resting.life.condition.reason,
        Reason::ContainerRuntimeRestart
    );
    g.fence.start(never).await.expect("accepted");
    g.ready_run(never, 2).await;
}

#[tokio::test(start_paused = true)]
async fn l9_a_run_that_its_supervisor_ended_for_want_of_a_gateway_is_relaunched_as_configured() {
    for (restore, outlives) in [
        (RestoreMode::Intent, false),
        (RestoreMode::None, false),
        (RestoreMode::Intent, true),
        (RestoreMode::None, true),
    ] {
        let h = Harness::new().await;
        let id = h.ready("a", RestartPolicy::Never).await;
        h.fence.kill();
        // It ends the workload over the link first, unless that is broken.
        if !outlives {
            h.driver.exit(id, Role::Workload, 3, false);
        }
        let code = openshell_core::bootstrap::GATEWAY_UNREACHABLE_EXIT;
        h.driver.exit(id, Role::Supervisor, i32::from(code), false);
        let config = FenceConfig {
            restore,
            ..FenceConfig::default()
        };
        let g = h.again(config).await;
        if restore == RestoreMode::None {
            let ended = g.phase(id, Phase::Error).await;
            assert_eq!(ended.life.condition.reason, Reason::GatewayUnreachable);
            g.fence.start(id).await.expect("accepted");
        }
        g.ready_run(id, 2).await;
        let journal = g.journal(id).await;
        let told = |entry: &JournalEntry| entry.message.contains("gateway_outage_limit");
        assert!(journal.iter().any(told), "{journal:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_stopped_with_the_gateway_has_its_whole_grace() {
    let stop = FenceConfig {
        on_shutdown: ShutdownMode::Stop,
        ..FenceConfig::default()
    };
    let h = Harness::with(stop.clone()).await;
    let id = h.ready("a", RestartPolicy::Never).await;
    let takes = stop.stop_grace + Duration::from_secs(1);
    h.driver.script(Method::Stop, Some(id), Fault::Delay(takes));
    h.fence.shutdown().await;
    assert!(matches!(
        h.driver.sighting(id, Role::Workload),
        Some(Sighting::Exited(..))
    ));
    let g = h.again(stop).await;
    g.ready_run(id, 2).await;
}
