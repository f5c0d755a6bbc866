//! The plans as snapshots: a change of what an engine is told is seen in review.

use openshell_core::quantity::{Bytes, MilliCpu};
use openshell_core::{SandboxName, WorkspaceName};

use super::*;

fn identity() -> Identity {
    Identity {
        namespace: "home".to_owned(),
        sandbox: "0199c0de-0000-7000-8000-000000000001".parse().unwrap(),
        name: SandboxName::new("my-agent").unwrap(),
        workspace: WorkspaceName::default_workspace(),
    }
}

fn image(workspace: Workspace, resolver: Resolver) -> WorkloadImage {
    WorkloadImage {
        id: "sha256:0123".to_owned(),
        user: UserIds::DEFAULT,
        workspace,
        resolver,
    }
}

#[test]
fn an_image_that_knows_a_resolver_is_told_ours() {
    let foreign = image(Workspace::Empty, Resolver::Foreign);
    let plan = workload(&identity(), &foreign, &Resources::default(), 2048);
    assert_eq!(plan.name_servers, ["127.0.0.53"]);
}

#[test]
fn the_workloads_container_has_no_network_and_no_root() {
    let resources = Resources {
        cpu: Some(MilliCpu(1500)),
        memory: Some(Bytes(512 << 20)),
        pids: None,
    };
    let plan = workload(
        &identity(),
        &image(Workspace::FromImage, Resolver::Default),
        &resources,
        2048,
    );
    insta::assert_json_snapshot!(plan);
}

#[test]
fn the_supervisors_container_has_a_read_only_root_and_no_workspace() {
    let plan = supervisor(
        &identity(),
        Generation(3),
        "openshell-supervisor:0123",
        Network::Host,
    );
    insta::assert_json_snapshot!(plan);
}

#[test]
fn an_asked_for_pids_limit_wins_over_the_default() {
    let resources = Resources {
        pids: Some(64),
        ..Resources::default()
    };
    let plan = workload(
        &identity(),
        &image(Workspace::Empty, Resolver::Default),
        &resources,
        2048,
    );
    assert_eq!(plan.pids, 64);
    assert_eq!((plan.cpu_millis, plan.memory_bytes), (None, None));
}

#[test]
fn a_new_workspace_is_filled_from_one_place_only() {
    let fills = |workspace| {
        let resources = Resources::default();
        let plan = workload(
            &identity(),
            &image(workspace, Resolver::Default),
            &resources,
            2048,
        );
        plan.mounts.into_iter().find(|m| m.target == WORKSPACE)
    };
    let seed = seed(&identity(), "openshell-workspace:0", "0").mounts;
    let (empty, full) = (fills(Workspace::Empty), fills(Workspace::FromImage));
    assert_eq!(empty.map(|m| m.copy_image_content), Some(false));
    assert_eq!(full.as_ref(), seed.first());
}
