//! Labels and names: how what we make is found again, and how it is told from what merely looks like it (L14).

use openshell_core::{Generation, SandboxId, SandboxName, WorkspaceName};
use openshell_lifecycle::driver::Role;

use crate::engine::Labels;

/// `openshell`, on everything that we make.
pub const MANAGED_BY: &str = "openshell.ai/managed-by";
/// The gateway's namespace on this engine.
pub const NAMESPACE: &str = "openshell.ai/sandbox-namespace";
/// Whose.
pub const SANDBOX_ID: &str = "openshell.ai/sandbox-id";
/// For people.
pub const SANDBOX_NAME: &str = "openshell.ai/sandbox-name";
/// For people.
pub const WORKSPACE: &str = "openshell.ai/sandbox-workspace";
/// `sandbox`, `supervisor`, or `probe`.
pub const ROLE: &str = "openshell.ai/isolation-role";
/// Of a supervisor: which run.
pub const GENERATION: &str = "openshell.ai/generation";
/// The value of [`MANAGED_BY`].
pub const OPENSHELL: &str = "openshell";

const ROLE_SANDBOX: &str = "sandbox";
const ROLE_PROBE: &str = "probe";
const ROLE_SUPERVISOR: &str = "supervisor";

/// Labels of everything in a namespace.
pub fn of_namespace(namespace: &str) -> Labels {
    Labels::from([
        (MANAGED_BY.to_owned(), OPENSHELL.to_owned()),
        (NAMESPACE.to_owned(), namespace.to_owned()),
    ])
}

/// Labels by which everything of one sandbox is found.
pub fn of_sandbox(namespace: &str, sandbox: SandboxId) -> Labels {
    let mut labels = of_namespace(namespace);
    labels.insert(SANDBOX_ID.to_owned(), sandbox.to_string());
    labels
}

/// Who something belongs to: what its names and labels are made of.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Identity {
    /// The gateway's namespace.
    pub namespace: String,
    /// Whose.
    pub sandbox: SandboxId,
    /// For people.
    pub name: SandboxName,
    /// For people.
    pub workspace: WorkspaceName,
}

impl Identity {
    fn base(&self) -> String {
        format!(
            "openshell-{}--{}-{}",
            self.namespace, self.name, self.sandbox
        )
    }

    /// The workload's container.
    pub fn workload_name(&self) -> String {
        self.base()
    }

    /// A run's supervisor.
    pub fn supervisor_name(&self, generation: Generation) -> String {
        format!("{}-supervisor-{generation}", self.base())
    }

    /// The volume that both halves share.
    pub fn link_volume(&self) -> String {
        format!("{}-link", self.base())
    }

    /// The user's files.
    pub fn workspace_volume(&self) -> String {
        format!("{}-workspace", self.base())
    }

    /// The labels of what belongs to a half.
    pub fn labels(&self, role: Role) -> Labels {
        let mut labels = of_sandbox(&self.namespace, self.sandbox);
        labels.insert(SANDBOX_NAME.to_owned(), self.name.to_string());
        labels.insert(WORKSPACE.to_owned(), self.workspace.to_string());
        labels.insert(ROLE.to_owned(), role_word(role).to_owned());
        labels
    }

    /// The labels of a run's supervisor.
    pub fn supervisor_labels(&self, generation: Generation) -> Labels {
        let mut labels = self.labels(Role::Supervisor);
        labels.insert(GENERATION.to_owned(), generation.to_string());
        labels
    }
}

/// What a thing of ours is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part {
    /// Of one of the halves.
    Half(Role),
    /// A container that is made to read an image's files, and never started.
    Probe,
}

/// The name of a probe, which is made before much is known of its sandbox.
pub fn probe_name(namespace: &str, sandbox: SandboxId, unique: &str) -> String {
    format!("openshell-{namespace}--{sandbox}-probe-{unique}")
}

/// The labels of a probe.
pub fn probe_labels(namespace: &str, sandbox: SandboxId) -> Labels {
    let mut labels = of_sandbox(namespace, sandbox);
    labels.insert(ROLE.to_owned(), ROLE_PROBE.to_owned());
    labels
}

/// What the labels of a container or a volume claim.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Claim {
    /// Whose.
    pub sandbox: SandboxId,
    /// What of it.
    pub part: Part,
    /// Which run, of a supervisor.
    pub generation: Option<Generation>,
}

impl Claim {
    /// Reads labels; `None` if they do not claim to belong to a sandbox of this namespace.
    pub fn read(namespace: &str, labels: &Labels) -> Option<Self> {
        let get = |key: &str| labels.get(key).map(String::as_str);
        if get(MANAGED_BY) != Some(OPENSHELL) || get(NAMESPACE) != Some(namespace) {
            return None;
        }
        Some(Self {
            sandbox: get(SANDBOX_ID)?.parse().ok()?,
            part: match get(ROLE)? {
                ROLE_SANDBOX => Part::Half(Role::Workload),
                ROLE_SUPERVISOR => Part::Half(Role::Supervisor),
                ROLE_PROBE => Part::Probe,
                _ => return None,
            },
            generation: get(GENERATION).and_then(|g| g.parse().ok()).map(Generation),
        })
    }

    /// Whether a container's name is the one we would have given to what these labels claim to be. Labels are
    /// easily copied; a name can exist only once.
    pub fn fits_container(&self, namespace: &str, name: &str) -> bool {
        let Some(rest) = name.strip_prefix(&format!("openshell-{namespace}--")) else {
            return false;
        };
        let tail = match (self.part, self.generation) {
            (Part::Half(Role::Workload), None) => format!("-{}", self.sandbox),
            (Part::Half(Role::Supervisor), Some(generation)) => {
                format!("-{}-supervisor-{generation}", self.sandbox)
            }
            (Part::Probe, None) => return rest.starts_with(&format!("{}-probe-", self.sandbox)),
            _ => return false,
        };
        rest.strip_suffix(&tail)
            .is_some_and(|name| SandboxName::new(name).is_ok())
    }

    /// Likewise for a volume.
    pub fn fits_volume(&self, namespace: &str, name: &str) -> bool {
        if self.part != Part::Half(Role::Workload) {
            return false;
        }
        let Some(rest) = name.strip_prefix(&format!("openshell-{namespace}--")) else {
            return false;
        };
        ["link", "workspace"].iter().any(|kind| {
            rest.strip_suffix(&format!("-{}-{kind}", self.sandbox))
                .is_some_and(|name| SandboxName::new(name).is_ok())
        })
    }
}

const fn role_word(role: Role) -> &'static str {
    match role {
        Role::Workload => ROLE_SANDBOX,
        Role::Supervisor => ROLE_SUPERVISOR,
    }
}

#[cfg(test)]
mod tests;
