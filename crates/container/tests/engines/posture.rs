//! What the engine itself says about a running pair: isolation as promised, whatever the plan said.

use crate::support::{On, World, permit};
use bollard::models::{ContainerInspectResponse, RestartPolicyNameEnum};
use bollard::query_parameters::InspectContainerOptions;
use openshell_core::SandboxSpec;
use openshell_core::quantity::{Bytes, MilliCpu};
use openshell_lifecycle::ComputeDriver;
use openshell_lifecycle::driver::Containers;

async fn look(on: On, id: &str) -> ContainerInspectResponse {
    on.stranger()
        .inspect_container(id, None::<InspectContainerOptions>)
        .await
        .unwrap()
}

async fn a_running_pair_has_no_network_no_capability_no_root_and_its_limits(on: On) {
    let world = World::new(on).await;
    let mut request = world.request("posture", "run");
    let mut spec = SandboxSpec::default();
    spec.resources.cpu = Some(MilliCpu(500));
    spec.resources.memory = Some(Bytes(64 << 20));
    spec.resources.pids = Some(77);
    request.spec = std::sync::Arc::new(spec);
    let (prepared, _) = world.run(&request).await;

    let workload = look(on, &prepared.workload.0).await;
    let supervisor = look(on, &prepared.supervisor.0).await;
    for half in [&workload, &supervisor] {
        let host = half.host_config.as_ref().unwrap();
        let process = half.state.as_ref().unwrap().pid.unwrap();
        let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
        for none in ["CapPrm", "CapEff", "CapBnd", "CapAmb"] {
            assert!(
                status.contains(&format!("{none}:\t0000000000000000\n")),
                "{status}"
            );
        }
        assert!(status.contains("NoNewPrivs:\t1\n"), "{status}");
        assert_eq!(host.privileged, Some(false));
        assert_eq!(
            host.security_opt.as_deref(),
            Some(&["no-new-privileges".to_owned()][..])
        );
        let restart = host.restart_policy.as_ref().unwrap().name;
        assert_eq!(restart, Some(RestartPolicyNameEnum::NO));
        let binds = host.binds.as_deref().unwrap_or_default();
        assert!(
            binds.iter().all(|bind| !bind.starts_with('/')),
            "no path of the host is mounted: {binds:?}"
        );
        let shares = host.pid_mode.as_deref();
        assert!(matches!(shares, Some("" | "private")), "{shares:?}");
        assert_eq!(half.config.as_ref().unwrap().tty, Some(false));
    }
    let (config, host) = (workload.config.unwrap(), workload.host_config.unwrap());
    assert_eq!(host.network_mode.as_deref(), Some("none"));
    assert_eq!(config.user.as_deref(), Some("1000:1000"));
    assert_eq!(
        config.entrypoint.unwrap(),
        ["/.openshell/bin/openshell-sandbox"]
    );
    assert_eq!(config.cmd.unwrap_or_default(), Vec::<String>::new());
    assert_eq!(config.working_dir.as_deref(), Some("/sandbox"));
    assert_eq!(
        (host.memory, host.memory_swap),
        (Some(64 << 20), Some(64 << 20))
    );
    assert_eq!(
        (host.nano_cpus, host.pids_limit),
        (Some(500_000_000), Some(77))
    );
    let labels = config.labels.unwrap();
    assert_eq!(labels["openshell.ai/sandbox-name"], "posture");
    assert_eq!(labels["openshell.ai/isolation-role"], "sandbox");
    assert_eq!(
        workload.name.unwrap(),
        format!(
            "/openshell-{}--posture-{}",
            world.config.namespace, request.sandbox
        )
    );
    let (config, host) = (supervisor.config.unwrap(), supervisor.host_config.unwrap());
    assert_eq!(host.network_mode.as_deref(), Some("host"));
    assert_eq!(host.readonly_rootfs, Some(true));
    assert_eq!(config.user.as_deref(), Some("65532:65532"));
    assert_eq!(config.labels.unwrap()["openshell.ai/generation"], "1");

    world
        .driver
        .remove(&permit(&request), &Containers::default())
        .await
        .unwrap();
    world.end().await;
}

on_every_engine! {
    a_running_pair_has_no_network_no_capability_no_root_and_its_limits,
}
