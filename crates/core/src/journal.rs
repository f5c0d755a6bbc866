//! Entries of the lifecycle journal: what came in, what the fence made of it, and why.

use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::id::{Generation, SandboxId};
use crate::life::{Phase, Reason};

/// What the fence made of an input.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// A command was taken up.
    Accepted,
    /// A command was refused.
    Refused,
    /// It changed the record.
    Applied,
    /// It speaks of another run; nothing changed (L3).
    Stale,
    /// An operation outranks it (L5).
    Superseded,
    /// The engine is asked before anything moves (L4).
    NeedsALook,
    /// It says nothing certain: a broken stream is not an exit (L4).
    Unknown,
}

impl Verdict {
    /// The stable word, as in metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Accepted => "accepted",
            Self::Refused => "refused",
            Self::Applied => "applied",
            Self::Stale => "stale",
            Self::Superseded => "superseded",
            Self::NeedsALook => "needs-a-look",
            Self::Unknown => "unknown",
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// One line of the journal.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct JournalEntry {
    /// Grows over all sandboxes; given by the store. 0 before it is written.
    pub sequence: u64,
    /// Whose.
    pub sandbox: SandboxId,
    /// When.
    pub time: Timestamp,
    /// The run it speaks of.
    pub generation: Generation,
    /// What came in: `command stop`, `observed workload exited`, `outcome launched`, `timer restart`.
    pub input: String,
    /// What was made of it.
    pub verdict: Verdict,
    /// Before; none for a create.
    pub old_phase: Option<Phase>,
    /// After.
    pub new_phase: Phase,
    /// After.
    pub reason: Reason,
    /// In plain words.
    pub message: String,
}
