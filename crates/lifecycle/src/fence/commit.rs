//! The one function that writes a record and publishes it (L1), with its journal entry in the same transaction.

use std::sync::Arc;

use metrics::{counter, gauge};
use openshell_core::journal::JournalEntry;
use openshell_core::{Phase, SandboxRecord, Timestamp};
use openshell_store::{RequestKey, StoreError};
use tracing::{debug, info, warn};

use super::cell::Cell;
use crate::driver::ComputeDriver;
use crate::machine::{Answer, Effect, Input, State, Step};

/// How a step ended.
pub(super) enum Committed {
    /// It is durable and published; this is to be done.
    Done(Vec<Effect>, Answer),
    /// The sandbox exists no more.
    Gone,
}

impl<D: ComputeDriver> Cell<D> {
    pub(super) async fn commit(
        &mut self,
        input: &Input,
        step: Step,
        now: Timestamp,
        request: Option<&RequestKey>,
    ) -> Result<Committed, StoreError> {
        let id = self.state.record.meta.id;
        let store = &self.shared.store;
        if step.effects.contains(&Effect::Forget) {
            store
                .remove_sandbox(id, self.state.record.resource_version)
                .await?;
            self.shown(input, &step);
            count(&step, self.state.record.life.phase, input);
            info!(sandbox = %id, name = %self.state.record.meta.name, "deleted");
            self.close_session("the sandbox is deleted");
            self.forget();
            return Ok(Committed::Gone);
        }
        let entry = step
            .journaled
            .then(|| journal_entry(Some(&self.state), &step, input.describe(), input, now));
        let changed = step.state.record != self.state.record;
        let mut state = step.state.clone();
        // What is refused has not happened, and may be asked for again.
        let request = request.filter(|_| step.answer == Answer::Accepted);
        if changed {
            let entries = entry.into_iter().collect();
            let version = store
                .put_sandbox(&state.record, entries, request.cloned())
                .await?;
            state.record.resource_version = version;
        } else if let Some(request) = request {
            let entries = entry.into_iter().collect();
            store.claim(id, request.clone(), entries).await?;
        } else if let Some(entry) = entry
            && let Err(error) = store.append_journal(vec![entry]).await
        {
            // Nothing has changed, so nothing is lost but the line.
            warn!(sandbox = %id, "the journal cannot be written: {error}");
        }
        self.shown(input, &step);
        count(&step, self.state.record.life.phase, input);
        log(&self.state, &step, input);
        self.state = state;
        if changed {
            self.publish();
        }
        Ok(Committed::Done(step.effects, step.answer))
    }

    #[cfg(any(test, feature = "test-util"))]
    fn shown(&self, input: &Input, step: &Step) {
        if let Some(probe) = self.shared.rig.probe() {
            probe.committed(&self.state, input, step);
        }
    }

    #[cfg(not(any(test, feature = "test-util")))]
    const fn shown(&self, _input: &Input, _step: &Step) {}

    fn publish(&self) {
        let record = Arc::new(self.state.record.clone());
        let earlier = self.published.send_replace(Some(Arc::clone(&record)));
        move_gauge(earlier.map(|r| r.life.phase), Some(record.life.phase));
        self.shared.index.tick();
    }

    /// Publishes that it exists no more.
    pub(super) fn forget(&self) {
        self.shared.index.remove(&self.state.record);
        let earlier = self.published.send_replace(None);
        move_gauge(earlier.map(|r| r.life.phase), None);
        self.shared.index.tick();
    }
}

/// The gauge of sandboxes by phase.
pub(super) fn move_gauge(from: Option<Phase>, to: Option<Phase>) {
    if from == to {
        return;
    }
    if let Some(from) = from {
        gauge!("openshell_sandboxes", "phase" => from.as_str()).decrement(1.0);
    }
    if let Some(to) = to {
        gauge!("openshell_sandboxes", "phase" => to.as_str()).increment(1.0);
    }
}

pub(super) fn journal_entry(
    before: Option<&State>,
    step: &Step,
    described: String,
    input: &Input,
    now: Timestamp,
) -> JournalEntry {
    let record: &SandboxRecord = &step.state.record;
    JournalEntry {
        sequence: 0,
        sandbox: record.meta.id,
        time: now,
        generation: input.generation().unwrap_or(record.life.generation),
        input: described,
        verdict: step.verdict,
        old_phase: before.map(|b| b.record.life.phase),
        new_phase: record.life.phase,
        reason: record.life.condition.reason,
        message: step.note.clone(),
    }
}

fn count(step: &Step, before: Phase, input: &Input) {
    let observed = matches!(
        input,
        Input::Waited(..)
            | Input::Event(_)
            | Input::Looked { .. }
            | Input::SessionEvent(..)
            | Input::EngineLost(_)
    );
    // What is worth no line in the journal is no observation: the end of what we removed ourselves.
    if observed && step.journaled {
        counter!("openshell_observations_total", "verdict" => step.verdict.as_str()).increment(1);
    }
    let after = step.state.record.life.phase;
    if after != before {
        counter!("openshell_transitions_total", "from" => before.as_str(), "to" => after.as_str())
            .increment(1);
    }
    count_operations(step);
}

fn count_operations(step: &Step) {
    for (kind, outcome) in &step.finished {
        let kind = match kind {
            openshell_core::OperationKind::Create => "create",
            openshell_core::OperationKind::Start => "start",
            openshell_core::OperationKind::Stop => "stop",
            openshell_core::OperationKind::Restart => "restart",
            openshell_core::OperationKind::Restore => "restore",
            openshell_core::OperationKind::Delete => "delete",
        };
        counter!("openshell_operations_total", "kind" => kind, "outcome" => *outcome).increment(1);
    }
}

fn log(before: &State, step: &Step, input: &Input) {
    let record = &step.state.record;
    let (old, new) = (before.record.life.phase, record.life.phase);
    let name = &record.meta.name;
    let verdict = step.verdict.as_str();
    if old == new {
        debug!(sandbox = %record.meta.id, %name, verdict, phase = %new, "{}: {}", input.describe(), step.note);
    } else {
        info!(
            sandbox = %record.meta.id, %name, verdict,
            from = %old, to = %new, reason = %record.life.condition.reason,
            "{}: {}", input.describe(), step.note
        );
    }
}
