//! The bounds of every life (L16), and what happens to runs at the gateway's end and return.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// What a gateway does at its start for what was meant to run and does not.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RestoreMode {
    /// What was meant to run, runs again.
    #[default]
    Intent,
    /// Only where the restart policy says so.
    Policy,
    /// Nothing is started by itself.
    None,
}

/// What a gateway does with runs when it is told to end.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ShutdownMode {
    /// They go on without it.
    #[default]
    Keep,
    /// They are stopped, all at once; what was meant to run still is.
    Stop,
}

/// All that can be configured of the fence.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FenceConfig {
    /// What happens at the gateway's start.
    pub restore: RestoreMode,
    /// What happens at its end.
    pub on_shutdown: ShutdownMode,
    /// TERM, then KILL after this.
    pub stop_grace: Duration,
    /// A live supervisor without a session has this long to come back before its run is contained.
    pub adoption_window: Duration,
    /// A closed session has this long to come back before the sandbox is no longer called Ready.
    pub session_grace: Duration,
    /// A new run's supervisor has this long to come into session.
    pub session_window: Duration,
    /// How long a running sandbox may go unobserved before it is frozen.
    pub engine_outage_limit: Duration,
    /// A run that is being set up fails after this long without progress.
    pub provisioning: Duration,
    /// A workload without its supervisor is stopped, or reported as not stoppable, within this.
    pub containment: Duration,
    /// The engine's confirmation of a reported exit is awaited this long before the engine is asked.
    pub exit_confirmation: Duration,
    /// The supervisor's report of a confirmed exit is awaited this long.
    pub exit_report: Duration,
    /// One engine call (but for image pulls, and beyond the grace for stops).
    pub engine_call: Duration,
    /// How many sandboxes are asked about at once when the gateway starts.
    pub restore_concurrency: usize,
    /// What is in flight has this long to reach a durable point when the gateway ends.
    pub shutdown_grace: Duration,
}

/// What a stop takes beyond its grace.
const STOP_TAKES: Duration = Duration::from_secs(5);

impl FenceConfig {
    /// How long the gateway's end may take: what is stopped with it has its whole grace.
    pub fn shutdown_limit(&self) -> Duration {
        match self.on_shutdown {
            ShutdownMode::Keep => self.shutdown_grace,
            ShutdownMode::Stop => self.shutdown_grace.max(self.stop_grace + STOP_TAKES),
        }
    }
}

impl Default for FenceConfig {
    fn default() -> Self {
        Self {
            restore: RestoreMode::default(),
            on_shutdown: ShutdownMode::default(),
            stop_grace: Duration::from_secs(10),
            adoption_window: Duration::from_secs(30),
            session_grace: Duration::from_secs(5),
            session_window: Duration::from_secs(60),
            engine_outage_limit: Duration::from_secs(120),
            provisioning: Duration::from_secs(300),
            containment: Duration::from_secs(15),
            exit_confirmation: Duration::from_secs(15),
            exit_report: Duration::from_secs(2),
            engine_call: Duration::from_secs(60),
            restore_concurrency: 16,
            shutdown_grace: Duration::from_secs(10),
        }
    }
}
