//! What is ours and what only looks like it.

use super::*;

fn identity() -> Identity {
    Identity {
        namespace: "home".to_owned(),
        sandbox: "0199c0de-0000-7000-8000-000000000001".parse().unwrap(),
        name: SandboxName::new("my-agent").unwrap(),
        workspace: WorkspaceName::default_workspace(),
    }
}

#[test]
fn what_we_make_is_recognised_by_its_labels_and_its_name() {
    let identity = identity();
    let claim = Claim::read("home", &identity.labels(Role::Workload)).unwrap();
    assert!(claim.fits_container("home", &identity.workload_name()));
    assert!(claim.fits_volume("home", &identity.link_volume()));
    assert!(claim.fits_volume("home", &identity.workspace_volume()));
    let generation = Generation(7);
    let claim = Claim::read("home", &identity.supervisor_labels(generation)).unwrap();
    assert_eq!(claim.generation, Some(generation));
    assert!(claim.fits_container("home", &identity.supervisor_name(generation)));
}

#[test]
fn copied_labels_under_another_name_claim_nothing_l14() {
    let identity = identity();
    let workload = Claim::read("home", &identity.labels(Role::Workload)).unwrap();
    let supervisor = Claim::read("home", &identity.supervisor_labels(Generation(7))).unwrap();
    for name in [
        "",
        "copy",
        "openshell-home--my-agent",
        "openshell-home--my-agent-0199c0de-0000-7000-8000-000000000002",
        "openshell-home---0199c0de-0000-7000-8000-000000000001",
        "openshell-home--My_Agent-0199c0de-0000-7000-8000-000000000001",
        "openshell-away--my-agent-0199c0de-0000-7000-8000-000000000001",
        "x-openshell-home--my-agent-0199c0de-0000-7000-8000-000000000001",
    ] {
        assert!(!workload.fits_container("home", name), "{name}");
        assert!(!workload.fits_volume("home", name), "{name}");
    }
    assert!(!workload.fits_container("home", &identity.supervisor_name(Generation(7))));
    assert!(!supervisor.fits_container("home", &identity.supervisor_name(Generation(8))));
    assert!(!supervisor.fits_container("home", &identity.workload_name()));
    assert!(!supervisor.fits_volume("home", &identity.link_volume()));
}

#[test]
fn labels_of_another_namespace_or_of_nobody_are_not_read() {
    let labels = identity().labels(Role::Workload);
    assert_eq!(Claim::read("away", &labels), None);
    for key in [MANAGED_BY, NAMESPACE, SANDBOX_ID, ROLE] {
        let mut without = labels.clone();
        without.remove(key);
        assert_eq!(Claim::read("home", &without), None, "{key}");
        without.insert(key.to_owned(), "nonsense".to_owned());
        assert_eq!(Claim::read("home", &without), None, "{key}");
    }
}

#[test]
fn a_probe_is_found_again_with_its_sandbox() {
    let sandbox = identity().sandbox;
    let claim = Claim::read("home", &probe_labels("home", sandbox)).unwrap();
    assert_eq!((claim.part, claim.sandbox), (Part::Probe, sandbox));
    assert!(claim.fits_container("home", &probe_name("home", sandbox, "1")));
    assert!(!claim.fits_container("home", &identity().workload_name()));
    assert!(!claim.fits_volume("home", &identity().link_volume()));
}
