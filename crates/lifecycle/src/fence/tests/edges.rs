//! What tells one situation of the fence from the next: bounds, handles, and what is counted.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};
use std::time::Duration;

use openshell_core::{Generation, Phase, RestartPolicy, SandboxId};
use openshell_store::{Passing, StoreError, Weather};

use super::harness::Harness;
use crate::config::FenceConfig;
use crate::driver::{DriverError, DriverErrorKind, EngineSignal, Role};
use crate::fence::{CommandError, LifecycleFence};
use crate::ports::{Environment, SessionEvent};
use crate::simulated::{Fault, Gate, Method};

const WELL: u8 = 0;
const FULL: u8 = 1;
const ELSEWHERE: u8 = 2;

/// A store that fails in one way for a while, and counts how often it was tried.
#[derive(Default)]
struct Failing {
    how: AtomicU8,
    tried: AtomicU32,
}

impl Weather for Failing {
    fn before(&self, writes: bool) -> Passing<'_, Result<(), StoreError>> {
        let how = self.how.load(Ordering::Relaxed);
        let failed = match how {
            FULL if writes => Err(StoreError::Failed("the disk is full".to_owned())),
            ELSEWHERE if writes => Err(StoreError::Conflict {
                expected: 1,
                current: 2,
            }),
            _ => Ok(()),
        };
        if failed.is_err() {
            self.tried.fetch_add(1, Ordering::Relaxed);
        }
        Box::pin(std::future::ready(failed))
    }

    fn after(&self, _writes: bool) -> Passing<'_, ()> {
        Box::pin(std::future::ready(()))
    }
}

/// A sandbox that is Ready under a gateway whose store may fail.
async fn over(failing: &Arc<Failing>) -> (Harness, SandboxId) {
    let h = Harness::new().await;
    let g = h.again_on(h.store.under(failing.clone())).await;
    let id = g.ready("a", RestartPolicy::Never).await;
    (g, id)
}

#[tokio::test(start_paused = true)]
async fn l16_a_fact_waits_for_its_store_with_growing_pauses() {
    let failing = Arc::new(Failing::default());
    let (h, id) = over(&failing).await;
    failing.how.store(FULL, Ordering::Relaxed);
    h.driver
        .signal(EngineSignal::MonitorLost("end of stream".to_owned()))
        .await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    // After 0.1, 0.2, 0.4 … s, and then every five.
    let tried = failing.tried.load(Ordering::Relaxed);
    assert!((14..=20).contains(&tried), "{tried} times in a minute");
    failing.how.store(WELL, Ordering::Relaxed);
    h.until(id, "written at last", |r| {
        r.life.condition.message != "running"
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn l16_a_store_that_always_conflicts_has_failed_and_nothing_is_accepted() {
    let failing = Arc::new(Failing::default());
    let (h, id) = over(&failing).await;
    failing.how.store(ELSEWHERE, Ordering::Relaxed);
    let refused = h.fence.stop(id).await;
    assert!(
        matches!(refused, Err(CommandError::Store(_))),
        "{refused:?}"
    );
    assert_eq!(failing.tried.load(Ordering::Relaxed), 17);
    failing.how.store(WELL, Ordering::Relaxed);
    assert_eq!(h.record(id).life.phase, Phase::Ready);
    h.fence.stop(id).await.expect("accepted");
    h.phase(id, Phase::Stopped).await;
}

fn orders(h: &Harness, id: SandboxId) -> Vec<String> {
    let sessions = h.sessions.lock().expect("not poisoned");
    sessions[&id].1.orders()
}

#[tokio::test(start_paused = true)]
async fn a_session_is_closed_with_its_run_and_not_by_the_end_of_an_earlier_one() {
    let h = Harness::new().await;
    let id = h.ready("a", RestartPolicy::Never).await;
    let run = h.record(id).life.run.clone().expect("a run");
    let instance = run.instance.expect("in session");
    // It names the instance, and another run.
    let closed = SessionEvent::Closed("gone".to_owned());
    h.sessions.lock().expect("not poisoned")[&id].1.break_off();
    h.fence
        .session_event(id, Generation(0), instance, closed)
        .await;
    h.fence.stop(id).await.expect("accepted");
    h.phase(id, Phase::Stopped).await;
    assert_eq!(orders(&h, id), ["close: the run has ended"]);
    h.fence.start(id).await.expect("accepted");
    h.ready_run(id, 2).await;
    h.fence.delete(id).await.expect("accepted");
    h.gone(id).await;
    assert_eq!(orders(&h, id), ["close: the sandbox is deleted"]);
}

#[tokio::test(start_paused = true)]
async fn l6_a_grace_that_is_longer_than_an_engine_call_is_given_whole() {
    let h = Harness::with(FenceConfig {
        stop_grace: Duration::from_secs(120),
        ..FenceConfig::default()
    })
    .await;
    let id = h.ready("a", RestartPolicy::Never).await;
    let takes = Fault::Delay(Duration::from_secs(119));
    h.driver.script(Method::Stop, Some(id), takes);
    let before = h.environment.now();
    h.fence.stop(id).await.expect("accepted");
    h.phase(id, Phase::Stopped).await;
    assert_eq!(h.driver.count(Method::Stop, id), 1);
    assert!(h.environment.now().duration_since(before).as_secs() >= 119);
}

fn inspections(h: &Harness) -> usize {
    let calls = h.driver.calls();
    calls
        .iter()
        .filter(|call| call.method == Method::Inspect)
        .count()
}

#[tokio::test(start_paused = true)]
async fn l15_the_engine_is_not_asked_about_everything_at_once_and_what_runs_does_not_wait() {
    let few = FenceConfig {
        restore_concurrency: 1,
        ..FenceConfig::default()
    };
    let h = Harness::with(few.clone()).await;
    let mut all = Vec::new();
    for name in ["a", "b", "c"] {
        all.push(h.ready(name, RestartPolicy::Never).await);
    }
    for rests in &all[..2] {
        h.main_exits(*rests, 0).await;
        h.phase(*rests, Phase::Completed).await;
    }
    let gate = Gate::new();
    let hold = |h: &Harness, id: SandboxId| {
        for _ in 0..2 {
            h.driver
                .script(Method::Inspect, Some(id), Fault::Hold(gate.clone()));
        }
    };
    // The engine is back: two that rest are asked about in turn, and what runs beside them.
    for rests in &all[..2] {
        hold(&h, *rests);
    }
    let before = inspections(&h);
    let engine = h.record(all[2]).life.engine.clone().expect("known");
    h.driver.signal(EngineSignal::Connected(engine)).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(inspections(&h) - before, 3, "one of them, and both halves");
    gate.open();
    h.eventually("the other one too", || inspections(&h) - before == 4)
        .await;
    // The gateway is back: its two questions about one sandbox are asked in turn.
    h.fence.shutdown().await;
    let gate = Gate::new();
    for _ in 0..2 {
        h.driver
            .script(Method::Inspect, Some(all[2]), Fault::Hold(gate.clone()));
    }
    let before = h.driver.count(Method::Inspect, all[2]);
    let g = h.again(few).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(g.driver.count(Method::Inspect, all[2]) - before, 1);
    gate.open();
    g.eventually("the other half too", || {
        g.driver.count(Method::Inspect, all[2]) - before >= 2
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_deleted_sandbox_is_found_by_nothing_and_its_name_is_free() {
    let h = Harness::new().await;
    assert_eq!(format!("{:?}", h.fence), "Fence(..)");
    let mut changes = h.fence.changes();
    let id = h.ready("a", RestartPolicy::Never).await;
    assert!(changes.has_changed().expect("the fence is there"));
    changes.mark_unchanged();
    let meta = h.record(id).meta.clone();
    let found = h.fence.by_name(&meta.workspace, &meta.name);
    assert_eq!(found.map(|r| r.meta.id), Some(id));
    h.fence.delete(id).await.expect("accepted");
    h.gone(id).await;
    assert!(changes.has_changed().expect("the fence is there"));
    assert_eq!(h.fence.by_name(&meta.workspace, &meta.name), None);
    assert!(h.fence.watch(id).is_none() && h.fence.by_id(id).is_none());
    assert_eq!(h.fence.list(), []);
    let next = h.ready("a", RestartPolicy::Never).await;
    let found = h.fence.by_name(&meta.workspace, &meta.name);
    assert_eq!(found.map(|r| r.meta.id), Some(next));
}

#[tokio::test(start_paused = true)]
async fn l14_what_a_record_knows_or_is_about_to_know_is_no_leftover() {
    let h = Harness::new().await;
    let leftovers = async || {
        let found = h.fence.leftovers().await.expect("an answer");
        found.into_iter().map(|o| o.container).collect::<Vec<_>>()
    };
    let gate = Gate::new();
    h.driver
        .script(Method::Launch, None, Fault::Hold(gate.clone()));
    let made = h.create("a", RestartPolicy::Never).await.expect("created");
    let id = made.meta.id;
    h.eventually("it is being launched", || {
        h.driver.count(Method::Launch, id) == 1
    })
    .await;
    h.driver.leave_supervisor(id, 7);
    assert_eq!(leftovers().await, [], "a start in flight may be making it");
    gate.open();
    h.phase(id, Phase::Ready).await;
    assert_eq!(leftovers().await.len(), 1, "now no record will know it");
    // A retired supervisor that could not be removed yet is no leftover either.
    let present = h.record(id).life.run.clone().expect("a run");
    let away = DriverError::new(DriverErrorKind::Unreachable, "the connection broke");
    h.driver
        .script(Method::RemoveSupervisor, Some(id), Fault::Fail(away));
    h.fence.stop(id).await.expect("accepted");
    let stopped = h.phase(id, Phase::Stopped).await;
    assert_eq!(stopped.life.operation, None);
    let retired = present.supervisor.expect("it had one");
    assert!(stopped.life.retired.contains(&retired));
    assert!(!leftovers().await.contains(&retired));
    assert!(h.driver.container(id, Role::Workload).is_some());
}
