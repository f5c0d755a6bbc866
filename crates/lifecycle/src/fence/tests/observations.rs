//! Every observation has a verdict, in the journal and in the metrics.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use metrics::{Counter, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit};
use openshell_core::journal::Verdict;
use openshell_core::{Phase, RestartPolicy};

use super::harness::Harness;
use crate::driver::{EngineEvent, EngineEventKind, EngineSignal, Role};
use crate::fence::LifecycleFence;
use crate::ports::Environment;
use crate::simulated::{Fault, Method};

/// Keeps the counters of observations by their verdict.
#[derive(Default)]
struct Counters(Mutex<BTreeMap<String, Arc<AtomicU64>>>);

impl Counters {
    fn of(&self, verdict: Verdict) -> u64 {
        let counters = self.0.lock().expect("not poisoned");
        counters
            .get(verdict.as_str())
            .map_or(0, |n| n.load(Ordering::Relaxed))
    }
}

impl Recorder for Counters {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        if key.name() != "openshell_observations_total" {
            return Counter::noop();
        }
        let verdict = key.labels().map(|l| l.value().to_owned()).collect();
        let mut counters = self.0.lock().expect("not poisoned");
        Counter::from_arc(Arc::clone(counters.entry(verdict).or_default()))
    }

    fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::noop()
    }

    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::noop()
    }
}

#[tokio::test(start_paused = true)]
async fn every_verdict_is_journaled_and_counted() {
    let counters = Counters::default();
    let _recording = metrics::set_default_local_recorder(&counters);
    let h = Harness::new().await;
    let id = h.ready("a", RestartPolicy::Never).await;
    let died = |role, time| {
        EngineSignal::Event(EngineEvent {
            sandbox: id,
            role,
            container: h.driver.container(id, role).expect("there"),
            kind: EngineEventKind::Died { code: 1 },
            time,
        })
    };
    let now = h.environment.now();
    let early = openshell_core::Timestamp::UNIX_EPOCH;
    h.driver.signal(died(Role::Workload, early)).await; // stale
    h.driver.signal(died(Role::Workload, now)).await; // needs a look
    h.driver
        .signal(EngineSignal::MonitorLost("end of stream".to_owned()))
        .await; // unknown
    h.until(id, "out of sight", |r| {
        r.life.condition.message.contains("end of stream")
    })
    .await;
    h.until(id, "seen again", |r| r.life.condition.message == "running")
        .await;
    h.driver
        .script(Method::Stop, Some(id), Fault::Delay(Duration::from_secs(5)));
    h.fence.stop(id).await.expect("accepted");
    h.driver.signal(died(Role::Supervisor, now)).await; // superseded
    h.phase(id, Phase::Stopped).await;
    let journal = h.journal(id).await;
    let observed = |e: &&openshell_core::journal::JournalEntry| {
        [
            "observed ",
            "lost sight ",
            "event ",
            "looked ",
            "session ",
            "engine lost",
        ]
        .iter()
        .any(|word| e.input.starts_with(word))
            && e.input != "session opened"
    };
    for verdict in [
        Verdict::Applied,
        Verdict::Stale,
        Verdict::Superseded,
        Verdict::NeedsALook,
        Verdict::Unknown,
    ] {
        let lines = journal
            .iter()
            .filter(observed)
            .filter(|e| e.verdict == verdict)
            .count();
        assert!(lines > 0, "{verdict} is in the journal: {journal:#?}");
        assert_eq!(
            counters.of(verdict),
            lines as u64,
            "{verdict}, as often in the metrics"
        );
    }
}
