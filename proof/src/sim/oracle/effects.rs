//! The rules of what is asked of the engine, and of what clients are answered.

use std::time::Duration;

use openshell_core::{ContainerId, Generation, SandboxId};
use openshell_lifecycle::driver::Permit;
use openshell_lifecycle::fence::CommandError;
use openshell_lifecycle::simulated::Method;
use tokio::time::Instant;

use super::Oracle;
use crate::sim::clients::{Answer, Ask};
use crate::sim::world::{locked, short};

/// A command is answered within this, whatever other sandboxes and the engine do (L15).
const ANSWERED: Duration = Duration::from_secs(2);

impl Oracle {
    /// A mutating call is on its way: what it does is durable already (L2), and what it touches recorded (L14).
    pub(crate) fn called(&self, method: Method, permit: &Permit, container: Option<&ContainerId>) {
        let id = permit.sandbox();
        let Some(durable) = self.durable(id) else {
            self.violated("L2", Some(id), &format!("{method:?} without a record"));
            return;
        };
        let life = &durable.life;
        match method {
            Method::Remove => locked(&self.known).removing.insert(id),
            Method::PrepareRun => locked(&self.known).removing.remove(&id),
            _ => false,
        };
        let present = life.generation == permit.generation();
        // An earlier run's stop may still be on its way, as long as it finds nothing of a later one.
        let late = method == Method::Stop && !self.runs_later(id, permit.generation());
        if !present && !late && method != Method::RemoveSupervisor {
            let what = format!(
                "{method:?} for run {}, while run {} is durable",
                permit.generation(),
                life.generation
            );
            self.violated("L2", Some(id), &what);
        }
        if let Some(container) = container {
            let recorded = life.run.as_ref().and_then(|run| run.workload.as_ref());
            if recorded != Some(container) {
                let what = format!("{method:?} of {}, which is not recorded", short(container));
                self.violated("L14", Some(id), &what);
            }
        }
    }

    fn runs_later(&self, id: SandboxId, than: Generation) -> bool {
        let known = locked(&self.known);
        let launched = known.truths.get(&id).and_then(|truth| truth.launched());
        launched.is_some_and(|(_, generation)| generation > than)
    }

    /// A client has an answer, or has lost its connection.
    pub(crate) fn answered(
        &self,
        asked: Option<(SandboxId, Ask)>,
        began: Instant,
        answer: &Answer,
    ) {
        let id = asked.map(|(id, _)| id);
        let Some(answer) = answer else { return };
        let took = began.elapsed();
        let excused = self.store_failed_since(began);
        if took > ANSWERED && !excused {
            let what = format!("an answer took {took:?}");
            self.violated("L15", id, &what);
        }
        match answer {
            Ok(record) => self.shown(record.meta.id, record.resource_version),
            Err(CommandError::RequestIdReused(request)) => {
                let what = format!("the repeated request {request} is refused");
                self.violated("idempotence", id, &what);
            }
            Err(CommandError::Store(why)) if !excused => {
                self.violated("L1", id, &format!("a command is aborted: {why}"));
            }
            Err(_) => {}
        }
    }

    /// What clients see never goes backwards.
    fn shown(&self, id: SandboxId, version: u64) {
        let before = {
            let mut known = locked(&self.known);
            let shown = known.shown.entry(id).or_default();
            std::mem::replace(shown, version.max(*shown))
        };
        if version < before {
            let what = format!("version {version} is shown after version {before}");
            self.violated("L1", Some(id), &what);
        }
    }

    /// One request makes one sandbox, however often it is made.
    pub(crate) fn created_by(&self, request: u64, id: SandboxId) {
        let first = *locked(&self.known).requests.entry(request).or_insert(id);
        if first != id {
            let what = format!("request r{request} has made it, and another before");
            self.violated("idempotence", Some(id), &what);
        }
    }
}
