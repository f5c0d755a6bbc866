//! A user's spec → what a sandbox is made from; what is not supported is refused by name.

use std::collections::BTreeMap;

use openshell_core::{ImageRef, Resources, RestartPolicy, SandboxSpec};
use openshell_proto::api;
use openshell_proto::policy::SandboxPolicy;
use prost::Message as _;
use tonic::Status;

use super::resources;
use crate::status::invalid;
use crate::validate::{self, KEPT};

/// What a workload template contributes where the spec says nothing.
#[derive(Clone, Debug, Default)]
pub(crate) struct Base {
    pub(crate) image: Option<ImageRef>,
    pub(crate) environment: BTreeMap<String, String>,
    pub(crate) resources: Resources,
}

/// Checks a template's spec and takes what it contributes.
pub(crate) fn base(spec: Option<&api::SandboxWorkloadTemplateSpec>) -> Result<Base, Status> {
    let field = "template.spec";
    let spec = spec.ok_or_else(|| invalid(field, "is missing"))?;
    if spec
        .driver_config
        .as_ref()
        .is_some_and(|c| !c.fields.is_empty())
    {
        return Err(unsupported(&format!("{field}.driver_config")));
    }
    let workload = spec
        .workload
        .as_ref()
        .ok_or_else(|| invalid(&format!("{field}.workload"), "is missing"))?;
    let field = format!("{field}.workload");
    validate::environment(&format!("{field}.environment"), &workload.environment, KEPT)?;
    let limits = match &workload.resources {
        None => Resources::default(),
        Some(r) if r.gpu.is_some() => return Err(unsupported(&format!("{field}.resources.gpu"))),
        Some(r) => resources::from_text(&format!("{field}.resources"), &r.cpu, &r.memory)?,
    };
    Ok(Base {
        image: image(&format!("{field}.image"), &workload.image)?,
        environment: workload.environment.clone(),
        resources: limits,
    })
}

/// Checks a spec and lays it over what its template says.
pub(crate) fn spec(
    wire: &api::SandboxSpec,
    base: Base,
    default_image: Option<&ImageRef>,
) -> Result<SandboxSpec, Status> {
    refuse_unsupported(wire)?;
    let template = wire.template.clone().unwrap_or_default();
    validate::command("spec.command", &wire.command, KEPT)?;
    validate::environment("spec.environment", &wire.environment, KEPT)?;
    validate::environment("spec.template.environment", &template.environment, KEPT)?;
    let mut environment = base.environment;
    environment.extend(template.environment.clone());
    environment.extend(wire.environment.clone());
    validate::environment("spec.environment", &environment, KEPT)?;
    let limits = template
        .resources
        .as_ref()
        .map(|s| resources::from_struct("spec.template.resources", s))
        .transpose()?
        .unwrap_or_default();
    let image = image("spec.template.image", &template.image)?
        .or(base.image)
        .or_else(|| default_image.cloned());
    if image.is_none() {
        return Err(invalid(
            "spec.template.image",
            "is missing, and this gateway has no default image; name one",
        ));
    }
    Ok(SandboxSpec {
        image,
        command: wire.command.clone(),
        // No command means a login shell, which is of no use without a terminal.
        tty: wire.tty || wire.command.is_empty(),
        environment,
        resources: resources::or(limits, base.resources),
        restart_policy: restart_policy(wire.restart_policy)?,
        // Not of the spec but of the request to create.
        await_attachment: false,
        log_level: log_level("spec.log_level", &wire.log_level)?,
        wire: wire.encode_to_vec(),
    })
}

fn image(field: &str, text: &str) -> Result<Option<ImageRef>, Status> {
    if text.is_empty() {
        return Ok(None);
    }
    validate::image(field, text)?;
    Ok(Some(ImageRef(text.to_owned())))
}

fn restart_policy(number: i32) -> Result<RestartPolicy, Status> {
    use api::SandboxRestartPolicy as Wire;
    match Wire::try_from(number) {
        Ok(Wire::Unspecified | Wire::Never) => Ok(RestartPolicy::Never),
        Ok(Wire::OnFailure) => Ok(RestartPolicy::OnFailure),
        Ok(Wire::Always) => Ok(RestartPolicy::Always),
        Err(_) => Err(invalid(
            "spec.restart_policy",
            format!("{number} is not known; use never, on-failure or always"),
        )),
    }
}

fn log_level(field: &str, text: &str) -> Result<String, Status> {
    let level = text.to_ascii_lowercase();
    match level.as_str() {
        "" | "error" | "warn" | "info" | "debug" | "trace" => Ok(level),
        _ => Err(invalid(field, "use error, warn, info, debug or trace")),
    }
}

fn unsupported(field: &str) -> Status {
    invalid(field, "is not supported yet; leave it out")
}

fn refuse_unsupported(wire: &api::SandboxSpec) -> Result<(), Status> {
    let template = wire.template.as_ref();
    let given = |f: fn(&api::SandboxTemplate) -> bool| template.is_some_and(f);
    let gpu = wire
        .resource_requirements
        .as_ref()
        .is_some_and(|r| r.gpu.is_some());
    for (field, present) in [
        ("spec.resource_requirements.gpu", gpu),
        ("spec.providers", !wire.providers.is_empty()),
        (
            "spec.provider_attachment_epoch",
            !wire.provider_attachment_epoch.is_empty(),
        ),
        (
            "spec.template.runtime_class_name",
            given(|t| !t.runtime_class_name.is_empty()),
        ),
        (
            "spec.template.agent_socket",
            given(|t| !t.agent_socket.is_empty()),
        ),
        (
            "spec.template.user_namespaces",
            given(|t| t.user_namespaces == Some(true)),
        ),
        (
            "spec.template.driver_config",
            given(|t| {
                t.driver_config
                    .as_ref()
                    .is_some_and(|c| !c.fields.is_empty())
            }),
        ),
    ] {
        if present {
            return Err(unsupported(field));
        }
    }
    if let Some(template) = template {
        validate::labels("spec.template.labels", &template.labels)?;
        validate::annotations("spec.template.annotations", &template.annotations)?;
    }
    wire.policy.as_ref().map_or(Ok(()), refuse_policy)
}

/// A policy that this version would not enforce is refused rather than kept: nobody may believe in it.
fn refuse_policy(policy: &SandboxPolicy) -> Result<(), Status> {
    let network = "network policies are not supported yet; without one all egress is denied";
    let fixed = "is not supported yet; without it the default applies";
    let given = [
        (
            "network_policies",
            !policy.network_policies.is_empty(),
            network,
        ),
        (
            "network_middlewares",
            !policy.network_middlewares.is_empty(),
            network,
        ),
        ("filesystem", asks(policy.filesystem.as_ref()), fixed),
        ("landlock", asks(policy.landlock.as_ref()), fixed),
        ("process", asks(policy.process.as_ref()), fixed),
    ];
    match given.into_iter().find(|(_, given, _)| *given) {
        Some((field, _, why)) => Err(invalid(&format!("spec.policy.{field}"), why)),
        None => Ok(()),
    }
}

/// Whether a message says more than its absence would.
fn asks<M: Default + PartialEq>(message: Option<&M>) -> bool {
    message.is_some_and(|m| *m != M::default())
}
