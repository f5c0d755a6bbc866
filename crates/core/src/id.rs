//! Identities: what names a sandbox, a run, a container, a supervisor process.

use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

macro_rules! uuid_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(uuid::Uuid);

        impl $name {
            /// From 128 bits that somebody else drew (ids are injected where determinism matters).
            pub const fn from_uuid(uuid: uuid::Uuid) -> Self {
                Self(uuid)
            }

            /// A fresh one from the process's random source, ordered by time.
            pub fn random() -> Self {
                Self(uuid::Uuid::now_v7())
            }

            /// The underlying UUID.
            pub const fn as_uuid(&self) -> uuid::Uuid {
                self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.hyphenated().fmt(f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self.0)
            }
        }

        impl std::str::FromStr for $name {
            type Err = uuid::Error;

            fn from_str(s: &str) -> Result<Self, Self::Err> {
                s.parse().map(Self)
            }
        }
    };
}

uuid_id!(
    /// Names a sandbox for its whole life; never reused.
    SandboxId
);
uuid_id!(
    /// Names one operation in flight; outcomes come back stamped with it.
    OperationId
);
uuid_id!(
    /// Made by each supervisor process; the sandbox runtime pins the first one it accepts.
    SupervisorInstance
);

/// Numbers the runs of a sandbox; only grows (L2). 0 means that no run has been asked for yet.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Generation(pub u64);

impl Generation {
    /// The generation of the next run.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl fmt::Display for Generation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A container's full id as the engine gave it. Authority, where labels only discover (L14).
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ContainerId(pub String);

impl ContainerId {
    /// The first twelve characters, as engines print ids for people.
    pub fn short(&self) -> &str {
        self.0.get(..12).unwrap_or(&self.0)
    }
}

impl fmt::Display for ContainerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What tells one engine (and its storage) from another: its own id where it has one (L18).
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct EngineId(pub String);

/// One life of a container: the identity that facts are compared by (L3). A container is kept over stop and
/// start, so its id alone does not name a run.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct Incarnation {
    /// The container.
    pub container: ContainerId,
    /// When the engine started it, as the engine says (nanoseconds).
    pub started_at: Timestamp,
}

impl fmt::Display for Incarnation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.container.short(), self.started_at)
    }
}
