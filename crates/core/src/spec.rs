//! What a user asks for: image, command, environment, resources, restart policy.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::life::RestartPolicy;
use crate::quantity::{Bytes, MilliCpu};

/// An image as its user named it, or by id.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ImageRef(pub String);

impl std::fmt::Display for ImageRef {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// Limits on what a workload may use; absent means the driver's default.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
pub struct Resources {
    /// CPU time.
    pub cpu: Option<MilliCpu>,
    /// Memory, swap excluded.
    pub memory: Option<Bytes>,
    /// Processes and threads.
    pub pids: Option<u32>,
}

/// Everything that creating a sandbox fixes. Immutable after create.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
pub struct SandboxSpec {
    /// The workload's image; empty only before defaults are applied.
    pub image: Option<ImageRef>,
    /// The main process; empty means an interactive login shell kept on a tty.
    pub command: Vec<String>,
    /// Whether main has a terminal.
    pub tty: bool,
    /// Environment of main and of every exec.
    pub environment: BTreeMap<String, String>,
    /// Limits.
    pub resources: Resources,
    /// What happens when main ends.
    pub restart_policy: RestartPolicy,
    /// Whoever creates it is about to attach to main: in the run of the create, a main that ends before waits a
    /// little for its watcher.
    #[serde(default)]
    pub await_attachment: bool,
    /// Log level inside, as asked.
    pub log_level: String,
    /// The public `SandboxSpec` message as its user sent it, so that what this version does not act upon
    /// is given back unchanged.
    #[serde(with = "base64_text")]
    pub wire: Vec<u8>,
}

/// Bytes in JSON as text rather than as a list of numbers, which is four times as long.
mod base64_text {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD_NO_PAD as B64;
    use serde::{Deserialize as _, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(bytes: &[u8], s: S) -> Result<S::Ok, S::Error> {
        s.serialize_str(&B64.encode(bytes))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Vec<u8>, D::Error> {
        let text = String::deserialize(d)?;
        B64.decode(text).map_err(serde::de::Error::custom)
    }
}
