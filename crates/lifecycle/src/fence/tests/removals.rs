//! L13 and L18 together: gone is only what its own engine says is gone.

use openshell_core::{EngineId, Phase, Reason, RestartPolicy};

use super::harness::Harness;
use crate::driver::{DriverError, DriverErrorKind, Role};
use crate::fence::LifecycleFence;
use crate::simulated::{Fault, Method};

#[tokio::test(start_paused = true)]
async fn l18_a_delete_is_not_done_by_an_engine_that_never_held_it() {
    let h = Harness::new().await;
    let id = h.ready("a", RestartPolicy::Never).await;
    let ours = h.driver.replace_engine(EngineId("fresh".to_owned()));
    h.fence.delete(id).await.expect("accepted");
    let waiting = h
        .until(id, "told that it waits", |r| {
            r.life.condition.reason == Reason::DeleteFailed
        })
        .await;
    assert_eq!(waiting.life.phase, Phase::Deleting);
    let told = &waiting.life.condition.message;
    assert!(told.contains("not the one that holds"), "{told}");
    h.driver.restore_engine(ours);
    h.gone(id).await;
    assert_eq!(h.driver.containers(), 0);
}

#[tokio::test(start_paused = true)]
async fn l13_an_ended_runs_supervisor_is_not_forgotten_while_another_engine_answers() {
    let h = Harness::new().await;
    let id = h.ready("a", RestartPolicy::Never).await;
    let away = DriverError::new(DriverErrorKind::Unreachable, "the connection broke");
    h.driver
        .script(Method::RemoveSupervisor, Some(id), Fault::Fail(away));
    h.fence.stop(id).await.expect("accepted");
    h.eventually("the first try fails", || {
        h.driver.count(Method::RemoveSupervisor, id) == 1
    })
    .await;
    let ours = h.driver.replace_engine(EngineId("fresh".to_owned()));
    h.eventually("it is tried on the other engine", || {
        h.driver.count(Method::RemoveSupervisor, id) == 2
    })
    .await;
    h.until(id, "stopped", |r| r.life.phase == Phase::Stopped)
        .await;
    assert_eq!(h.record(id).life.retired.len(), 1);
    h.driver.restore_engine(ours);
    h.until(id, "removed", |r| r.life.retired.is_empty()).await;
    assert_eq!(h.driver.container(id, Role::Supervisor), None);
}
