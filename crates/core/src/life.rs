//! The durable state of a sandbox's life: intent, phase, run, operation, restart, last exit.
//! Only the fence writes it (L1).

use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::id::ContainerId;
use crate::id::{EngineId, Generation, Incarnation, OperationId, SupervisorInstance};

/// What its user last asked for. Only a command changes it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Intent {
    /// It should run.
    Running,
    /// It should not run; its files stay.
    Stopped,
    /// It should not exist.
    Deleted,
}

/// The public phases of the wire contract.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Its first run is being set up, or a run waits to be proven.
    Provisioning,
    /// A later run is being set up, or a restart waits for its time.
    Starting,
    /// Workload running, supervisor in session, enforcement confirmed.
    Ready,
    /// A stop is under way.
    Stopping,
    /// Stopped on request; files kept.
    Stopped,
    /// Main ended with 0.
    Completed,
    /// Main failed, or the infrastructure did; see the condition.
    Error,
    /// A delete is under way.
    Deleting,
    /// The engine cannot be asked.
    Unknown,
}

impl Phase {
    /// Every phase.
    pub const ALL: [Self; 9] = [
        Self::Provisioning,
        Self::Starting,
        Self::Ready,
        Self::Stopping,
        Self::Stopped,
        Self::Completed,
        Self::Error,
        Self::Deleting,
        Self::Unknown,
    ];

    /// As people read it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Provisioning => "Provisioning",
            Self::Starting => "Starting",
            Self::Ready => "Ready",
            Self::Stopping => "Stopping",
            Self::Stopped => "Stopped",
            Self::Completed => "Completed",
            Self::Error => "Error",
            Self::Deleting => "Deleting",
            Self::Unknown => "Unknown",
        }
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

macro_rules! reasons {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Why a sandbox is in its phase: stable words that programs may act on.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
        pub enum Reason {
            $($(#[$doc])* $name,)*
        }

        impl Reason {
            /// Every reason.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            /// The stable word.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$name => stringify!($name),)*
                }
            }
        }
    };
}

reasons! {
    /// Accepted; nothing has been done yet.
    Accepted,
    /// The image is being fetched.
    PullingImage,
    /// Containers are being made or started.
    CreatingContainers,
    /// Containers run; the supervisor's session is awaited.
    SupervisorNotConnected,
    /// Running, in session, enforcing.
    Running,
    /// Taken back into care after a gateway restart, untouched.
    Adopted,
    /// Brought back by the gateway according to its intent.
    Restored,
    /// Main ended with 0.
    MainProcessCompleted,
    /// Main ended otherwise, by itself.
    MainProcessFailed,
    /// The workload's container ended and nobody knows by whose will.
    ContainerExited,
    /// Somebody other than the gateway told it to end.
    ContainerStopped,
    /// The engine or the host restarted under it.
    ContainerRuntimeRestart,
    /// The kernel ended it for its memory.
    OutOfMemory,
    /// The supervisor's container ended; the workload was contained.
    ControlSupervisorExited,
    /// The supervisor never came into session.
    ControlSupervisorStartFailed,
    /// The run could not be started.
    StartFailed,
    /// The engine could not stop it; it can be tried again.
    StopFailed,
    /// The engine could not remove all of it; it is tried again.
    DeleteFailed,
    /// The recorded container no longer exists.
    RuntimeMissing,
    /// The engine does not answer.
    EngineUnreachable,
    /// The supervisor ended the run because the gateway was away for too long.
    GatewayUnreachable,
    /// The image could not be fetched.
    ImagePullFailed,
    /// No progress within the provisioning bound.
    ProvisioningTimedOut,
    /// Waiting for a restart's time.
    RestartBackOff,
    /// A stop was asked for and is under way.
    StopRequested,
    /// A stop was asked for and is done.
    StoppedByUser,
    /// It is stopped and held: nothing starts it until it is released.
    Held,
    /// A delete was asked for and is under way.
    DeleteRequested,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// Why it is so, since when, and what to do: the public `Ready` condition.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct Condition {
    /// The stable word.
    pub reason: Reason,
    /// What happened and what to do, for people.
    pub message: String,
    /// When it became so.
    pub since: Timestamp,
}

/// What happens when main ends; owned by the gateway, the engine's own restart stays off.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RestartPolicy {
    /// Never by itself.
    #[default]
    Never,
    /// When it ends other than with 0.
    OnFailure,
    /// However it ends.
    Always,
}

impl RestartPolicy {
    /// As the command line writes it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Never => "never",
            Self::OnFailure => "on-failure",
            Self::Always => "always",
        }
    }
}

/// The kinds of operation; at most one is in flight per sandbox.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OperationKind {
    /// The first run.
    Create,
    /// A later run.
    Start,
    /// No run.
    Stop,
    /// End the present run, begin another.
    Restart,
    /// Bring back after an outage.
    Restore,
    /// No record.
    Delete,
}

/// An operation in flight; durable before the engine hears of it (L2).
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct Operation {
    /// Its outcomes are stamped with this.
    pub id: OperationId,
    /// What it is.
    pub kind: OperationKind,
    /// When it was accepted.
    pub started: Timestamp,
    /// When it ends whatever happens (L16).
    pub deadline: Timestamp,
}

/// One life of the runtime.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct Run {
    /// Which one.
    pub generation: Generation,
    /// The workload's container; durable as soon as it exists (L14).
    pub workload: Option<ContainerId>,
    /// The supervisor's container; new in every run.
    pub supervisor: Option<ContainerId>,
    /// The workload's incarnation, once started.
    pub workload_started: Option<Timestamp>,
    /// The supervisor's incarnation, once started.
    pub supervisor_started: Option<Timestamp>,
    /// The supervisor process whose session was accepted.
    pub instance: Option<SupervisorInstance>,
    /// When main was started, as the sandbox runtime says.
    pub main_started: Option<Timestamp>,
    /// When it first became Ready.
    pub ready_at: Option<Timestamp>,
}

impl Run {
    /// A run of which nothing exists yet.
    pub const fn new(generation: Generation) -> Self {
        Self {
            generation,
            workload: None,
            supervisor: None,
            workload_started: None,
            supervisor_started: None,
            instance: None,
            main_started: None,
            ready_at: None,
        }
    }

    /// The workload's incarnation, if it has been started.
    pub fn workload_incarnation(&self) -> Option<Incarnation> {
        Some(Incarnation {
            container: self.workload.clone()?,
            started_at: self.workload_started?,
        })
    }

    /// The supervisor's incarnation, if it has been started.
    pub fn supervisor_incarnation(&self) -> Option<Incarnation> {
        Some(Incarnation {
            container: self.supervisor.clone()?,
            started_at: self.supervisor_started?,
        })
    }
}

/// Consecutive restarts of a crash loop.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
pub struct Restart {
    /// How many in a row; a run that lived ten seconds resets it.
    pub count: u32,
    /// When the next one is due, while one is waiting.
    pub next: Option<Timestamp>,
}

/// By whose will a main process or a container ended. Never by the code alone: 137 and 143 are also
/// codes that a program may choose.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExitCause {
    /// Main ended by itself.
    Main,
    /// The kernel, for its memory.
    OutOfMemory,
    /// We stopped it because its user asked.
    StopRequested,
    /// We stopped it because it could not be governed (L11).
    Contained,
    /// The engine or the host went down under it.
    Infrastructure,
    /// Nobody knows.
    Unknown,
}

impl ExitCause {
    /// Every cause.
    pub const ALL: [Self; 6] = [
        Self::Main,
        Self::OutOfMemory,
        Self::StopRequested,
        Self::Contained,
        Self::Infrastructure,
        Self::Unknown,
    ];

    /// The stable word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Main => "main",
            Self::OutOfMemory => "out-of-memory",
            Self::StopRequested => "stop-requested",
            Self::Contained => "contained",
            Self::Infrastructure => "infrastructure",
            Self::Unknown => "unknown",
        }
    }
}

/// How the last run ended.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct ExitRecord {
    /// Whose end.
    pub generation: Generation,
    /// As a shell would report it (128+n for a signal).
    pub code: i32,
    /// By whose will.
    pub cause: ExitCause,
    /// When.
    pub at: Timestamp,
    /// Why the main process could not start; empty if it ran.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub error: String,
}

/// A durable stop: whatever would start the sandbox is refused, until it is released.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct Hold {
    /// Who asked for it.
    pub by: String,
    /// Why, in their words; may be empty.
    pub reason: String,
    /// Since when.
    pub since: Timestamp,
}

impl fmt::Display for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "held by {} since {}", self.by, self.since)?;
        if self.reason.is_empty() {
            Ok(())
        } else {
            write!(f, " ({})", self.reason)
        }
    }
}

/// The durable state of a life.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct Life {
    /// What its user last asked for.
    pub intent: Intent,
    /// Derived by the machine, never set.
    pub phase: Phase,
    /// Why.
    pub condition: Condition,
    /// The newest run's number; only grows.
    pub generation: Generation,
    /// The newest run, until its containers are gone. After a stop it still names the kept workload container.
    pub run: Option<Run>,
    /// What is in flight.
    pub operation: Option<Operation>,
    /// The crash loop, if any.
    pub restart: Restart,
    /// How the last run ended.
    pub last_exit: Option<ExitRecord>,
    /// The engine that holds its containers (L18).
    pub engine: Option<EngineId>,
    /// Supervisors of ended runs whose containers are not gone yet (L13).
    #[serde(default)]
    pub retired: Vec<ContainerId>,
    /// Whether it is held stopped, by whom and why.
    #[serde(default)]
    pub hold: Option<Hold>,
}
