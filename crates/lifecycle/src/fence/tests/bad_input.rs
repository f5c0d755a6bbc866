//! Records, clocks and drivers that make no sense.

use std::time::Duration;

use openshell_core::{
    ContainerId, EngineId, Generation, Operation, OperationId, OperationKind, Phase, Reason,
    RestartPolicy, Run,
};
use uuid::Uuid;

use super::harness::Harness;
use crate::config::FenceConfig;
use crate::driver::{EngineEvent, EngineEventKind, EngineSignal, Role, Sighting};
use crate::fence::{CommandError, LifecycleFence};
use crate::ports::Environment;
use crate::simulated::{Fault, Method};
use crate::time::after;

/// A record that says Starting, with a run of which the engine never heard.
async fn starting(h: &Harness, run: Run, operation: bool) -> openshell_core::SandboxId {
    let id = h.ready("a", RestartPolicy::Never).await;
    h.fence.stop(id).await.expect("accepted");
    h.until(id, "at rest", |r| {
        r.life.phase == Phase::Stopped && r.life.retired.is_empty()
    })
    .await;
    h.fence.kill();
    let mut record = (*h.record(id)).clone();
    let now = h.environment.now();
    record.life.intent = openshell_core::Intent::Running;
    record.life.phase = Phase::Starting;
    record.life.generation = run.generation;
    record.life.run = Some(Run {
        workload: run
            .workload
            .clone()
            .or_else(|| record.life.run.and_then(|r| r.workload)),
        ..run
    });
    record.life.operation = operation.then(|| Operation {
        id: OperationId::from_uuid(Uuid::from_u128(9)),
        kind: OperationKind::Start,
        started: now,
        deadline: after(now, Duration::from_secs(300)),
    });
    h.store
        .put_sandbox(&record, Vec::new(), None)
        .await
        .expect("written");
    id
}

#[tokio::test(start_paused = true)]
async fn a_record_that_says_starting_with_a_run_the_engine_never_saw_is_started_anew() {
    for operation in [true, false] {
        let h = Harness::new().await;
        let id = starting(&h, Run::new(Generation(7)), operation).await;
        let g = h.again(FenceConfig::default()).await;
        g.ready_run(id, 8).await;
        assert_eq!(g.driver.containers(), 2, "and nothing of it is left over");
    }
}

#[tokio::test(start_paused = true)]
async fn a_record_that_names_containers_the_engine_never_saw_is_an_error_that_a_start_leads_out_of()
{
    let h = Harness::new().await;
    let run = Run {
        workload: Some(ContainerId("nowhere".to_owned())),
        supervisor: Some(ContainerId("nowhere either".to_owned())),
        ..Run::new(Generation(7))
    };
    let id = starting(&h, run, true).await;
    let g = h.again(FenceConfig::default()).await;
    let failed = g.phase(id, Phase::Error).await;
    assert_eq!(failed.life.condition.reason, Reason::RuntimeMissing);
    g.fence.start(id).await.expect("accepted");
    g.ready_run(id, 8).await;
}

#[tokio::test(start_paused = true)]
async fn a_record_of_a_newer_version_is_refused_by_name_kept_and_hinders_no_other() {
    let h = Harness::new().await;
    let strange = h.ready("strange", RestartPolicy::Never).await;
    let plain = h.ready("plain", RestartPolicy::Never).await;
    h.fence.kill();
    h.store
        .damage_record(strange, "\"phase\":\"ready\"", "\"phase\":\"dreaming\"")
        .await
        .expect("written");
    let g = h.again(FenceConfig::default()).await;
    let workspace = openshell_core::WorkspaceName::default_workspace();
    let name = openshell_core::SandboxName::new("strange").expect("valid");
    assert!(g.fence.by_name(&workspace, &name).is_none());
    let why = g.fence.unreadable(&workspace, &name).expect("it says why");
    assert!(
        why.contains("dreaming") && why.contains("newer gateway"),
        "{why}"
    );
    let taken = g.create("strange", RestartPolicy::Never).await;
    assert!(
        matches!(taken, Err(CommandError::Unreadable(_))),
        "{taken:?}"
    );
    g.ready_run(plain, 2).await;
    let (_, unreadable) = g.store.sandboxes().await.expect("readable");
    assert_eq!(unreadable.len(), 1, "it is kept as it is");
    assert!(matches!(
        g.driver.sighting(strange, Role::Workload),
        Some(Sighting::Running(_))
    ));
    let leftovers = g.fence.leftovers().await.expect("listed");
    assert_eq!(leftovers, [], "what is its own is no leftover");
}

#[tokio::test(start_paused = true)]
async fn a_journal_whose_last_row_is_torn_shows_the_others_and_what_comes_after() {
    let h = Harness::new().await;
    let id = h.ready("a", RestartPolicy::Never).await;
    let before = h.journal(id).await;
    h.store.tear_journal(id).await.expect("written");
    let torn = h.journal(id).await;
    assert_eq!(torn.len(), before.len() - 1);
    h.fence.stop(id).await.expect("accepted");
    h.phase(id, Phase::Stopped).await;
    let after = h.journal(id).await;
    assert!(after.len() > torn.len());
    assert!(after.iter().any(|e| e.input == "command stop"));
}

#[tokio::test(start_paused = true)]
async fn l16_a_clock_that_jumps_back_an_hour_holds_nothing_up() {
    let h = Harness::new().await;
    h.driver.make_stubborn(true);
    let id = h.ready("a", RestartPolicy::Always).await;
    h.main_exits(id, 1).await;
    h.ready_run(id, 2).await;
    h.main_exits(id, 1).await;
    h.until(id, "waiting", |r| r.life.restart.next.is_some())
        .await;
    let before = tokio::time::Instant::now();
    h.environment.set_clock(-3600);
    h.ready_run(id, 3).await;
    assert!(
        before.elapsed() < Duration::from_secs(5),
        "{:?}",
        before.elapsed()
    );
    h.fence.stop(id).await.expect("accepted");
    h.environment.set_clock(-3600);
    h.phase(id, Phase::Stopped).await;
    assert!(
        before.elapsed() < Duration::from_secs(20),
        "{:?}",
        before.elapsed()
    );
}

#[tokio::test(start_paused = true)]
async fn l16_a_clock_that_jumps_forward_a_day_ends_nothing_early() {
    let h = Harness::new().await;
    h.driver.script(Method::PrepareImage, None, Fault::Hang);
    let id = h
        .create("a", RestartPolicy::Never)
        .await
        .expect("created")
        .meta
        .id;
    tokio::time::sleep(Duration::from_secs(10)).await;
    let before = tokio::time::Instant::now();
    h.environment.set_clock(86_400);
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(h.record(id).life.phase, Phase::Provisioning);
    let failed = h.phase(id, Phase::Error).await;
    assert_eq!(failed.life.condition.reason, Reason::ProvisioningTimedOut);
    let waited = before.elapsed().as_secs();
    assert!((280..=300).contains(&waited), "{waited}");
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_is_set_by_no_more_than_two_seconds_is_not_worth_a_word() {
    for (by, noted) in [(2, false), (-2, false), (3, true), (-3, true)] {
        let h = Harness::new().await;
        let id = h.ready("a", RestartPolicy::Never).await;
        h.environment.set_clock(by);
        h.fence.stop(id).await.expect("accepted");
        h.phase(id, Phase::Stopped).await;
        let journal = h.journal(id).await;
        let moves =
            |e: &openshell_core::journal::JournalEntry| e.message == "what is due moves with it";
        assert_eq!(journal.iter().any(moves), noted, "{by} s");
    }
}

#[tokio::test(start_paused = true)]
async fn l18_a_fresh_engine_in_the_place_of_ours_marks_nothing_as_gone_and_removes_no_record() {
    let h = Harness::new().await;
    let ready = h.ready("ready", RestartPolicy::Always).await;
    let stopped = h.ready("stopped", RestartPolicy::Never).await;
    h.fence.stop(stopped).await.expect("accepted");
    h.phase(stopped, Phase::Stopped).await;
    h.fence.kill();
    h.mute_supervisors();
    let ours = h.driver.replace_engine(EngineId("fresh".to_owned()));
    let g = h.again(FenceConfig::default()).await;
    tokio::time::sleep(Duration::from_secs(900)).await;
    let waiting = g.record(ready);
    assert_eq!(waiting.life.condition.reason, Reason::EngineUnreachable);
    assert_eq!(waiting.life.generation.0, 1);
    assert!(
        waiting
            .life
            .run
            .as_ref()
            .is_some_and(|r| r.workload.is_some())
    );
    let kept = g.record(stopped);
    assert_eq!(kept.life.phase, Phase::Stopped);
    assert!(kept.life.run.as_ref().is_some_and(|r| r.workload.is_some()));
    g.driver.restore_engine(ours);
    g.phase(ready, Phase::Ready).await;
}

#[tokio::test(start_paused = true)]
async fn l16_a_driver_that_panics_or_never_answers_holds_neither_a_sandbox_nor_the_watch_up() {
    for fault in [Fault::Hang, Fault::Panic] {
        let h = Harness::new().await;
        for method in [Method::ListOwned, Method::Wait] {
            h.driver.script(method, None, fault.clone());
        }
        let id = h.ready("a", RestartPolicy::Never).await;
        for method in [Method::Inspect, Method::Stop, Method::RemoveSupervisor] {
            h.driver.script(method, Some(id), fault.clone());
        }
        let now = h.environment.now();
        let hint = EngineEvent {
            sandbox: id,
            role: Role::Supervisor,
            container: h.driver.container(id, Role::Supervisor).expect("there"),
            kind: EngineEventKind::Died { code: 1 },
            time: now,
        };
        h.driver.signal(EngineSignal::Event(hint)).await;
        tokio::time::sleep(Duration::from_secs(120)).await;
        assert_eq!(h.record(id).life.phase, Phase::Ready, "{fault:?}");
        let looked = h.driver.count(Method::Inspect, id);
        assert!(looked >= 2, "the signal was heard, and asked about again");
        h.fence.stop(id).await.expect("accepted");
        let rested = h
            .until(id, "at rest", |r| {
                matches!(r.life.phase, Phase::Stopped | Phase::Error)
            })
            .await;
        if rested.life.phase == Phase::Error {
            assert_eq!(rested.life.condition.reason, Reason::StopFailed);
            h.fence.stop(id).await.expect("it stays stoppable");
            h.phase(id, Phase::Stopped).await;
        }
        h.driver.script(Method::Remove, Some(id), fault);
        h.fence.delete(id).await.expect("accepted");
        h.gone(id).await;
    }
}
