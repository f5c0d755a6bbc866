//! What users write becomes a spec or a refusal that names the field; records come back whole.

use std::collections::BTreeMap;

use openshell_core::quantity::{Bytes, MilliCpu};
use openshell_core::{
    Condition, ExitCause, ExitRecord, Generation, ImageRef, Intent, Life, Phase, Reason, Restart,
    RestartPolicy, SandboxId, SandboxMeta, SandboxRecord, SandboxSpec, WorkspaceName,
};
use openshell_proto::{api, link, policy};
use prost_types::value::Kind;
use tonic::{Code, Status};

use super::*;
use crate::session::SourcedLine;

fn value(kind: Kind) -> prost_types::Value {
    prost_types::Value { kind: Some(kind) }
}

fn text(s: &str) -> prost_types::Value {
    value(Kind::StringValue(s.to_owned()))
}

fn fields(pairs: &[(&str, prost_types::Value)]) -> prost_types::Struct {
    prost_types::Struct {
        fields: pairs
            .iter()
            .map(|(k, v)| ((*k).to_owned(), v.clone()))
            .collect(),
    }
}

fn make(wire: &api::SandboxSpec) -> Result<SandboxSpec, Status> {
    spec::spec(
        wire,
        spec::Base::default(),
        Some(&ImageRef("base:1".to_owned())),
    )
}

fn with_template(template: api::SandboxTemplate) -> api::SandboxSpec {
    api::SandboxSpec {
        template: Some(template),
        ..api::SandboxSpec::default()
    }
}

fn refused(wire: &api::SandboxSpec, field: &str) {
    let e = make(wire).expect_err(field);
    assert_eq!(e.code(), Code::InvalidArgument);
    assert!(e.message().starts_with(field), "{} / {field}", e.message());
}

pub(crate) fn record(spec: SandboxSpec, phase: Phase) -> SandboxRecord {
    let now = Timestamp::from_second(1_000).unwrap();
    SandboxRecord {
        meta: SandboxMeta {
            id: SandboxId::random(),
            name: "a".parse().unwrap(),
            workspace: WorkspaceName::default_workspace(),
            labels: BTreeMap::new(),
            annotations: BTreeMap::new(),
            created: now,
            template: Some(("t".to_owned(), "3".to_owned())),
        },
        spec,
        life: Life {
            intent: Intent::Running,
            phase,
            condition: Condition {
                reason: Reason::Running,
                message: "runs".to_owned(),
                since: now,
            },
            generation: Generation(2),
            run: None,
            operation: None,
            restart: Restart::default(),
            last_exit: None,
            engine: None,
            retired: Vec::new(),
            hold: None,
        },
        resource_version: 9,
    }
}

#[test]
fn an_empty_spec_is_a_login_shell_on_a_terminal_in_the_default_image() {
    let made = make(&api::SandboxSpec::default()).unwrap();
    assert_eq!(made.image, Some(ImageRef("base:1".to_owned())));
    assert!(made.command.is_empty() && made.tty);
    assert_eq!(made.restart_policy, RestartPolicy::Never);
    let none = spec::spec(&api::SandboxSpec::default(), spec::Base::default(), None);
    assert_eq!(none.unwrap_err().code(), Code::InvalidArgument);
}

#[test]
fn resources_are_read_as_limits_as_requests_and_flat_and_limits_win() {
    let resources = fields(&[
        (
            "limits",
            value(Kind::StructValue(fields(&[("cpu", text("500m"))]))),
        ),
        (
            "requests",
            value(Kind::StructValue(fields(&[
                ("cpu", text("100m")),
                ("memory", text("64Mi")),
            ]))),
        ),
        ("pids", value(Kind::NumberValue(50.0))),
    ]);
    let r = resources::from_struct("r", &resources).unwrap();
    assert_eq!(r.cpu, Some(MilliCpu(500)));
    assert_eq!(r.memory, Some(Bytes(64 << 20)));
    assert_eq!(r.pids, Some(50));
    let flat = fields(&[
        ("cpu", value(Kind::NumberValue(1.5))),
        ("memory", value(Kind::NumberValue(1_073_741_824.0))),
    ]);
    let r = resources::from_struct("r", &flat).unwrap();
    assert_eq!(r.cpu, Some(MilliCpu(1500)));
    assert_eq!(r.memory, Some(Bytes(1 << 30)));
}

#[test]
fn a_bad_quantity_names_its_field() {
    for (key, bad) in [
        ("cpu", text("0")),
        ("cpu", text("-1")),
        ("cpu", text("many")),
        ("cpu", value(Kind::NumberValue(f64::NAN))),
        ("cpu", value(Kind::BoolValue(true))),
        ("memory", text("1")),
        ("memory", text("999999Ti")),
        ("memory", text("12 GB")),
        ("pids", text("0")),
        ("nvidia.com/gpu", text("1")),
    ] {
        let template = api::SandboxTemplate {
            resources: Some(fields(&[(key, bad)])),
            ..api::SandboxTemplate::default()
        };
        refused(
            &with_template(template),
            &format!("spec.template.resources.{key}"),
        );
    }
    let template = api::SandboxTemplate {
        resources: Some(fields(&[("limits", text("x"))])),
        ..api::SandboxTemplate::default()
    };
    refused(&with_template(template), "spec.template.resources.limits");
}

#[test]
fn what_is_not_supported_yet_is_refused_by_name() {
    let spec = api::SandboxSpec {
        resource_requirements: Some(api::ResourceRequirements {
            gpu: Some(api::GpuResourceRequirements { count: Some(1) }),
        }),
        ..api::SandboxSpec::default()
    };
    refused(&spec, "spec.resource_requirements.gpu");
    let spec = api::SandboxSpec {
        providers: vec!["p".to_owned()],
        ..api::SandboxSpec::default()
    };
    refused(&spec, "spec.providers");
    let mut rules = policy::SandboxPolicy::default();
    let nothing_asked = api::SandboxSpec {
        policy: Some(rules.clone()),
        ..api::SandboxSpec::default()
    };
    make(&nothing_asked).unwrap();
    let filesystem = policy::FilesystemPolicy {
        read_only: vec!["/srv".to_owned()],
        ..Default::default()
    };
    let spec = api::SandboxSpec {
        policy: Some(policy::SandboxPolicy {
            filesystem: Some(filesystem),
            ..rules.clone()
        }),
        ..api::SandboxSpec::default()
    };
    refused(&spec, "spec.policy.filesystem");
    rules
        .network_policies
        .insert("x".to_owned(), Default::default());
    let spec = api::SandboxSpec {
        policy: Some(rules),
        ..api::SandboxSpec::default()
    };
    refused(&spec, "spec.policy.network_policies");
    let spec = api::SandboxSpec {
        restart_policy: 77,
        ..api::SandboxSpec::default()
    };
    refused(&spec, "spec.restart_policy");
    let spec = api::SandboxSpec {
        log_level: "loud".to_owned(),
        ..api::SandboxSpec::default()
    };
    refused(&spec, "spec.log_level");
}

#[test]
fn the_spec_outranks_its_template_and_is_given_back_as_it_was_sent() {
    let base = spec::base(Some(&api::SandboxWorkloadTemplateSpec {
        workload: Some(api::SandboxWorkloadConfig {
            image: "tpl:1".to_owned(),
            environment: [("A", "t"), ("B", "t")]
                .map(|(k, v)| (k.into(), v.into()))
                .into(),
            resources: Some(api::SandboxResources {
                cpu: "2".to_owned(),
                memory: String::new(),
                gpu: None,
            }),
        }),
        ..Default::default()
    }))
    .unwrap();
    let mut wire = with_template(api::SandboxTemplate::default());
    wire.environment.insert("A".to_owned(), "s".to_owned());
    wire.command = vec!["true".to_owned()];
    let made = spec::spec(&wire, base, None).unwrap();
    assert_eq!(made.image, Some(ImageRef("tpl:1".to_owned())));
    assert_eq!(
        (&*made.environment["A"], &*made.environment["B"]),
        ("s", "t")
    );
    assert_eq!(made.resources.cpu, Some(MilliCpu(2000)));
    assert!(!made.tty);

    let public = sandbox::sandbox(&record(made, Phase::Ready));
    let back = public.spec.unwrap();
    assert_eq!(back.environment, wire.environment);
    assert_eq!(back.command, wire.command);
    assert_eq!(back.template.unwrap().image, "tpl:1");
    let from = public.created_from_workload_template.unwrap();
    assert_eq!((&*from.name, &*from.resource_version), ("t", "3"));
}

#[test]
fn the_ready_condition_follows_the_phase_and_has_its_reason() {
    for phase in Phase::ALL {
        let public = sandbox::sandbox(&record(SandboxSpec::default(), phase));
        let status = public.status.unwrap();
        assert_eq!(status.phase(), sandbox::phase(phase));
        let ready = &status.conditions[0];
        let expected = match phase {
            Phase::Ready => "True",
            Phase::Unknown => "Unknown",
            _ => "False",
        };
        assert_eq!((&*ready.r#type, &*ready.status), ("Ready", expected));
        assert_eq!((&*ready.reason, &*ready.message), ("Running", "runs"));
    }
}

#[test]
fn an_exit_code_is_mains_own_and_goes_when_a_later_run_is_ready() {
    let code = |phase, generation, cause| {
        let mut r = record(SandboxSpec::default(), phase);
        r.life.last_exit = Some(ExitRecord {
            generation: Generation(generation),
            code: 17,
            cause,
            at: Timestamp::UNIX_EPOCH,
            error: String::new(),
        });
        sandbox::sandbox(&r).status.unwrap().exit_code
    };
    assert_eq!(code(Phase::Error, 2, ExitCause::Main), Some(17));
    assert_eq!(code(Phase::Starting, 1, ExitCause::Main), Some(17));
    assert_eq!(code(Phase::Ready, 1, ExitCause::Main), None);
    assert_eq!(code(Phase::Stopped, 2, ExitCause::StopRequested), None);
}

#[test]
fn times_before_1970_stay_valid_on_the_wire() {
    for t in ["1969-12-31T23:59:58.25Z", "2026-01-02T03:04:05.000000006Z"] {
        let t: Timestamp = t.parse().unwrap();
        assert!((0..1_000_000_000).contains(&time(t).nanos));
        assert_eq!(from_time(&time(t)), Some(t));
    }
}

#[test]
fn logs_are_filtered_by_level_time_and_source() {
    let line = |level: &str, second, source| SourcedLine {
        sequence: 1,
        source,
        line: link::LogLine {
            time: Some(time(Timestamp::from_second(second).unwrap())),
            level: level.to_owned(),
            ..link::LogLine::default()
        },
    };
    let since = time(Timestamp::from_second(10).unwrap());
    let f = logs::Filter::parse(Some(&since), vec!["sandbox".to_owned()], "warn").unwrap();
    assert!(f.wants(&line("error", 10, "sandbox")));
    assert!(!f.wants(&line("info", 10, "sandbox")));
    assert!(!f.wants(&line("warn", 9, "sandbox")));
    assert!(!f.wants(&line("warn", 11, "gateway")));
    assert!(logs::Filter::parse(None, vec![], "loud").is_err());
    assert!(logs::Filter::parse(None, vec!["moon".to_owned()], "").is_err());
}
