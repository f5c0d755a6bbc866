//! The durable record of a sandbox.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::id::SandboxId;
use crate::life::Life;
use crate::name::{SandboxName, WorkspaceName};
use crate::spec::SandboxSpec;

/// Who it is; fixed at create but for `resource_version`.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct SandboxMeta {
    /// Never reused.
    pub id: SandboxId,
    /// Unique in its workspace while it exists.
    pub name: SandboxName,
    /// Where.
    pub workspace: WorkspaceName,
    /// For selectors.
    pub labels: BTreeMap<String, String>,
    /// For people and programs; never interpreted.
    pub annotations: BTreeMap<String, String>,
    /// When.
    pub created: Timestamp,
    /// The template it was made from: name and resource version.
    pub template: Option<(String, String)>,
}

/// Everything the gateway knows durably about a sandbox.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct SandboxRecord {
    /// Who it is.
    pub meta: SandboxMeta,
    /// What was asked for.
    pub spec: SandboxSpec,
    /// How it goes.
    pub life: Life,
    /// Grows with every write; every write is a compare-and-swap on it (L1). 0 before the first.
    #[serde(default)]
    pub resource_version: u64,
}
