//! A record → the public `Sandbox`.

use openshell_core::{
    ExitCause, OperationKind, Phase, Reason, RestartPolicy, SandboxMeta, SandboxRecord,
};
use openshell_proto::api;
use openshell_proto::datamodel::ObjectMeta;
use prost::Message as _;

use super::time;

/// The whole of it.
pub(crate) fn sandbox(record: &SandboxRecord) -> api::Sandbox {
    api::Sandbox {
        metadata: Some(metadata(record)),
        spec: Some(spec(record)),
        status: Some(status(record)),
        host_key_fingerprint: String::new(),
        created_from_workload_template: record.meta.template.clone().map(
            |(name, resource_version)| api::SandboxWorkloadTemplateProvenance {
                name,
                resource_version,
            },
        ),
    }
}

fn metadata(record: &SandboxRecord) -> ObjectMeta {
    let SandboxMeta {
        id,
        name,
        workspace,
        labels,
        annotations,
        created,
        template: _,
    } = &record.meta;
    let deletion = record
        .life
        .operation
        .as_ref()
        .filter(|o| o.kind == OperationKind::Delete)
        .map(|o| time(o.started));
    ObjectMeta {
        id: id.to_string(),
        name: name.to_string(),
        created_time: Some(time(*created)),
        labels: labels.clone(),
        resource_version: record.resource_version,
        annotations: annotations.clone(),
        workspace: workspace.to_string(),
        deletion_time: deletion,
    }
}

/// As its user sent it, with what was settled at create.
fn spec(record: &SandboxRecord) -> api::SandboxSpec {
    let mut spec = api::SandboxSpec::decode(record.spec.wire.as_slice()).unwrap_or_default();
    let template = spec.template.get_or_insert_default();
    if template.image.is_empty()
        && let Some(image) = &record.spec.image
    {
        template.image.clone_from(&image.0);
    }
    spec.set_restart_policy(match record.spec.restart_policy {
        RestartPolicy::Never => api::SandboxRestartPolicy::Never,
        RestartPolicy::OnFailure => api::SandboxRestartPolicy::OnFailure,
        RestartPolicy::Always => api::SandboxRestartPolicy::Always,
    });
    spec
}

/// The public phase.
pub(crate) const fn phase(phase: Phase) -> api::SandboxPhase {
    match phase {
        Phase::Provisioning => api::SandboxPhase::Provisioning,
        Phase::Starting => api::SandboxPhase::Starting,
        Phase::Ready => api::SandboxPhase::Ready,
        Phase::Stopping => api::SandboxPhase::Stopping,
        Phase::Stopped => api::SandboxPhase::Stopped,
        Phase::Completed => api::SandboxPhase::Completed,
        Phase::Error => api::SandboxPhase::Error,
        Phase::Deleting => api::SandboxPhase::Deleting,
        Phase::Unknown => api::SandboxPhase::Unknown,
    }
}

fn status(record: &SandboxRecord) -> api::SandboxStatus {
    let life = &record.life;
    let run = life.run.as_ref();
    let ready = match life.phase {
        Phase::Ready => "True",
        Phase::Unknown => "Unknown",
        _ => "False",
    };
    let condition = api::SandboxCondition {
        r#type: "Ready".to_owned(),
        status: ready.to_owned(),
        reason: life.condition.reason.to_string(),
        message: life.condition.message.clone(),
        transition_time: Some(time(life.condition.since)),
    };
    let held = life.hold.as_ref().map(|hold| api::SandboxCondition {
        r#type: "Held".to_owned(),
        status: "True".to_owned(),
        reason: Reason::Held.to_string(),
        message: hold.to_string(),
        transition_time: Some(time(hold.since)),
    });
    let started = run.and_then(|r| r.main_started);
    api::SandboxStatus {
        conditions: std::iter::once(condition).chain(held).collect(),
        phase: phase(life.phase).into(),
        main_process_instance_id: match started {
            Some(_) => format!("{}/{}", record.meta.id, life.generation),
            None => String::new(),
        },
        exit_code: exit_code(record),
        restart_count: life.restart.count,
        next_restart_time: life.restart.next.map(time),
        main_process_started_time: started.map(time),
        ..api::SandboxStatus::default()
    }
}

/// How main ended, until a later one is ready. What we ended ourselves is not main's own word.
fn exit_code(record: &SandboxRecord) -> Option<i32> {
    let life = &record.life;
    let exit = life.last_exit.as_ref()?;
    let own = matches!(exit.cause, ExitCause::Main | ExitCause::OutOfMemory);
    let replaced = life.phase == Phase::Ready && exit.generation < life.generation;
    (own && !replaced).then_some(exit.code)
}
