//! What is durable of each sandbox, as the oracle saw it become so.

use futures_util::FutureExt as _;
use openshell_core::{Intent, SandboxId, SandboxRecord};
use openshell_lifecycle::machine::{Effect, Input, State, Step};
use openshell_store::Store;

use super::{Oracle, nick};
use crate::sim::world::{World, locked};
use crate::sim::wrong::Planted;

/// One sandbox's.
pub(in crate::sim) struct Ledger {
    /// As it is in the store.
    pub(super) durable: SandboxRecord,
    /// As the last accepted command has it.
    pub(super) intent: Intent,
    /// A run was asked for since the present one began.
    pub(super) asked: bool,
    /// Decided, and not known to be durable yet.
    pub(super) decided: Option<Box<(State, Input, Step)>>,
    /// As it was before the last write.
    pub(super) former: Option<SandboxRecord>,
    /// Nothing of it is left.
    pub(super) gone: bool,
}

impl Ledger {
    pub(super) fn new(record: SandboxRecord) -> Self {
        Self {
            durable: record,
            intent: Intent::Running,
            asked: false,
            decided: None,
            former: None,
            gone: false,
        }
    }
}

impl Oracle {
    /// One step has become durable.
    pub(super) fn absorb(&self, before: &State, input: &Input, step: &Step) {
        let id = before.record.meta.id;
        let broken = {
            let mut known = locked(&self.known);
            self.judge(&mut known, before, input, step)
        };
        for (rule, what) in broken {
            self.violated(rule, Some(id), &what);
        }
        for container in std::mem::take(&mut *locked(&self.stranded)) {
            self.engine.remove_by_hand(&container);
        }
        let mut known = locked(&self.known);
        let Some(ledger) = known.ledgers.get_mut(&id) else {
            return;
        };
        ledger.decided = None;
        if step.effects.contains(&Effect::Forget) {
            ledger.gone = true;
        }
        if step.state.record != before.record {
            let former = std::mem::replace(&mut ledger.durable, step.state.record.clone());
            ledger.former = Some(former);
            ledger.durable.resource_version = before.record.resource_version + 1;
        }
    }

    /// A gateway process has ended, at whatever instruction: what the store holds is what it had decided, before or
    /// after its last write, and nothing else (L2).
    pub(crate) fn gateway_gone(&self, store: &Store) {
        let Some(Ok((records, unreadable))) = store.sandboxes().now_or_never() else {
            self.violated("L2", None, "the store cannot be read");
            return;
        };
        if let Some(error) = unreadable.first() {
            self.violated("L2", None, &format!("a record cannot be read: {error}"));
        }
        let mut late = Vec::new();
        let mut broken = Vec::new();
        {
            let mut known = locked(&self.known);
            for record in &records {
                known.truths.entry(record.meta.id).or_default();
                // One that was made, and whose maker died before he knew.
                known
                    .ledgers
                    .entry(record.meta.id)
                    .or_insert_with(|| Ledger::new(record.clone()));
            }
            for (id, ledger) in &mut known.ledgers {
                let stored = records.iter().find(|r| r.meta.id == *id);
                match ledger.compare(stored) {
                    Same::Yes => {}
                    Same::AsDecided => late.extend(ledger.decided.take()),
                    Same::No(why) => broken.push((*id, why)),
                }
                ledger.decided = None;
            }
        }
        for decided in late {
            self.absorb(&decided.0, &decided.1, &decided.2);
        }
        for (id, why) in broken {
            self.violated("L2", Some(id), &why);
        }
    }

    /// With this fault planted, a crash undoes the last write of each record.
    pub(crate) fn forget_last(&self, world: &World) {
        if !world.has(Planted::ForgetWriteAhead) {
            return;
        }
        let known = locked(&self.known);
        for ledger in known.ledgers.values().filter(|l| !l.gone) {
            if let Some(former) = &ledger.former {
                let mut former = former.clone();
                former.resource_version = ledger.durable.resource_version;
                let _refused_or_not = world
                    .store
                    .put_sandbox(&former, Vec::new(), None)
                    .now_or_never();
            }
        }
    }

    /// What is durable of a sandbox.
    pub(crate) fn durable(&self, id: SandboxId) -> Option<SandboxRecord> {
        let known = locked(&self.known);
        known.ledgers.get(&id).map(|l| l.durable.clone())
    }
}

enum Same {
    Yes,
    AsDecided,
    No(String),
}

impl Ledger {
    fn compare(&self, stored: Option<&SandboxRecord>) -> Same {
        match stored {
            None if self.gone => Same::Yes,
            None if self
                .decided
                .as_ref()
                .is_some_and(|d| d.2.effects.contains(&Effect::Forget)) =>
            {
                Same::AsDecided
            }
            None => Same::No("its record is gone".to_owned()),
            Some(_) if self.gone => Same::No("its record is back".to_owned()),
            Some(stored) if *stored == self.durable => Same::Yes,
            Some(stored) => {
                let same = self.decided.as_ref().is_some_and(|decided| {
                    let mut record = decided.2.state.record.clone();
                    record.resource_version = decided.0.record.resource_version + 1;
                    record == *stored
                });
                if same {
                    Same::AsDecided
                } else {
                    Same::No(format!(
                        "{} is stored in version {} ({}, run {}), which nobody decided; known is version {} ({}, run {})",
                        nick(stored.meta.id),
                        stored.resource_version,
                        stored.life.phase,
                        stored.life.generation,
                        self.durable.resource_version,
                        self.durable.life.phase,
                        self.durable.life.generation,
                    ))
                }
            }
        }
    }
}
