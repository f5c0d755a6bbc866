//! Between bollard's types, which are all optional, and ours. Nothing optional leaks past here.

use std::collections::HashMap;

use bollard::container::PathStatResponse;
use bollard::models::{
    ContainerCreateBody, CreateImageInfo, EventMessage, HealthConfig, HostConfig,
    HostConfigLogConfig, ImageInspect, Mount as DockerMount, MountType, MountVolumeOptions,
    RestartPolicy, RestartPolicyNameEnum, SystemInfo, Volume,
};
use openshell_core::{ContainerId, EngineId, Timestamp};
use openshell_lifecycle::driver::EngineEventKind;
use serde::Deserialize;

use super::dialect::Dialect;
use crate::engine::{
    ContainerFacts, ContainerStatus, ContainerSummary, EngineError, EngineErrorKind, EngineFacts,
    FileFacts, ImageFacts, Labels, PullMessage, RawEvent, VolumeFacts,
};
use crate::plan::{ContainerPlan, Mount, Network};

/// The request that makes a container.
pub(super) fn create_body(plan: &ContainerPlan) -> ContainerCreateBody {
    ContainerCreateBody {
        hostname: plan.hostname.clone(),
        user: Some(plan.user.to_string()),
        tty: Some(false),
        open_stdin: Some(plan.input),
        // Its end is passed on when we are done.
        stdin_once: Some(plan.input),
        cmd: Some(Vec::new()),
        // An engine's health check would be an exec past every policy.
        healthcheck: Some(HealthConfig {
            test: Some(vec!["NONE".to_owned()]),
            ..HealthConfig::default()
        }),
        image: Some(plan.image.clone()),
        // The kernel's own `lo` is all there is, and making that is the runtime's business: the engine's network code
        // takes longer than everything else of a start.
        network_disabled: (plan.network == Network::None && plan.name_servers.is_empty())
            .then_some(true),
        working_dir: Some(plan.working_directory.clone()),
        entrypoint: Some(plan.entrypoint.clone()),
        labels: Some(hash(&plan.labels)),
        stop_signal: Some("SIGTERM".to_owned()),
        host_config: Some(host_config(plan)),
        ..ContainerCreateBody::default()
    }
}

fn host_config(plan: &ContainerPlan) -> HostConfig {
    let signed = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
    HostConfig {
        memory: plan.memory_bytes.map(signed),
        // Equal to memory: no swap on top of it.
        memory_swap: plan.memory_bytes.map(signed),
        nano_cpus: plan
            .cpu_millis
            .map(|millis| signed(millis.saturating_mul(1_000_000))),
        pids_limit: Some(i64::from(plan.pids)),
        log_config: Some(HostConfigLogConfig {
            typ: Some("json-file".to_owned()),
            config: Some(HashMap::from([
                ("max-size".to_owned(), plan.log_bytes.to_string()),
                ("max-file".to_owned(), "1".to_owned()),
            ])),
        }),
        network_mode: Some(match &plan.network {
            Network::None => "none".to_owned(),
            Network::Host => "host".to_owned(),
            Network::Named(name) => name.clone(),
        }),
        restart_policy: Some(RestartPolicy {
            name: Some(RestartPolicyNameEnum::NO),
            maximum_retry_count: None,
        }),
        auto_remove: Some(false),
        mounts: Some(plan.mounts.iter().map(mount).collect()),
        cap_drop: Some(vec!["ALL".to_owned()]),
        dns: (!plan.name_servers.is_empty()).then(|| plan.name_servers.clone()),
        privileged: Some(false),
        readonly_rootfs: Some(plan.read_only_root),
        security_opt: Some(vec!["no-new-privileges".to_owned()]),
        sysctls: (!plan.sysctls.is_empty()).then(|| hash(&plan.sysctls)),
        init: Some(false),
        ..HostConfig::default()
    }
}

fn mount(mount: &Mount) -> DockerMount {
    DockerMount {
        target: Some(mount.target.clone()),
        source: Some(mount.volume.clone()),
        typ: Some(MountType::VOLUME),
        read_only: Some(false),
        volume_options: Some(MountVolumeOptions {
            no_copy: Some(!mount.copy_image_content),
            labels: Some(hash(&mount.labels)),
            ..MountVolumeOptions::default()
        }),
        ..DockerMount::default()
    }
}

pub(super) fn hash(labels: &Labels) -> HashMap<String, String> {
    labels.clone().into_iter().collect()
}

/// Whether all of these labels are among those. Podman takes several conditions on a volume's labels for
/// alternatives, so what an engine lists is looked at again.
pub(super) fn carries(carried: &Labels, wanted: &Labels) -> bool {
    wanted
        .iter()
        .all(|(name, value)| carried.get(name) == Some(value))
}

/// A filter for things that carry all of these labels, and perhaps more conditions.
pub(super) fn label_filter(labels: &Labels) -> HashMap<String, Vec<String>> {
    HashMap::from([(
        "label".to_owned(),
        labels.iter().map(|(k, v)| format!("{k}={v}")).collect(),
    )])
}

/// The engine writes year 1 for "never".
fn moment(text: Option<&String>) -> Option<Timestamp> {
    let time: Timestamp = text?.parse().ok()?;
    (time > Timestamp::UNIX_EPOCH).then_some(time)
}

fn absent(what: &str) -> EngineError {
    EngineError::new(
        EngineErrorKind::Other,
        format!("the engine answered without {what}"),
    )
}

/// What is read of a container's description.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Described {
    id: String,
    #[serde(default)]
    name: String,
    #[serde(default)]
    image: String,
    state: State,
    config: Config,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct State {
    status: String,
    started_at: Option<String>,
    finished_at: Option<String>,
    exit_code: Option<i64>,
    #[serde(rename = "OOMKilled")]
    oom_killed: Option<bool>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Config {
    user: Option<String>,
    labels: Option<Labels>,
}

/// The states of both engines. One that is not known is on the way to one that is.
fn status(word: &str) -> ContainerStatus {
    match word {
        "created" | "configured" | "initialized" => ContainerStatus::Created,
        "running" | "paused" => ContainerStatus::Running,
        "exited" | "dead" => ContainerStatus::Exited,
        // Among them Podman's `stopped`: it has ended, and what belonged to it is being cleared away.
        _ => ContainerStatus::InTransition,
    }
}

pub(super) fn container(answer: Described) -> ContainerFacts {
    let state = answer.state;
    ContainerFacts {
        id: ContainerId(answer.id),
        name: plain_name(&answer.name),
        user: answer.config.user.unwrap_or_default(),
        image: answer.image,
        status: status(&state.status),
        started_at: moment(state.started_at.as_ref()),
        finished_at: moment(state.finished_at.as_ref()),
        exit_code: state
            .exit_code
            .and_then(|code| i32::try_from(code).ok())
            .unwrap_or(-1),
        oom_killed: state.oom_killed.unwrap_or(false),
        labels: answer.config.labels.unwrap_or_default(),
    }
}

/// What is read of a container in a list.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Listed {
    id: String,
    names: Option<Vec<String>>,
    labels: Option<Labels>,
    #[serde(default)]
    state: String,
}

pub(super) fn summary(answer: Listed) -> ContainerSummary {
    let names = answer.names.unwrap_or_default();
    ContainerSummary {
        id: ContainerId(answer.id),
        name: plain_name(names.first().map_or("", String::as_str)),
        labels: answer.labels.unwrap_or_default(),
        running: status(&answer.state) == ContainerStatus::Running,
    }
}

fn plain_name(name: &str) -> String {
    name.strip_prefix('/').unwrap_or(name).to_owned()
}

pub(super) fn volume(answer: Volume) -> VolumeFacts {
    VolumeFacts {
        name: answer.name,
        labels: answer.labels.into_iter().collect(),
    }
}

pub(super) fn image(answer: ImageInspect) -> Result<ImageFacts, EngineError> {
    Ok(ImageFacts {
        id: answer.id.ok_or_else(|| absent("the image's id"))?,
        os: answer.os.unwrap_or_default(),
        architecture: answer.architecture.unwrap_or_default(),
        user: answer
            .config
            .and_then(|config| config.user)
            .unwrap_or_default(),
    })
}

pub(super) fn facts(
    dialect: &dyn Dialect,
    answer: SystemInfo,
    api_version: String,
) -> Result<EngineFacts, EngineError> {
    let id = dialect.identity(&answer).ok_or_else(|| absent("its id"))?;
    // The id alone names the engine; containers are gone with another storage, too.
    let storage = format!(
        "{}:{}",
        answer.driver.unwrap_or_default(),
        answer.docker_root_dir.unwrap_or_default()
    );
    let architecture = match answer.architecture.as_deref() {
        Some("x86_64") => "amd64",
        Some("aarch64") => "arm64",
        other => other.unwrap_or_default(),
    };
    Ok(EngineFacts {
        id: EngineId(format!("{id} {storage}")),
        version: answer.server_version.unwrap_or_default(),
        api_version,
        os: answer.os_type.unwrap_or_default(),
        architecture: architecture.to_owned(),
        cpus: answer.ncpu.and_then(|n| u64::try_from(n).ok()).unwrap_or(0),
        limits_supported: answer.memory_limit == Some(true) && answer.cpu_cfs_quota == Some(true),
        time: moment(answer.system_time.as_ref()).ok_or_else(|| absent("its time"))?,
    })
}

/// What the events that matter are called: by Docker, then, where it differs, by Podman in its filters and its
/// answers.
pub(super) const EVENTS: [&str; 6] = ["die", "start", "destroy", "oom", "died", "remove"];

/// The events that matter; the rest have no translation.
pub(super) fn event(message: EventMessage) -> Option<RawEvent> {
    let actor = message.actor?;
    let labels: Labels = actor.attributes.unwrap_or_default().into_iter().collect();
    let kind = match message.action?.as_str() {
        "die" | "died" => EngineEventKind::Died {
            code: labels
                .get("exitCode")
                .and_then(|code| code.parse().ok())
                .unwrap_or(-1),
        },
        "start" => EngineEventKind::Started,
        "destroy" | "remove" => EngineEventKind::Removed,
        "oom" => EngineEventKind::OutOfMemory,
        _ => return None,
    };
    Some(RawEvent {
        container: ContainerId(actor.id?),
        kind,
        time: Timestamp::from_nanosecond(i128::from(message.time_nano?)).ok()?,
        labels,
    })
}

/// `None` for a time that cannot be read, which then is that of no file of ours.
pub(super) fn file(answer: PathStatResponse) -> Option<FileFacts> {
    let modified: Timestamp = answer.modification_time.as_ref()?.parse().ok()?;
    Some(FileFacts {
        size: u64::try_from(answer.size).ok()?,
        modified: modified.as_second(),
    })
}

pub(super) fn pull_message(info: CreateImageInfo) -> PullMessage {
    let bytes = info.progress_detail.and_then(|detail| {
        let current = u64::try_from(detail.current?).ok()?;
        let total = u64::try_from(detail.total?).ok()?;
        Some((current, total))
    });
    PullMessage {
        layer: info.id.unwrap_or_default(),
        status: info.status.unwrap_or_default(),
        bytes,
    }
}

#[cfg(test)]
mod tests;
