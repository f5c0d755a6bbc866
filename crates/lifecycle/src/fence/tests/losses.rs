//! Exits, losses, late observations, broken streams.

use std::time::Duration;

use openshell_core::journal::Verdict;
use openshell_core::{ExitCause, Phase, Reason, RestartPolicy, SandboxId};

use super::harness::{Harness, hello, instance};
use crate::config::FenceConfig;
use crate::driver::{
    DriverError, DriverErrorKind, EngineEvent, EngineEventKind, EngineSignal, Role, Sighting,
};
use crate::fence::{LifecycleFence, SessionRefused};
use crate::ports::{Environment, MainReport, SessionEvent};
use crate::simulated::{Fault, Method};

#[tokio::test(start_paused = true)]
async fn main_that_ends_with_0_completes_and_a_start_runs_it_again() {
    let h = Harness::new().await;
    let id = h.ready("a", RestartPolicy::OnFailure).await;
    h.main_exits(id, 0).await;
    let done = h.phase(id, Phase::Completed).await;
    assert_eq!(done.life.condition.reason, Reason::MainProcessCompleted);
    assert_eq!(done.life.last_exit.as_ref().map(|e| e.code), Some(0));
    h.fence.start(id).await.expect("accepted");
    h.ready_run(id, 2).await;
}

/// A sandbox whose first main could not start, as its supervisor says; the engine has not confirmed its end.
async fn could_not_start() -> (Harness, SandboxId) {
    let h = Harness::new().await;
    h.mute_supervisors();
    let id = h
        .create("a", RestartPolicy::Never)
        .await
        .expect("created")
        .meta
        .id;
    h.until(id, "launched", |r| {
        r.life.condition.reason == Reason::SupervisorNotConnected
    })
    .await;
    let generation = h.record(id).life.generation;
    h.fence
        .session_opened(hello(id, generation, instance(5), MainReport::NotStarted))
        .await
        .expect("accepted");
    let now = h.environment.now();
    let why = "no such file: /bin/nope".to_owned();
    h.say(id, SessionEvent::MainExited(127, now, why)).await;
    (h, id)
}

/// The engine confirms it: what is shown then, and kept.
async fn fails_to_start(h: &Harness, id: SandboxId) {
    h.driver.exit(id, Role::Workload, 127, false);
    let failed = h.phase(id, Phase::Error).await;
    assert_eq!(failed.life.condition.reason, Reason::MainProcessFailed);
    assert!(failed.life.condition.message.contains("/bin/nope"));
    assert_eq!(failed.life.last_exit.as_ref().map(|e| e.code), Some(127));
    assert_eq!(h.driver.containers(), 0);
}

#[tokio::test(start_paused = true)]
async fn main_that_could_not_start_says_why_and_a_failed_create_leaves_nothing() {
    let (h, id) = could_not_start().await;
    fails_to_start(&h, id).await;
}

#[tokio::test(start_paused = true)]
async fn l2_why_a_main_could_not_start_outlives_the_gateway() {
    let (h, id) = could_not_start().await;
    h.fence.kill();
    let g = h.again(FenceConfig::default()).await;
    g.mute_supervisors();
    fails_to_start(&g, id).await;
}

#[tokio::test(start_paused = true)]
async fn l8_an_on_failure_restart_is_at_once_and_is_counted() {
    let h = Harness::new().await;
    let id = h.ready("a", RestartPolicy::OnFailure).await;
    h.main_exits(id, 17).await;
    let again = h.ready_run(id, 2).await;
    assert_eq!(again.life.restart.count, 1);
    let exit = again.life.last_exit.clone().expect("recorded");
    assert_eq!((exit.code, exit.cause), (17, ExitCause::Main));
}

#[tokio::test(start_paused = true)]
async fn l8_a_crash_loop_backs_off_and_a_stop_cancels_it() {
    let h = Harness::new().await;
    let id = h.ready("a", RestartPolicy::Always).await;
    h.main_exits(id, 1).await;
    h.ready_run(id, 2).await;
    for (generation, wait) in [(3, 1), (4, 2), (5, 4)] {
        let before = tokio::time::Instant::now();
        h.main_exits(id, 1).await;
        let waiting = h
            .until(id, "waiting", |r| r.life.restart.next.is_some())
            .await;
        assert_eq!(waiting.life.phase, Phase::Starting);
        assert_eq!(waiting.life.condition.reason, Reason::RestartBackOff);
        h.ready_run(id, generation).await;
        assert_eq!(before.elapsed().as_secs(), wait);
    }
    h.main_exits(id, 1).await;
    h.until(id, "waiting", |r| r.life.restart.next.is_some())
        .await;
    let stopped = h.fence.stop(id).await.expect("accepted");
    assert_eq!(stopped.life.phase, Phase::Stopped);
    assert_eq!(stopped.life.restart.next, None);
}

#[tokio::test(start_paused = true)]
async fn l3_a_late_exit_of_an_earlier_run_is_journaled_as_stale_and_changes_nothing() {
    let h = Harness::new().await;
    let id = h.ready("a", RestartPolicy::OnFailure).await;
    let container = h.driver.container(id, Role::Workload).expect("made");
    let time = h.environment.now();
    tokio::time::sleep(Duration::from_secs(1)).await;
    h.main_exits(id, 17).await;
    let ready = h.ready_run(id, 2).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    let late = EngineEvent {
        sandbox: id,
        role: Role::Workload,
        container,
        kind: EngineEventKind::Died { code: 17 },
        time,
    };
    let looks = h.driver.count(Method::Inspect, id);
    h.driver.signal(EngineSignal::Event(late)).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(h.record(id), ready);
    assert_eq!(h.driver.count(Method::Inspect, id), looks, "no engine call");
    let last = h.journal(id).await.pop().expect("journaled");
    assert_eq!(last.verdict, Verdict::Stale);
    // A genuine exit right behind it is seen and acted on.
    h.main_exits(id, 17).await;
    h.ready_run(id, 3).await;
}

#[tokio::test(start_paused = true)]
async fn l11_a_lost_supervisor_is_contained_and_a_start_leads_out() {
    let h = Harness::new().await;
    let id = h.ready("a", RestartPolicy::Never).await;
    let before = tokio::time::Instant::now();
    h.driver.exit(id, Role::Supervisor, 137, false);
    let failed = h.phase(id, Phase::Error).await;
    assert_eq!(
        failed.life.condition.reason,
        Reason::ControlSupervisorExited
    );
    assert!(before.elapsed() < Duration::from_secs(1));
    assert!(matches!(
        h.driver.sighting(id, Role::Workload),
        Some(Sighting::Exited(..))
    ));
    h.fence.start(id).await.expect("accepted");
    h.ready_run(id, 2).await;
}

#[tokio::test(start_paused = true)]
async fn l11_a_lost_supervisor_is_restarted_where_the_policy_says_so() {
    let h = Harness::new().await;
    let id = h.ready("a", RestartPolicy::OnFailure).await;
    h.driver.exit(id, Role::Supervisor, 137, false);
    let again = h.ready_run(id, 2).await;
    assert_eq!(again.life.restart.count, 1);
}

#[tokio::test(start_paused = true)]
async fn l5_a_stop_during_containment_ends_stopped_whatever_is_observed() {
    let h = Harness::new().await;
    let id = h.ready("a", RestartPolicy::OnFailure).await;
    h.driver
        .script(Method::Stop, Some(id), Fault::Delay(Duration::from_secs(5)));
    h.driver.exit(id, Role::Supervisor, 137, false);
    h.until(id, "contained", |r| r.life.phase == Phase::Stopping)
        .await;
    h.fence.stop(id).await.expect("accepted");
    let container = h.driver.container(id, Role::Supervisor).expect("there");
    let failure = EngineEvent {
        sandbox: id,
        role: Role::Supervisor,
        container,
        kind: EngineEventKind::Died { code: 137 },
        time: h.environment.now(),
    };
    h.driver.signal(EngineSignal::Event(failure)).await;
    h.phase(id, Phase::Stopped).await;
    let superseded = h
        .journal(id)
        .await
        .iter()
        .any(|e| e.verdict == Verdict::Superseded);
    assert!(superseded);
    h.fence.start(id).await.expect("accepted");
    h.ready_run(id, 2).await;
}

#[tokio::test(start_paused = true)]
async fn l4_a_broken_wait_is_not_an_exit_and_is_taken_up_again_once() {
    let h = Harness::new().await;
    let id = h.ready("a", RestartPolicy::Never).await;
    h.driver.break_waits();
    h.eventually("both waits are taken up again", || {
        h.driver.count(Method::Wait, id) == 4
    })
    .await;
    tokio::time::sleep(Duration::from_secs(300)).await;
    assert_eq!(h.driver.count(Method::Wait, id), 4, "one wait for each");
    assert_eq!(h.record(id).life.phase, Phase::Ready);
    assert_eq!(h.record(id).life.generation.0, 1);
    h.main_exits(id, 3).await;
    h.phase(id, Phase::Error).await;
}

#[tokio::test(start_paused = true)]
async fn l4_an_engine_out_of_sight_freezes_and_thaws_but_ends_nothing() {
    let h = Harness::new().await;
    let id = h.ready("a", RestartPolicy::Never).await;
    for _ in 0..80 {
        let away = DriverError::new(DriverErrorKind::Unreachable, "connection refused");
        h.driver
            .script(Method::Inspect, Some(id), Fault::Fail(away));
    }
    h.driver.break_waits();
    h.driver
        .signal(EngineSignal::MonitorLost("end of stream".to_owned()))
        .await;
    let unknown = h.phase(id, Phase::Unknown).await;
    assert_eq!(unknown.life.condition.reason, Reason::EngineUnreachable);
    h.phase(id, Phase::Ready).await;
    let session = h.sessions.lock().expect("not poisoned")[&id].1.clone();
    assert_eq!(session.orders(), ["freeze", "thaw"]);
    assert_eq!(h.record(id).life.generation.0, 1);
}

#[tokio::test(start_paused = true)]
async fn l10_a_lost_answer_to_a_launch_is_settled_by_asking() {
    let h = Harness::new().await;
    let away = DriverError::new(DriverErrorKind::Unreachable, "the connection broke");
    h.driver.script(Method::Launch, None, Fault::Lose(away));
    let id = h.ready("a", RestartPolicy::Never).await;
    assert_eq!(h.driver.count(Method::Launch, id), 1);
    assert_eq!(h.record(id).life.generation.0, 1);
}

#[tokio::test(start_paused = true)]
async fn a_closed_session_may_come_back_and_is_contained_if_it_does_not() {
    let h = Harness::new().await;
    let id = h.ready("a", RestartPolicy::Never).await;
    let session = h.sessions.lock().expect("not poisoned")[&id].1.clone();
    session.break_off();
    let bound = h.record(id).life.run.as_ref().and_then(|r| r.instance);
    let bound = bound.expect("in session");
    h.say(id, SessionEvent::Closed("eof".to_owned())).await;
    tokio::time::sleep(Duration::from_secs(4)).await;
    assert_eq!(h.record(id).life.phase, Phase::Ready, "within the grace");
    let waiting = h.phase(id, Phase::Provisioning).await;
    assert_eq!(
        waiting.life.condition.reason,
        Reason::SupervisorNotConnected
    );
    h.reconnect(id, bound).await;
    h.phase(id, Phase::Ready).await;
    // The next time a stranger comes, and then nobody.
    h.say(id, SessionEvent::Link(false)).await;
    let stranger = hello(
        id,
        h.record(id).life.generation,
        instance(7),
        MainReport::NotStarted,
    );
    assert!(matches!(
        h.fence.session_opened(stranger).await,
        Err(SessionRefused::OtherInstance(_))
    ));
    let failed = h.phase(id, Phase::Error).await;
    assert_eq!(
        failed.life.condition.reason,
        Reason::ControlSupervisorExited
    );
}

#[tokio::test(start_paused = true)]
async fn a_displaced_sessions_end_says_nothing_about_the_newer_one() {
    let h = Harness::new().await;
    let id = h.ready("a", RestartPolicy::Never).await;
    let bound = h.record(id).life.run.as_ref().and_then(|r| r.instance);
    h.reconnect(id, bound.expect("in session")).await;
    let first = h.sessions.lock().expect("not poisoned")[&id].1.clone();
    assert_eq!(first.orders().len(), 1, "it is closed");
    h.say(id, SessionEvent::Closed("displaced".to_owned()))
        .await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(h.record(id).life.phase, Phase::Ready);
}

#[tokio::test(start_paused = true)]
async fn an_out_of_memory_kill_is_told_from_a_chosen_137() {
    let h = Harness::new().await;
    for (name, oom, reason) in [
        ("a", true, Reason::OutOfMemory),
        ("b", false, Reason::MainProcessFailed),
    ] {
        let id = h.ready(name, RestartPolicy::Never).await;
        let now = h.environment.now();
        h.say(id, SessionEvent::MainExited(137, now, String::new()))
            .await;
        h.driver.exit(id, Role::Workload, 137, oom);
        let failed = h.phase(id, Phase::Error).await;
        assert_eq!(failed.life.condition.reason, reason);
    }
}

#[tokio::test(start_paused = true)]
async fn a_supervisor_that_never_comes_fails_the_start_in_time() {
    let h = Harness::new().await;
    h.mute_supervisors();
    let id = h
        .create("a", RestartPolicy::Never)
        .await
        .expect("created")
        .meta
        .id;
    let failed = h.phase(id, Phase::Error).await;
    assert_eq!(
        failed.life.condition.reason,
        Reason::ControlSupervisorStartFailed
    );
    assert_eq!(h.driver.containers(), 0, "nothing of it is left");
}

#[tokio::test(start_paused = true)]
async fn l18_a_workload_that_vanished_is_an_error_and_a_start_makes_a_new_one() {
    let h = Harness::new().await;
    let id = h.ready("a", RestartPolicy::Never).await;
    h.driver.vanish(id, Role::Workload);
    let failed = h.phase(id, Phase::Error).await;
    assert_eq!(failed.life.condition.reason, Reason::RuntimeMissing);
    h.fence.start(id).await.expect("accepted");
    h.ready_run(id, 2).await;
}

#[tokio::test(start_paused = true)]
async fn l10_a_launch_that_did_not_happen_is_made_anew_as_another_run() {
    let h = Harness::new().await;
    let away = DriverError::new(DriverErrorKind::Unreachable, "connection refused");
    h.driver.script(Method::Launch, None, Fault::Fail(away));
    let id = h.ready("a", RestartPolicy::Never).await;
    assert_eq!(h.record(id).life.generation.0, 2);
    assert_eq!(h.driver.count(Method::Launch, id), 2);
}

#[tokio::test(start_paused = true)]
async fn a_run_that_fails_before_its_session_says_why() {
    let h = Harness::new().await;
    h.mute_supervisors();
    let id = h
        .create("a", RestartPolicy::Never)
        .await
        .expect("created")
        .meta
        .id;
    h.until(id, "launched", |r| {
        r.life.condition.reason == Reason::SupervisorNotConnected
    })
    .await;
    let generation = h.record(id).life.generation;
    let lacking = SessionEvent::Failed(
        "PostureInsufficient".to_owned(),
        "Landlock is not available".to_owned(),
    );
    h.fence
        .session_event(id, generation, instance(5), lacking)
        .await;
    let failed = h.phase(id, Phase::Error).await;
    assert_eq!(failed.life.condition.reason, Reason::StartFailed);
    let message = &failed.life.condition.message;
    assert!(message.contains("Landlock is not available"), "{message}");
}
