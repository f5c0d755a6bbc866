//! What each half of a sandbox is given before a run, and where it finds it. The container core hands bootstraps over
//! on standard input of PID 1 of either container; a file in the places named here is read first, and unlinked.

use serde::{Deserialize, Serialize};

use crate::id::{Generation, SandboxId};

/// The reserved tree: the link volume is mounted here in both containers.
pub const RESERVED: &str = "/.openshell";
/// The sandbox runtime, delivered onto the link volume.
pub const RUNTIME_BINARY: &str = "/.openshell/bin/openshell-sandbox";
/// The workload's one-use bootstrap.
pub const SANDBOX_BOOTSTRAP: &str = "/.openshell/boot/sandbox.json";
/// The directory of the link socket; owned by the supervisor's user, searchable by all.
pub const LINK_DIRECTORY: &str = "/.openshell/link";
/// The socket on which the supervisor listens and which the sandbox dials. One for each generation, so that
/// nothing left over by an earlier run is ever dialled.
pub fn link_socket(generation: Generation) -> String {
    format!("{LINK_DIRECTORY}/{generation}.sock")
}
/// The supervisor's own volume, which the workload never sees.
pub const SUPERVISOR_DIRECTORY: &str = "/run/openshell";
/// The supervisor's bootstrap.
pub const SUPERVISOR_BOOTSTRAP: &str = "/run/openshell/supervisor.json";
/// Where users' files live: the workspace volume.
pub const WORKSPACE: &str = "/sandbox";
/// The supervisor's user and group.
pub const SUPERVISOR_UID: u32 = 65532;
/// The workload's user and group where the image names none or root.
pub const DEFAULT_WORKLOAD_UID: u32 = 1000;

/// For PID 1 of the workload. Holds no authority over anything but this run's link.
#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SandboxBootstrap {
    /// Whose.
    pub sandbox_id: SandboxId,
    /// Which run.
    pub generation: Generation,
    /// The gateway's Ed25519 public key (32 bytes, base64), with which the supervisor's token is verified.
    pub gateway_public_key: String,
    /// 32 random bytes, base64; proves this runtime to its supervisor.
    pub link_secret: String,
    /// The supervisor's uid, checked against the peer credentials of the link.
    pub supervisor_uid: u32,
    /// Grace between TERM and KILL when it is told to stop, in milliseconds.
    pub stop_grace_millis: u64,
}

/// What PID 1 of the workload ends with that was given nothing at all, not a byte.
pub const NO_BOOTSTRAP_EXIT: u8 = 77;

/// What a supervisor ends with that has ended its run because no gateway could be reached for too long.
pub const GATEWAY_UNREACHABLE_EXIT: u8 = 75;

/// For the supervisor.
#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SupervisorBootstrap {
    /// Whose.
    pub sandbox_id: SandboxId,
    /// For logs.
    pub sandbox_name: String,
    /// Which run.
    pub generation: Generation,
    /// `https://127.0.0.1:17670`.
    pub gateway_endpoint: String,
    /// The only CA that is trusted for it (PEM); empty for a plaintext gateway on loopback.
    pub gateway_ca_pem: String,
    /// For the gateway: audience `openshell-gateway`.
    pub gateway_token: String,
    /// For the sandbox: audience `openshell-sandbox`.
    pub sandbox_token: String,
    /// The same 32 bytes that the sandbox has, base64.
    pub link_secret: String,
    /// The workload's uid, checked against the peer credentials of the link.
    pub workload_uid: u32,
    /// Grace between TERM and KILL, in milliseconds.
    pub stop_grace_millis: u64,
}

// Secrets must not end up in logs by way of `{:?}`.
impl std::fmt::Debug for SandboxBootstrap {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SandboxBootstrap")
            .field("sandbox_id", &self.sandbox_id)
            .field("generation", &self.generation)
            .finish_non_exhaustive()
    }
}

impl std::fmt::Debug for SupervisorBootstrap {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SupervisorBootstrap")
            .field("sandbox_id", &self.sandbox_id)
            .field("generation", &self.generation)
            .finish_non_exhaustive()
    }
}
