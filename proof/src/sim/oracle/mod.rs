//! The oracle: it knows what is so in the world, sees every step of every cell, and says when one breaks a rule.

mod effects;
mod finale;
mod ledger;
mod steps;
mod truth;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use openshell_core::{ContainerId, Generation, Incarnation, SandboxId};
use openshell_lifecycle::FenceConfig;
use openshell_lifecycle::driver::Sighting;
use openshell_lifecycle::fence::Probe;
use openshell_lifecycle::machine::{Input, State, Step};
use openshell_lifecycle::simulated::{Happening, SimulatedDriver, SimulatedEnvironment};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

pub(super) use self::finale::finale;
use self::ledger::Ledger;
use self::truth::Truth;
use super::timeline::Timeline;
use super::world::locked;

/// What the oracle knows.
#[derive(Default)]
pub(super) struct Knowledge {
    pub(super) ledgers: BTreeMap<SandboxId, Ledger>,
    pub(super) truths: BTreeMap<SandboxId, Truth>,
    /// Whose each container is, and of which run it was last.
    pub(super) owners: BTreeMap<ContainerId, (SandboxId, Generation)>,
    pub(super) foreigners: BTreeMap<ContainerId, (SandboxId, Sighting)>,
    /// Containers that somebody else is removing.
    pub(super) by_hand: BTreeSet<ContainerId>,
    /// Sandboxes of which everything is being removed.
    pub(super) removing: BTreeSet<SandboxId>,
    /// Waits in flight, by incarnation.
    pub(super) waits: BTreeMap<Incarnation, u64>,
    /// What each request has made.
    pub(super) requests: BTreeMap<u64, SandboxId>,
    /// The newest version that a client was shown.
    pub(super) shown: BTreeMap<SandboxId, u64>,
}

/// Holds what happened against the rules.
pub(crate) struct Oracle {
    pub(super) config: FenceConfig,
    pub(super) engine: Arc<SimulatedDriver>,
    environment: Arc<SimulatedEnvironment>,
    timeline: Arc<Timeline>,
    pub(super) known: Mutex<Knowledge>,
    violations: Mutex<Vec<String>>,
    /// Cancelled by the first violation.
    broken: CancellationToken,
    /// Containers that only the owner of their engine can find.
    stranded: Mutex<Vec<ContainerId>>,
    /// When the engine last went away or came back.
    disturbed: Mutex<Option<Instant>>,
    /// When a call of the store last failed.
    store_failed: Mutex<Option<Instant>>,
    /// Gateways so far.
    pub(super) gateways: AtomicU64,
    pub(super) steps: AtomicU64,
}

impl Oracle {
    pub(crate) fn new(
        config: FenceConfig,
        engine: Arc<SimulatedDriver>,
        environment: Arc<SimulatedEnvironment>,
        timeline: Arc<Timeline>,
    ) -> Self {
        Self {
            config,
            engine,
            environment,
            timeline,
            known: Mutex::default(),
            violations: Mutex::default(),
            broken: CancellationToken::new(),
            stranded: Mutex::default(),
            disturbed: Mutex::default(),
            store_failed: Mutex::default(),
            gateways: AtomicU64::new(0),
            steps: AtomicU64::new(0),
        }
    }

    /// A rule is broken.
    pub(crate) fn violated(&self, rule: &'static str, sandbox: Option<SandboxId>, what: &str) {
        let whose = sandbox.map_or_else(String::new, |id| format!(" {}:", nick(id)));
        let text = format!("{rule}:{whose} {what}");
        self.timeline.say("VIOLATION", || text.clone());
        locked(&self.violations).push(text);
        self.broken.cancel();
    }

    /// Cancelled by the first violation.
    pub(crate) const fn broken(&self) -> &CancellationToken {
        &self.broken
    }

    /// What was broken, first things first.
    pub(crate) fn violations(&self) -> Vec<String> {
        locked(&self.violations).clone()
    }

    /// Steps of all cells so far.
    pub(crate) fn steps(&self) -> u64 {
        self.steps.load(Ordering::Relaxed)
    }

    /// Every sandbox that has a record.
    pub(crate) fn sandboxes(&self) -> Vec<SandboxId> {
        let known = locked(&self.known);
        let live = known.ledgers.iter().filter(|(_, ledger)| !ledger.gone);
        live.map(|(id, _)| *id).collect()
    }

    /// Whose a container is, and of which run.
    pub(crate) fn owner(&self, container: &ContainerId) -> Option<(SandboxId, Generation)> {
        locked(&self.known).owners.get(container).copied()
    }

    /// Whether the engine was away, or another, at some time within the last so much.
    pub(super) fn engine_was_away_within(&self, last: Duration) -> bool {
        let now = self.engine.is_up() && self.engine.identity().0 == super::blows::OWN;
        !now || locked(&self.disturbed).is_some_and(|at| at.elapsed() < last)
    }

    /// By the world's clock.
    pub(super) fn now(&self) -> openshell_core::Timestamp {
        use openshell_lifecycle::ports::Environment as _;
        self.environment.now()
    }

    pub(crate) fn store_failed(&self) {
        *locked(&self.store_failed) = Some(Instant::now());
    }

    /// Whether the store failed since, or so shortly before that a cell may still be waiting for it.
    pub(super) fn store_failed_since(&self, since: Instant) -> bool {
        let slack = Duration::from_secs(10);
        locked(&self.store_failed).is_some_and(|at| at + slack >= since)
    }

    pub(crate) fn gateway_begins(&self) {
        self.gateways.fetch_add(1, Ordering::Relaxed);
        let mut known = locked(&self.known);
        known.waits.clear();
        for truth in known.truths.values_mut() {
            truth.gateway_restarted();
        }
    }

    /// The engine goes, comes back, or is another.
    pub(crate) fn engine_disturbed(&self) {
        *locked(&self.disturbed) = Some(Instant::now());
        for truth in locked(&self.known).truths.values_mut() {
            truth.engine_disturbed();
        }
    }

    pub(crate) fn happened(&self, happening: &Happening) {
        let broken = locked(&self.known).happened(happening);
        for (rule, what) in broken {
            self.violated(rule, Some(happening.sandbox), &what);
        }
    }

    fn said(&self, before: &State, input: &Input, step: &Step) {
        self.timeline.say("fence", || {
            let life = &step.state.record.life;
            let old = before.record.life.phase;
            let moved = if old == life.phase {
                format!("{old}")
            } else {
                format!("{old} → {} ({})", life.phase, life.condition.reason)
            };
            format!(
                "{} run {} {moved}: {} — {}{}",
                nick(before.record.meta.id),
                life.generation,
                input.describe(),
                step.verdict,
                if step.note.is_empty() {
                    String::new()
                } else {
                    format!(", {}", step.note)
                }
            )
        });
    }
}

/// A sandbox's name in a timeline: its id without what all have in common.
pub(super) fn nick(id: SandboxId) -> String {
    format!("sandbox-{:x}", id.as_uuid().as_u128())
}

impl Probe for Oracle {
    fn created(&self, step: &Step) {
        self.steps.fetch_add(1, Ordering::Relaxed);
        let record = &step.state.record;
        self.timeline.say("fence", || {
            format!(
                "{} is {} ({})",
                record.meta.name,
                nick(record.meta.id),
                record.spec.restart_policy.as_str()
            )
        });
        let mut record = record.clone();
        record.resource_version = 1;
        let mut known = locked(&self.known);
        known.truths.entry(record.meta.id).or_default();
        known.ledgers.insert(record.meta.id, Ledger::new(record));
    }

    fn decided(&self, before: &State, input: &Input, step: &Step) {
        if let Some(ledger) = locked(&self.known).ledgers.get_mut(&before.record.meta.id) {
            ledger.decided = Some(Box::new((before.clone(), input.clone(), step.clone())));
        }
    }

    fn committed(&self, before: &State, input: &Input, step: &Step) {
        self.steps.fetch_add(1, Ordering::Relaxed);
        if step.journaled {
            self.said(before, input, step);
        }
        self.absorb(before, input, step);
    }
}
