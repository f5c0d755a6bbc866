//! `openshell-core`: words everyone shares: ids, names, phases, records, specs and quantities. No I/O, no async.

pub mod bootstrap;
pub mod engine;
pub mod id;
pub mod journal;
pub mod life;
pub mod name;
pub mod posture;
pub mod quantity;
pub mod record;
pub mod spec;
pub mod token;

pub use id::{
    ContainerId, EngineId, Generation, Incarnation, OperationId, SandboxId, SupervisorInstance,
};
pub use life::{
    Condition, ExitCause, ExitRecord, Hold, Intent, Life, Operation, OperationKind, Phase, Reason,
    Restart, RestartPolicy, Run,
};
pub use name::{NameError, SandboxName, WorkspaceName};
pub use record::{SandboxMeta, SandboxRecord};
pub use spec::{ImageRef, Resources, SandboxSpec};

/// Times that are recorded and compared: UTC, nanoseconds.
pub use jiff::Timestamp;
