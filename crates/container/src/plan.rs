//! The two containers of a run, as plain values: everything that an engine is told, and nothing else.
//!
//! | | workload | supervisor |
//! |---|---|---|
//! | network | none | the host's, by default |
//! | user | the image's if not root, else 1000:1000 | 65532:65532 |
//! | capabilities | all dropped | all dropped |
//! | root file system | the image's, writable | read-only |

use std::collections::BTreeMap;

use openshell_core::bootstrap::{RESERVED, RUNTIME_BINARY, SUPERVISOR_UID, WORKSPACE};
use openshell_core::spec::Resources;
use openshell_core::{Generation, SandboxId};
use openshell_lifecycle::driver::Role;
use serde::Serialize;

use crate::engine::Labels;
use crate::identity::UserIds;
use crate::labels::{Identity, probe_labels, probe_name};

/// Bytes of container log that the engine keeps of either half.
const LOG_BYTES: u64 = 2 << 20;
/// The supervisor's threads; it starts no process.
const SUPERVISOR_PIDS: u32 = 256;

/// One mount of a named volume.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Mount {
    /// The volume, which outlives the container.
    pub volume: String,
    /// Where.
    pub target: String,
    /// Whether the engine fills a new volume with what the image has at the target.
    pub copy_image_content: bool,
    /// For a volume that is made with the container.
    pub labels: Labels,
}

/// The network of a container.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Network {
    /// Only `lo`.
    None,
    /// The host's.
    Host,
    /// A network of the engine, by name.
    Named(String),
}

/// A container to be made. Always: all capabilities dropped, no-new-privileges, no restart by the engine, no
/// health check, no terminal, the engine's own seccomp profile.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct ContainerPlan {
    /// Unique on the engine.
    pub name: String,
    /// Immutable image id or content-addressed tag.
    pub image: String,
    /// Replaces the image's entry point; its command is emptied.
    pub entrypoint: Vec<String>,
    /// Numeric.
    pub user: UserIds,
    /// Whether a bootstrap is handed to it on standard input.
    pub input: bool,
    /// Where the entry point starts.
    pub working_directory: String,
    /// Host name inside, where the network is not the host's.
    pub hostname: Option<String>,
    /// For discovery.
    pub labels: Labels,
    /// What it can reach.
    pub network: Network,
    /// Name servers in its `resolv.conf`. Where there is no network and none is named, the engine's network code has
    /// nothing to do: an engine that can leaves it out.
    pub name_servers: Vec<String>,
    /// Kernel parameters of its namespaces.
    pub sysctls: BTreeMap<String, String>,
    /// In this order.
    pub mounts: Vec<Mount>,
    /// Whether the root file system refuses writes.
    pub read_only_root: bool,
    /// Thousandths of a CPU.
    pub cpu_millis: Option<u64>,
    /// Bytes, swap excluded.
    pub memory_bytes: Option<u64>,
    /// Processes and threads.
    pub pids: u32,
    /// Bytes of its output that the engine keeps.
    pub log_bytes: u64,
}

fn link_mount(identity: &Identity, copy_image_content: bool) -> Mount {
    Mount {
        volume: identity.link_volume(),
        target: RESERVED.to_owned(),
        copy_image_content,
        labels: identity.labels(Role::Workload),
    }
}

fn workspace_mount(identity: &Identity, copy_image_content: bool) -> Mount {
    Mount {
        volume: identity.workspace_volume(),
        target: WORKSPACE.to_owned(),
        copy_image_content,
        labels: identity.labels(Role::Workload),
    }
}

/// What a new workspace begins with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Workspace {
    /// Nothing: the image has no such directory.
    Empty,
    /// What the image has there.
    FromImage,
}

/// Where the runtime answers programs that are told whom to ask for names.
pub const RESOLVER: &str = "127.0.0.53";

/// Whom programs ask for names unless we say more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Resolver {
    /// The image configures none, so every resolver library asks `127.0.0.1`, where the runtime answers.
    Default,
    /// The image brings a `resolv.conf` of its own, which has to be covered.
    Foreign,
}

/// What a workload's container is made from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WorkloadImage {
    /// Immutable.
    pub id: String,
    /// Whom the workload runs as.
    pub user: UserIds,
    /// What its workspace begins with.
    pub workspace: Workspace,
    /// What it says about names.
    pub resolver: Resolver,
}

/// The workload's container.
pub fn workload(
    identity: &Identity,
    image: &WorkloadImage,
    resources: &Resources,
    default_pids: u32,
) -> ContainerPlan {
    ContainerPlan {
        name: identity.workload_name(),
        image: image.id.clone(),
        entrypoint: vec![RUNTIME_BINARY.to_owned()],
        user: image.user,
        input: true,
        working_directory: WORKSPACE.to_owned(),
        hostname: Some(identity.name.to_string()),
        labels: identity.labels(Role::Workload),
        network: Network::None,
        name_servers: match image.resolver {
            Resolver::Default => Vec::new(),
            Resolver::Foreign => vec![RESOLVER.to_owned()],
        },
        sysctls: BTreeMap::from([(
            "net.ipv4.ip_unprivileged_port_start".to_owned(),
            "0".to_owned(),
        )]),
        mounts: vec![
            // A user's image must not be able to put anything there.
            link_mount(identity, false),
            workspace_mount(identity, image.workspace == Workspace::FromImage),
        ],
        read_only_root: false,
        cpu_millis: resources.cpu.map(|cpu| cpu.0),
        memory_bytes: resources.memory.map(|memory| memory.0),
        pids: resources.pids.unwrap_or(default_pids),
        log_bytes: LOG_BYTES,
    }
}

/// The supervisor's container, new in every run.
pub fn supervisor(
    identity: &Identity,
    generation: Generation,
    image: &str,
    network: Network,
) -> ContainerPlan {
    ContainerPlan {
        name: identity.supervisor_name(generation),
        image: image.to_owned(),
        entrypoint: vec![crate::supervisor_image::ENTRYPOINT.to_owned()],
        user: UserIds {
            uid: SUPERVISOR_UID,
            gid: SUPERVISOR_UID,
        },
        input: true,
        working_directory: "/".to_owned(),
        hostname: None,
        labels: identity.supervisor_labels(generation),
        network,
        name_servers: Vec::new(),
        sysctls: BTreeMap::new(),
        // Our own image brings the directory of the socket.
        mounts: vec![link_mount(identity, true)],
        read_only_root: true,
        cpu_millis: None,
        memory_bytes: None,
        pids: SUPERVISOR_PIDS,
        log_bytes: LOG_BYTES,
    }
}

/// A container that is made for what the engine does while it makes one, or to read an image's files; it is never
/// started.
pub fn probe(namespace: &str, sandbox: SandboxId, image_id: &str, unique: &str) -> ContainerPlan {
    ContainerPlan {
        name: probe_name(namespace, sandbox, unique),
        image: image_id.to_owned(),
        entrypoint: vec!["/never-started".to_owned()],
        user: UserIds::DEFAULT,
        input: false,
        working_directory: "/".to_owned(),
        hostname: None,
        labels: probe_labels(namespace, sandbox),
        network: Network::None,
        name_servers: Vec::new(),
        sysctls: BTreeMap::new(),
        mounts: Vec::new(),
        read_only_root: true,
        cpu_millis: None,
        memory_bytes: None,
        pids: 1,
        log_bytes: LOG_BYTES,
    }
}

/// A probe by which a new workspace volume gets the owner that the image of an empty workspace has.
pub fn seed(identity: &Identity, image: &str, unique: &str) -> ContainerPlan {
    ContainerPlan {
        mounts: vec![workspace_mount(identity, true)],
        ..probe(&identity.namespace, identity.sandbox, image, unique)
    }
}

#[cfg(test)]
mod tests;
