//! Whose a container is, learned from the calls that made it.

use std::collections::BTreeMap;

use serde_json::Value;

const SANDBOX: &str = "openshell.ai/sandbox-name";
const ROLE: &str = "openshell.ai/isolation-role";

/// Which of a sandbox's two containers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Half {
    /// The agent's.
    Workload,
    /// The one beside it.
    Supervisor,
}

/// Of which sandbox, and which of its halves.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Whose {
    pub(super) sandbox: Option<String>,
    pub(super) half: Option<Half>,
}

impl Whose {
    /// From labels, or what stands beside them in an event's attributes.
    pub(super) fn read(labels: &Value) -> Self {
        let text = |name: &str| labels[name].as_str();
        Self {
            sandbox: text(SANDBOX).map(str::to_owned),
            half: match text(ROLE) {
                Some("sandbox") => Some(Half::Workload),
                Some("supervisor") => Some(Half::Supervisor),
                _ => None,
            },
        }
    }

    /// Whether it is what somebody asked for; who asked for nothing gets everything.
    pub(super) fn fits(&self, sandbox: Option<&str>, half: Option<Half>) -> bool {
        (sandbox.is_none() || self.sandbox.as_deref() == sandbox)
            && (half.is_none() || self.half == half)
    }
}

/// Containers that were made through the relay and not removed through it.
#[derive(Debug, Default)]
pub(super) struct Known {
    containers: BTreeMap<String, Whose>,
}

impl Known {
    pub(super) fn learn(&mut self, id: &str, whose: Whose) {
        self.containers.insert(id.to_owned(), whose);
    }

    pub(super) fn forget(&mut self, id: &str) {
        self.containers.remove(id);
    }

    pub(super) fn whose(&self, id: &str) -> Whose {
        self.containers.get(id).cloned().unwrap_or_default()
    }
}
