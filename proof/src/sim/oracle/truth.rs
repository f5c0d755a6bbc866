//! What is so in the world, whatever anybody has been told of it.

use std::collections::BTreeMap;

use openshell_core::{ContainerId, Generation, Incarnation, SandboxId, Timestamp};
use openshell_lifecycle::driver::{EngineExit, Role, Sighting};
use openshell_lifecycle::simulated::{Happening, HappeningKind};

use tokio::time::Instant;

use super::{Knowledge, Oracle};
use crate::sim::world::{locked, short};

/// What happened to one run.
#[derive(Clone, Debug, Default)]
pub(in crate::sim) struct RunTruth {
    /// Starts of its workload by the fence.
    pub(super) launches: u64,
    /// Starts of its main process.
    pub(super) mains: u64,
    /// Main ended by itself, with this.
    pub(super) main_end: Option<i32>,
    /// Its workload's container ended, and how.
    pub(super) workload_end: Option<EngineExit>,
    /// Its supervisor's container ended.
    pub(super) supervisor_end: Option<Timestamp>,
    /// A half was removed.
    pub(super) removed: bool,
    /// When its session or its link broke, or was refused.
    pub(super) broke: Option<Instant>,
    /// Its supervisor gave it up, or could not confirm its enforcement.
    pub(super) given_up: bool,
    /// The gateway was away.
    pub(super) unwatched: bool,
    /// The engine did not answer, or said no.
    pub(super) unanswered: bool,
    /// The engine was away.
    pub(super) disturbed: bool,
    /// Its workload's container was started by somebody else.
    pub(super) meddled: bool,
}

/// One sandbox's.
#[derive(Clone, Debug, Default)]
pub(in crate::sim) struct Truth {
    pub(super) runs: BTreeMap<Generation, RunTruth>,
    /// Somebody else started one of its containers.
    pub(super) meddled: bool,
    /// When something last went wrong for it, or happened to it.
    pub(super) troubled: Option<Instant>,
    /// Of each container that runs: of which run, and since when.
    pub(super) running: BTreeMap<ContainerId, (Role, Option<Generation>, Timestamp)>,
}

impl Truth {
    pub(super) fn run(&self, generation: Generation) -> RunTruth {
        self.runs.get(&generation).cloned().unwrap_or_default()
    }

    /// Something happens to it that excuses a delay.
    pub(super) fn trouble(&mut self) {
        self.troubled = Some(Instant::now());
    }

    pub(super) fn gateway_restarted(&mut self) {
        self.trouble();
        for run in self.runs.values_mut() {
            run.unwatched = true;
        }
    }

    pub(super) fn engine_disturbed(&mut self) {
        self.trouble();
        for run in self.runs.values_mut() {
            run.disturbed = true;
        }
    }

    /// The workload that the fence launched and that runs now.
    pub(super) fn launched(&self) -> Option<(&ContainerId, Generation)> {
        self.running
            .iter()
            .find_map(|(id, (role, generation, _))| match role {
                Role::Workload => generation.map(|generation| (id, generation)),
                Role::Supervisor => None,
            })
    }

    pub(super) fn supervisor_runs(&self, generation: Generation) -> bool {
        self.running
            .values()
            .any(|(role, of, _)| *role == Role::Supervisor && *of == Some(generation))
    }
}

type Broken = Vec<(&'static str, String)>;

impl Knowledge {
    pub(super) fn happened(&mut self, happening: &Happening) -> Broken {
        if happening.foreign {
            return Vec::new();
        }
        let mut broken = self.kept(happening);
        let container = &happening.container;
        let truth = self.truths.entry(happening.sandbox).or_default();
        if !matches!(
            happening.kind,
            HappeningKind::Made | HappeningKind::Started(Some(_))
        ) {
            truth.trouble();
        }
        match &happening.kind {
            HappeningKind::Made => {
                self.owners
                    .insert(container.clone(), (happening.sandbox, happening.generation));
            }
            HappeningKind::Started(run) => {
                let since = (happening.role, *run, happening.at);
                truth.running.insert(container.clone(), since);
                let Some(generation) = run else {
                    truth.meddled = true;
                    if let Some((_, of)) = self.owners.get(container) {
                        truth.runs.entry(*of).or_default().meddled = true;
                    }
                    return broken;
                };
                self.owners
                    .insert(container.clone(), (happening.sandbox, *generation));
                if happening.role == Role::Workload {
                    let run = truth.runs.entry(*generation).or_default();
                    run.launches += 1;
                    if run.launches > 1 {
                        let what = format!("run {generation} is launched {} times", run.launches);
                        broken.push(("L10", what));
                    }
                }
            }
            HappeningKind::Ended(exit) => {
                truth.ended(
                    happening,
                    Some(exit),
                    self.owners.get(container).map(|o| o.1),
                );
            }
            HappeningKind::Removed(_) => {
                truth.ended(happening, None, self.owners.get(container).map(|o| o.1));
            }
        }
        broken
    }
}

impl Knowledge {
    /// A workload's container is its user's files: it goes by a removal of the sandbox, or by somebody else's hand.
    fn kept(&mut self, happening: &Happening) -> Broken {
        let HappeningKind::Removed(_) = happening.kind else {
            return Broken::new();
        };
        let container = &happening.container;
        let ledger = self.ledgers.get(&happening.sandbox);
        let run = ledger.and_then(|l| l.durable.life.run.as_ref());
        let recorded = run.and_then(|r| r.workload.as_ref()) == Some(container);
        let meant = self.by_hand.remove(container) || self.removing.contains(&happening.sandbox);
        if !recorded || meant {
            return Broken::new();
        }
        let what = format!("the kept {} is removed", short(container));
        vec![("kept", what)]
    }
}

impl Truth {
    fn ended(&mut self, happening: &Happening, exit: Option<&EngineExit>, of: Option<Generation>) {
        let was = self.running.remove(&happening.container);
        let Some(generation) = was.and_then(|(_, run, _)| run).or(of) else {
            return;
        };
        let run = self.runs.entry(generation).or_default();
        match (happening.role, exit) {
            (Role::Workload, Some(exit)) => {
                run.workload_end.get_or_insert_with(|| exit.clone());
            }
            (Role::Workload, None) => run.removed = true,
            (Role::Supervisor, _) => {
                run.supervisor_end.get_or_insert(happening.at);
            }
        }
    }
}

impl Oracle {
    pub(crate) fn main_started(&self, sandbox: SandboxId, generation: Generation) {
        let times = {
            let mut known = locked(&self.known);
            let truth = known.truths.entry(sandbox).or_default();
            let run = truth.runs.entry(generation).or_default();
            run.mains += 1;
            run.mains
        };
        if times > 1 {
            let what = format!("main of run {generation} starts {times} times");
            self.violated("L10", Some(sandbox), &what);
        }
    }

    pub(crate) fn main_ended(&self, sandbox: SandboxId, generation: Option<Generation>, code: i32) {
        self.note(sandbox, generation.unwrap_or_default(), |run| {
            run.main_end = Some(code);
        });
    }

    /// A session or a link of a run broke.
    pub(crate) fn broke(&self, sandbox: SandboxId, generation: Generation) {
        self.note(sandbox, generation, |run| {
            run.broke.get_or_insert_with(Instant::now);
        });
    }

    /// A supervisor gives its run up.
    pub(crate) fn gave_up(&self, sandbox: SandboxId, generation: Generation) {
        self.note(sandbox, generation, |run| run.given_up = true);
    }

    /// The engine does not answer a call for a sandbox, or not as it should.
    pub(crate) fn unanswered(&self, sandbox: SandboxId) {
        let mut known = locked(&self.known);
        let truth = known.truths.entry(sandbox).or_default();
        truth.trouble();
        for run in truth.runs.values_mut() {
            run.unanswered = true;
        }
    }

    fn note(&self, sandbox: SandboxId, generation: Generation, note: impl FnOnce(&mut RunTruth)) {
        let mut known = locked(&self.known);
        let truth = known.truths.entry(sandbox).or_default();
        truth.trouble();
        note(truth.runs.entry(generation).or_default());
    }

    /// Whether a supervisor of the sandbox's running workload runs.
    pub(crate) fn supervisor_runs(&self, sandbox: SandboxId) -> bool {
        let known = locked(&self.known);
        known.truths.get(&sandbox).is_some_and(|truth| {
            truth
                .launched()
                .is_some_and(|(_, generation)| truth.supervisor_runs(generation))
        })
    }

    /// Somebody else removes a container.
    pub(crate) fn removed_by_hand(&self, container: &ContainerId) {
        locked(&self.known).by_hand.insert(container.clone());
    }

    /// A container with a copy of our labels: nobody but its owner may touch it (L14).
    pub(crate) fn planted(&self, sandbox: SandboxId, container: &ContainerId) {
        let sighting = self.engine.truth(container);
        locked(&self.known)
            .foreigners
            .insert(container.clone(), (sandbox, sighting));
    }

    /// Containers with copies of our labels: id, sandbox and run by label.
    pub(crate) fn foreigners(&self) -> Vec<(ContainerId, SandboxId, Generation)> {
        let known = locked(&self.known);
        known
            .foreigners
            .iter()
            .map(|(id, (sandbox, _))| (id.clone(), *sandbox, Generation(1)))
            .collect()
    }

    /// Those that carry one sandbox's labels.
    pub(crate) fn foreigners_of(&self, sandbox: SandboxId) -> Vec<ContainerId> {
        let all = self.foreigners().into_iter();
        all.filter(|(_, of, _)| *of == sandbox)
            .map(|(id, ..)| id)
            .collect()
    }

    pub(super) fn foreigners_untouched(&self) {
        let foreigners = locked(&self.known).foreigners.clone();
        for (container, (_, as_left)) in foreigners {
            let now = self.engine.truth(&container);
            if now != as_left {
                let what = format!("the foreign container {} was touched", short(&container));
                self.violated("L14", None, &what);
            }
        }
    }

    /// A wait for an incarnation's end begins; it lasts as long as what is given back.
    pub(crate) fn watching(&self, incarnation: &Incarnation) -> Watching<'_> {
        let at_once = {
            let mut known = locked(&self.known);
            let waits = known.waits.entry(incarnation.clone()).or_default();
            *waits += 1;
            *waits
        };
        if at_once > 1 {
            let owner = self.owner(&incarnation.container).map(|o| o.0);
            let what = format!(
                "{at_once} waits at once for {}",
                short(&incarnation.container)
            );
            self.violated("one monitor", owner, &what);
        }
        Watching {
            oracle: self,
            incarnation: incarnation.clone(),
            gateway: self.gateways.load(std::sync::atomic::Ordering::Relaxed),
        }
    }

    /// Whether a container exists, whatever engine answers.
    pub(super) fn exists(&self, container: &ContainerId) -> bool {
        !matches!(self.engine.truth(container), Sighting::Missing(_))
    }
}

/// A wait in flight.
pub(crate) struct Watching<'o> {
    oracle: &'o Oracle,
    incarnation: Incarnation,
    gateway: u64,
}

impl Drop for Watching<'_> {
    fn drop(&mut self) {
        let now = self
            .oracle
            .gateways
            .load(std::sync::atomic::Ordering::Relaxed);
        if now != self.gateway {
            return;
        }
        let mut known = locked(&self.oracle.known);
        if let Some(waits) = known.waits.get_mut(&self.incarnation) {
            *waits = waits.saturating_sub(1);
        }
    }
}
