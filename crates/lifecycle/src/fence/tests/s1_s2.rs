//! S1, an exit that is told after the replacement is Ready, and S2, a stop that meets the failure that it recovers
//! from: every overlap is forced by gates, none by the luck of timing.

use std::time::Duration;

use openshell_core::journal::Verdict;
use openshell_core::{Phase, Reason, RestartPolicy, SandboxId};

use super::harness::Harness;
use crate::driver::{
    DriverError, DriverErrorKind, EngineEvent, EngineEventKind, EngineSignal, Role, Sighting,
};
use crate::fence::LifecycleFence;
use crate::ports::Environment;
use crate::simulated::{Fault, Gate, Method};

/// The end of a half's present process, as the event stream tells it, now or later.
fn death(h: &Harness, id: SandboxId, role: Role, code: i32) -> EngineSignal {
    EngineSignal::Event(EngineEvent {
        sandbox: id,
        role,
        container: h.driver.container(id, role).expect("made"),
        kind: EngineEventKind::Died { code },
        time: h.environment.now(),
    })
}

async fn judged(h: &Harness, id: SandboxId, verdict: Verdict) -> usize {
    let journal = h.journal(id).await;
    journal.iter().filter(|e| e.verdict == verdict).count()
}

/// Waits until so many entries have a verdict: until what was told has been heard.
async fn until_judged(h: &Harness, id: SandboxId, verdict: Verdict, count: usize) {
    let wait = async {
        while judged(h, id, verdict).await < count {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let heard = tokio::time::timeout(Duration::from_secs(60), wait).await;
    assert!(heard.is_ok(), "{verdict:?}: {:#?}", h.journal(id).await);
}

fn calls(h: &Harness) -> usize {
    h.driver.calls().len()
}

/// A second run that is Ready, while neither the wait nor the event has told of the first one's end.
async fn replaced(h: &Harness) -> (SandboxId, Gate, EngineSignal) {
    let wait = Gate::new();
    // The workload's wait is the first that a run begins; the supervisor's is the other.
    h.driver
        .script(Method::Wait, None, Fault::Hold(wait.clone()));
    h.driver
        .script(Method::Wait, None, Fault::Hold(wait.clone()));
    let id = h.ready("phoenix", RestartPolicy::OnFailure).await;
    h.eventually("both waits", || h.driver.count(Method::Wait, id) == 2)
        .await;
    h.main_exits(id, 17).await;
    let late = death(h, id, Role::Workload, 17);
    let ready = h.ready_run(id, 2).await;
    assert_eq!(ready.life.restart.count, 1);
    h.until(id, "its supervisor is removed", |r| {
        r.life.retired.is_empty()
    })
    .await;
    (id, wait, late)
}

#[tokio::test(start_paused = true)]
async fn s1_a_an_exit_told_seconds_or_minutes_after_the_replacement_is_ready_changes_nothing() {
    let h = Harness::new().await;
    let (id, wait, late) = replaced(&h).await;
    let ready = h.record(id);
    let (stale, made) = (judged(&h, id, Verdict::Stale).await, calls(&h));
    for (told, later) in [(1, 3), (2, 600)] {
        tokio::time::advance(Duration::from_secs(later)).await;
        h.driver.signal(late.clone()).await;
        until_judged(&h, id, Verdict::Stale, stale + told).await;
        assert_eq!(h.record(id), ready);
    }
    wait.open();
    h.driver.signal(late).await;
    until_judged(&h, id, Verdict::Stale, stale + 3).await;
    assert_eq!(h.record(id), ready);
    assert_eq!(calls(&h), made, "no engine call");
}

#[tokio::test(start_paused = true)]
async fn s1_c_a_genuine_exit_right_behind_the_stale_one_is_acted_on() {
    let h = Harness::new().await;
    let (id, wait, late) = replaced(&h).await;
    let stale = judged(&h, id, Verdict::Stale).await;
    // The clock is the engine's: a run's end is later than its start.
    tokio::time::advance(Duration::from_secs(1)).await;
    h.main_exits(id, 17).await;
    let genuine = death(&h, id, Role::Workload, 17);
    wait.open();
    h.driver.signal(late).await;
    h.driver.signal(genuine).await;
    let again = h.ready_run(id, 3).await;
    assert_eq!(again.life.restart.count, 2);
    assert!(judged(&h, id, Verdict::Stale).await > stale);
}

#[tokio::test(start_paused = true)]
async fn s1_d_a_genuine_loss_of_the_supervisor_after_the_stale_exit_still_contains() {
    let h = Harness::new().await;
    let (id, wait, late) = replaced(&h).await;
    let stale = judged(&h, id, Verdict::Stale).await;
    wait.open();
    h.driver.signal(late).await;
    until_judged(&h, id, Verdict::Stale, stale + 1).await;
    tokio::time::advance(Duration::from_secs(300)).await;
    let stops = h.driver.count(Method::Stop, id);
    h.driver.exit(id, Role::Supervisor, 137, false);
    h.ready_run(id, 3).await;
    assert_eq!(h.driver.count(Method::Stop, id), stops + 1);
    let journal = h.journal(id).await;
    let contained = |reason| reason == Reason::ControlSupervisorExited;
    assert!(journal.iter().any(|e| contained(e.reason)), "{journal:#?}");
}

/// A lost supervisor whose workload is still being cleaned up when that is due: Error, and a gate before the rest.
async fn lost(h: &Harness) -> (SandboxId, Gate) {
    let cleanup = Gate::new();
    let id = h.ready("box", RestartPolicy::Never).await;
    h.driver
        .script(Method::Stop, Some(id), Fault::Hold(cleanup.clone()));
    h.driver.exit(id, Role::Supervisor, 137, false);
    let failed = h.phase(id, Phase::Error).await;
    let reason = failed.life.condition.reason;
    assert_eq!(reason, Reason::ControlSupervisorExited);
    assert_eq!(h.driver.count(Method::Stop, id), 1);
    (id, cleanup)
}

#[tokio::test(start_paused = true)]
async fn s2_a_b_d_a_stop_that_meets_the_failure_it_recovers_from_ends_stopped() {
    let h = Harness::new().await;
    let (id, cleanup) = lost(&h).await;
    let workload = h.driver.container(id, Role::Workload);
    h.fence.stop(id).await.expect("accepted");
    let failures = [
        death(&h, id, Role::Supervisor, 137),
        death(&h, id, Role::Workload, 137),
    ];
    let heard = judged(&h, id, Verdict::Superseded).await;
    for failure in &failures {
        h.driver.signal(failure.clone()).await;
    }
    until_judged(&h, id, Verdict::Superseded, heard + 2).await;
    assert_eq!(h.record(id).life.phase, Phase::Stopping);
    cleanup.open();
    let stopped = h.phase(id, Phase::Stopped).await;
    h.until(id, "its supervisor is removed", |r| {
        r.life.retired.is_empty()
    })
    .await;
    let stale = judged(&h, id, Verdict::Stale).await;
    for failure in failures {
        h.driver.signal(failure).await;
    }
    until_judged(&h, id, Verdict::Stale, stale + 2).await;
    assert_eq!(h.record(id).life.phase, Phase::Stopped);
    assert_eq!(h.record(id).life.condition, stopped.life.condition);
    let journal = h.journal(id).await;
    let asked = journal.iter().rposition(|e| e.input == "command stop");
    let since = &journal[asked.expect("journaled")..];
    let outranks = |phase| matches!(phase, Phase::Stopping | Phase::Stopped);
    assert!(since.iter().all(|e| outranks(e.new_phase)), "{since:#?}");
    h.fence.start(id).await.expect("accepted");
    h.ready_run(id, 2).await;
    assert_eq!(h.driver.container(id, Role::Workload), workload);
}

#[tokio::test(start_paused = true)]
async fn s2_a_the_engines_word_ends_the_stop_and_no_newer_run_begins_before_the_older_answer() {
    let h = Harness::new().await;
    let (id, cleanup) = lost(&h).await;
    h.fence.stop(id).await.expect("accepted");
    // It has ended, by the wait; the answer to the stop is still out.
    h.driver.exit(id, Role::Workload, 137, false);
    h.phase(id, Phase::Stopped).await;
    let launches = h.driver.count(Method::Launch, id);
    h.fence.start(id).await.expect("accepted");
    h.until(id, "its supervisor is removed", |r| {
        r.life.retired.is_empty()
    })
    .await;
    // A stop that the engine has not answered could still hit what is started now.
    assert_eq!(h.driver.count(Method::Launch, id), launches);
    cleanup.open();
    h.ready_run(id, 2).await;
    let running = h.driver.sighting(id, Role::Workload);
    assert!(matches!(running, Some(Sighting::Running(_))), "{running:?}");
}

#[tokio::test(start_paused = true)]
async fn s2_c_a_stop_that_really_fails_says_so_can_be_tried_again_and_containment_still_works() {
    let h = Harness::new().await;
    let id = h.ready("box", RestartPolicy::Never).await;
    let busy = || Fault::Fail(DriverError::new(DriverErrorKind::Engine, "device busy"));
    for _ in 0..4 {
        h.driver.script(Method::Stop, Some(id), busy());
    }
    h.fence.stop(id).await.expect("accepted");
    let failed = h.phase(id, Phase::Error).await;
    assert_eq!(failed.life.condition.reason, Reason::StopFailed);
    assert!(failed.life.condition.message.contains("device busy"));
    h.fence.stop(id).await.expect("accepted");
    h.phase(id, Phase::Stopped).await;
    h.fence.start(id).await.expect("accepted");
    h.ready_run(id, 2).await;
    // The engine refuses twice; a workload without its supervisor is ended all the same.
    for _ in 0..2 {
        h.driver.script(Method::Stop, Some(id), busy());
    }
    h.driver.exit(id, Role::Supervisor, 137, false);
    let contained = h.phase(id, Phase::Error).await;
    let reason = contained.life.condition.reason;
    assert_eq!(reason, Reason::ControlSupervisorExited);
    let ended = h.driver.sighting(id, Role::Workload);
    assert!(matches!(ended, Some(Sighting::Exited(..))), "{ended:?}");
}

#[tokio::test(start_paused = true)]
async fn s2_c_a_start_or_a_delete_during_a_stop_is_not_trampled() {
    let h = Harness::new().await;
    let stop = Gate::new();
    for name in ["starts", "goes"] {
        let id = h.ready(name, RestartPolicy::Never).await;
        h.driver
            .script(Method::Stop, Some(id), Fault::Hold(stop.clone()));
        h.fence.stop(id).await.expect("accepted");
        h.eventually("the stop", || h.driver.count(Method::Stop, id) == 1)
            .await;
    }
    let id = |name| {
        h.fence
            .list()
            .iter()
            .find(|r| r.meta.name.as_str() == name)
            .map(|r| r.meta.id)
    };
    let (starts, goes) = (id("starts").expect("made"), id("goes").expect("made"));
    let failure = death(&h, starts, Role::Workload, 137);
    h.fence.start(starts).await.expect("accepted");
    h.fence.delete(goes).await.expect("accepted");
    h.gone(goes).await;
    assert_eq!(h.driver.count(Method::Launch, starts), 1);
    tokio::time::advance(Duration::from_secs(1)).await;
    stop.open();
    h.ready_run(starts, 2).await;
    let stale = judged(&h, starts, Verdict::Stale).await;
    h.driver.signal(failure).await;
    until_judged(&h, starts, Verdict::Stale, stale + 1).await;
    assert_eq!(h.record(starts).life.phase, Phase::Ready);
    assert_eq!(
        h.driver.containers(),
        2,
        "of the deleted one nothing is left"
    );
}
