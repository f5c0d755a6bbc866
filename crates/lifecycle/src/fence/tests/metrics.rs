//! What is counted of the lives of sandboxes: how many are where, what moved, and what became of what was asked.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use metrics::{Counter, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit};
use openshell_core::{Phase, RestartPolicy};

use super::harness::Harness;
use crate::fence::LifecycleFence;

/// Keeps every counter and gauge, by its name and its labels.
#[derive(Default)]
struct Kept(Mutex<BTreeMap<String, Arc<AtomicU64>>>);

impl Kept {
    fn of(&self, key: &Key) -> Arc<AtomicU64> {
        let labels: Vec<&str> = key.labels().map(metrics::Label::value).collect();
        let name = format!("{} {}", key.name(), labels.join(" "));
        let mut kept = self.0.lock().expect("not poisoned");
        Arc::clone(kept.entry(name).or_default())
    }

    /// The gauges that are not 0.
    fn gauges(&self, name: &str) -> Vec<(String, f64)> {
        self.with(name)
            .map(|(labels, bits)| (labels, f64::from_bits(bits)))
            .filter(|(_, n)| *n != 0.0)
            .collect()
    }

    fn counters(&self, name: &str) -> Vec<(String, u64)> {
        self.with(name).collect()
    }

    fn with(&self, name: &str) -> impl Iterator<Item = (String, u64)> {
        let kept = self.0.lock().expect("not poisoned");
        let found: Vec<_> = kept
            .iter()
            .filter_map(|(key, n)| {
                let labels = key.strip_prefix(name)?.strip_prefix(' ')?;
                Some((labels.to_owned(), n.load(Ordering::Relaxed)))
            })
            .collect();
        found.into_iter()
    }
}

impl Recorder for Kept {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(self.of(key))
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(self.of(key))
    }

    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::noop()
    }
}

#[tokio::test(start_paused = true)]
async fn where_sandboxes_are_and_what_became_of_what_was_asked_is_counted() {
    let kept = Kept::default();
    let _recording = metrics::set_default_local_recorder(&kept);
    let one = |labels: &str| (labels.to_owned(), 1);
    let h = Harness::new().await;
    let sandboxes = || kept.gauges("openshell_sandboxes");
    let id = h.ready("a", RestartPolicy::Never).await;
    let other = h.ready("b", RestartPolicy::Never).await;
    assert_eq!(sandboxes(), [("Ready".to_owned(), 2.0)]);
    h.fence.delete(other).await.expect("accepted");
    h.gone(other).await;
    h.fence.stop(id).await.expect("accepted");
    h.phase(id, Phase::Stopped).await;
    h.eventually("its supervisor is removed", || {
        h.record(id).life.retired.is_empty()
    })
    .await;
    assert_eq!(sandboxes(), [("Stopped".to_owned(), 1.0)]);
    h.fence.delete(id).await.expect("accepted");
    h.gone(id).await;
    assert_eq!(sandboxes(), []);
    assert_eq!(
        kept.counters("openshell_operations_total"),
        [
            ("create done".to_owned(), 2),
            ("delete done".to_owned(), 2),
            one("stop done"),
        ]
    );
    assert_eq!(
        kept.counters("openshell_transitions_total"),
        [
            ("Provisioning Ready".to_owned(), 2),
            one("Ready Deleting"),
            one("Ready Stopping"),
            one("Stopped Deleting"),
            one("Stopping Stopped"),
        ]
    );
}
