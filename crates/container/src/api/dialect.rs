//! What is one engine's own: its words, its habits, and the few places where its answers mean something else.

use bollard::models::{ContainerCreateBody, SystemInfo};

use crate::engine::EngineErrorKind;
use crate::plan::ContainerPlan;

/// What an engine is called, and what its users do about it.
#[derive(Clone, Copy, Debug)]
pub struct Manner {
    /// As its client is called, and its section of the configuration: `docker`.
    pub name: &'static str,
    /// As people write it.
    pub title: &'static str,
    /// The release that speaks the oldest API that will do.
    pub oldest: &'static str,
    /// How it is started.
    pub start: &'static str,
    /// What gives a user the permission.
    pub permission: &'static str,
    /// See [`crate::Engine::fills_volumes`].
    pub fills_volumes: bool,
    /// See [`crate::Engine::tells_resolver`].
    pub tells_resolver: bool,
    /// Whether a forced removal asks the container to end first, and waits: then it is killed before.
    pub removal_is_gentle: bool,
}

/// One engine's way of speaking the API.
pub trait Dialect: Send + Sync + 'static {
    /// What it is called, and its habits.
    fn manner(&self) -> &'static Manner;

    /// Whether the engine is Podman, by its own word; the driver of one is not for the other.
    fn is_podman(&self) -> bool;

    /// What names the engine beside its storage (L18); `None` if it did not say.
    fn identity(&self, info: &SystemInfo) -> Option<String>;

    /// The request that makes a container, as this engine has to hear it.
    fn create(&self, plan: &ContainerPlan, body: ContainerCreateBody) -> ContainerCreateBody {
        let _ = plan;
        body
    }

    /// What an answer means that has a meaning of its own here.
    fn meaning(&self, status: u16, message: &str) -> Option<EngineErrorKind> {
        let _ = (status, message);
        None
    }
}

/// An engine without any way of its own.
#[cfg(test)]
pub(super) struct Plain;

#[cfg(test)]
impl Dialect for Plain {
    fn manner(&self) -> &'static Manner {
        &Manner {
            name: "plain",
            title: "Plain",
            oldest: "Plain 1",
            start: "plain start",
            permission: "usermod",
            fills_volumes: true,
            tells_resolver: true,
            removal_is_gentle: false,
        }
    }

    fn is_podman(&self) -> bool {
        false
    }

    fn identity(&self, info: &SystemInfo) -> Option<String> {
        info.id.clone()
    }
}
