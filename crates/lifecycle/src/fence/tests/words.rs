//! What is said to who cannot be served.

use openshell_core::{Phase, RestartPolicy};

use super::harness::Harness;
use crate::fence::{LifecycleFence, Order, not_ready_message};
use crate::simulated::{Fault, Gate, Method};

#[tokio::test(start_paused = true)]
async fn who_cannot_exec_is_told_the_phase_the_reason_and_the_way_out() {
    let h = Harness::new().await;
    let making = Gate::new();
    h.driver
        .script(Method::PrepareRun, None, Fault::Hold(making.clone()));
    let created = h.create("a", RestartPolicy::Never).await.expect("created");
    let id = created.meta.id;
    let said = not_ready_message(&h.record(id));
    assert!(
        said.starts_with("sandbox a is not ready (phase Provisioning, "),
        "{said}"
    );
    making.open();
    h.phase(id, Phase::Ready).await;
    let accepted = h.fence.stop(id).await.expect("accepted");
    let stopping = not_ready_message(&accepted);
    assert!(
        stopping.starts_with("sandbox a is Stopping (StopRequested): "),
        "{stopping}"
    );
    assert!(!stopping.contains("sandbox start"), "{stopping}");
    h.phase(id, Phase::Stopped).await;
    let stopped = not_ready_message(&h.record(id));
    assert!(stopped.starts_with("sandbox a is Stopped ("), "{stopped}");
    assert!(
        stopped.ends_with("; run `openshell sandbox start a`"),
        "{stopped}"
    );
    let (by, reason) = ("me".to_owned(), "looks odd".to_owned());
    let hold = Order::Hold { by, reason };
    let held = h.fence.order(id, hold, None).await.expect("accepted");
    // A start would be refused.
    let said = not_ready_message(&held);
    assert!(said.starts_with("sandbox a is Stopped (Held): "), "{said}");
    assert!(!said.contains("sandbox start"), "{said}");
}
