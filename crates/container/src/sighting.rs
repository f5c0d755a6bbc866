//! What an engine's description of a container amounts to.

use openshell_core::Incarnation;
use openshell_lifecycle::driver::{EngineExit, Sighting};

use crate::engine::{ContainerFacts, ContainerStatus};

/// Of a container that was ever started.
pub(crate) fn incarnation(facts: &ContainerFacts) -> Option<Incarnation> {
    Some(Incarnation {
        container: facts.id.clone(),
        started_at: facts.started_at?,
    })
}

/// What the engine's description of a container amounts to.
pub(crate) fn sighting(facts: &ContainerFacts) -> Sighting {
    match (facts.status, incarnation(facts)) {
        (ContainerStatus::InTransition, _) => Sighting::InTransition,
        (ContainerStatus::Running, Some(present)) => Sighting::Running(present),
        // Running without a start is not a state that lasts.
        (ContainerStatus::Running, None) => Sighting::InTransition,
        (ContainerStatus::Exited, Some(ended)) => Sighting::Exited(
            ended.clone(),
            EngineExit {
                code: facts.exit_code,
                oom_killed: facts.oom_killed,
                // Engines note the start once it has returned; a short process has ended before that.
                finished_at: facts
                    .finished_at
                    .unwrap_or(ended.started_at)
                    .max(ended.started_at),
            },
        ),
        // A failed start leaves "exited" without ever having started.
        (ContainerStatus::Created | ContainerStatus::Exited, _) => Sighting::Created,
    }
}
