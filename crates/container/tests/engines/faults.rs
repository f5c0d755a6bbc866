//! What goes wrong on a real engine that answers: a clear error of the right kind, nothing changed, nothing left.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use crate::support::{IMAGE, On, World, permit};
use bollard::models::{ContainerCreateBody, VolumeCreateRequest};
use bollard::query_parameters::{
    CreateContainerOptions, RemoveContainerOptions, RemoveImageOptions, RemoveVolumeOptions,
};
use openshell_container::ImagePullPolicy;
use openshell_container::engine::Engine;
use openshell_container::labels::{GENERATION, Identity, ROLE};
use openshell_core::quantity::MilliCpu;
use openshell_core::{ImageRef, SandboxSpec};
use openshell_lifecycle::ComputeDriver;
use openshell_lifecycle::driver::{Containers, DriverErrorKind, Role, RunRequest, Sighting};
use tokio::sync::mpsc;

async fn foreign_container(on: On, name: &str, labels: HashMap<String, String>) -> String {
    let options = CreateContainerOptions {
        name: Some(name.to_owned()),
        ..CreateContainerOptions::default()
    };
    let body = ContainerCreateBody {
        image: Some(IMAGE.to_owned()),
        labels: Some(labels),
        ..ContainerCreateBody::default()
    };
    on.stranger()
        .create_container(Some(options), body)
        .await
        .unwrap()
        .id
}

async fn remove_foreign(on: On, id: &str) {
    let options = RemoveContainerOptions {
        force: true,
        ..RemoveContainerOptions::default()
    };
    on.stranger()
        .remove_container(id, Some(options))
        .await
        .unwrap();
}

fn identity(world: &World, request: &RunRequest) -> Identity {
    Identity {
        namespace: world.config.namespace.clone(),
        sandbox: request.sandbox,
        name: request.name.clone(),
        workspace: request.workspace.clone(),
    }
}

fn with_image(request: &mut RunRequest, image: &str) {
    request.spec = Arc::new(SandboxSpec {
        image: Some(ImageRef(image.to_owned())),
        ..SandboxSpec::default()
    });
}

async fn prepare_image(
    world: &World,
    image: &str,
) -> Result<Vec<String>, openshell_lifecycle::DriverError> {
    let request = world.request("image", "run");
    let (progress, mut lines) = mpsc::channel(64);
    let outcome = world
        .driver
        .prepare_image(&permit(&request), &ImageRef(image.to_owned()), progress)
        .await;
    let mut told = Vec::new();
    while let Ok(line) = lines.try_recv() {
        told.push(line);
    }
    outcome.map(|()| told)
}

async fn a_taken_container_name_is_an_error_and_the_foreign_container_stays_l14(on: On) {
    let world = World::new(on).await;
    let request = world.request("taken", "run");
    let ours = identity(&world, &request);
    let foreign = foreign_container(on, &ours.workload_name(), HashMap::new()).await;
    prepare_image(&world, IMAGE).await.unwrap();
    let error = world
        .driver
        .prepare_run(&permit(&request), &request)
        .await
        .unwrap_err();
    assert_eq!(error.kind, DriverErrorKind::NameTaken, "{error}");
    assert!(error.message.contains(&ours.workload_name()), "{error}");
    assert!(
        world
            .driver
            .engine()
            .inspect_container(&foreign)
            .await
            .unwrap()
            .is_some()
    );
    // Not by a removal, either; and the failed attempt left nothing of its own.
    world
        .driver
        .remove(&permit(&request), &Containers::default())
        .await
        .unwrap();
    assert!(
        world
            .driver
            .engine()
            .inspect_container(&foreign)
            .await
            .unwrap()
            .is_some()
    );
    remove_foreign(on, &foreign).await;
    world.end().await;
}

async fn a_taken_volume_name_is_an_error_and_the_foreign_volume_stays_l14(on: On) {
    let world = World::new(on).await;
    let request = world.request("taken", "run");
    let name = identity(&world, &request).workspace_volume();
    let volume = VolumeCreateRequest {
        name: Some(name.clone()),
        ..VolumeCreateRequest::default()
    };
    on.stranger().create_volume(volume).await.unwrap();
    let error = world
        .driver
        .prepare_run(&permit(&request), &request)
        .await
        .unwrap_err();
    assert_eq!(error.kind, DriverErrorKind::NameTaken, "{error}");
    world
        .driver
        .remove(&permit(&request), &Containers::default())
        .await
        .unwrap();
    assert!(
        world
            .driver
            .engine()
            .inspect_volume(&name)
            .await
            .unwrap()
            .is_some()
    );
    on.stranger()
        .remove_volume(&name, None::<RemoveVolumeOptions>)
        .await
        .unwrap();
    world.end().await;
}

async fn copied_labels_make_nothing_ours_l14(on: On) {
    let world = World::new(on).await;
    let request = world.request("original", "run");
    let (prepared, _) = world.run(&request).await;
    let mut labels: HashMap<_, _> = identity(&world, &request)
        .labels(Role::Workload)
        .into_iter()
        .collect();
    let copy = foreign_container(on, &format!("copy-{}", request.sandbox), labels.clone()).await;
    labels.insert(ROLE.to_owned(), "supervisor".to_owned());
    labels.insert(GENERATION.to_owned(), "1".to_owned());
    let second = foreign_container(on, &format!("copy2-{}", request.sandbox), labels).await;
    assert_eq!(
        world.driver.list_owned().await.unwrap().len(),
        2,
        "not counted"
    );
    let recorded = Containers {
        workload: Some(prepared.workload),
        supervisor: Some(prepared.supervisor),
    };
    world
        .driver
        .remove(&permit(&request), &recorded)
        .await
        .unwrap();
    for id in [&copy, &second] {
        assert!(
            world
                .driver
                .engine()
                .inspect_container(id)
                .await
                .unwrap()
                .is_some()
        );
        remove_foreign(on, id).await;
    }
    world.end().await;
}

async fn an_image_that_cannot_be_had_or_run_is_refused_with_the_way_out(on: On) {
    let world = World::new(on).await;
    let cases = [
        (
            "openshell-test/absent:1",
            DriverErrorKind::ImagePull,
            on.name(),
        ),
        (
            "openshell-test/foreign:1",
            DriverErrorKind::ImageUnusable,
            "use an image for linux/",
        ),
        (
            "openshell-test/nobody:1",
            DriverErrorKind::ImageUnusable,
            "numeric USER",
        ),
        ("no such image", DriverErrorKind::Invalid, "debian:12"),
        (
            "../containers/json?all=1",
            DriverErrorKind::Invalid,
            "reference",
        ),
    ];
    world
        .image("openshell-test/foreign:1", "", "riscv64", &[])
        .await;
    world
        .image("openshell-test/nobody:1", "nobody-here", "amd64", &[])
        .await;
    for (image, kind, words) in cases {
        // Looking into an image makes a container, so that is left to the run, which is not given up half-way.
        match prepare_image(&world, image).await {
            Ok(_) => assert_eq!(words, "numeric USER", "{image}"),
            Err(error) => assert_eq!(error.kind, kind, "{image}: {error}"),
        }
        let mut request = world.request("bad", "run");
        with_image(&mut request, image);
        let error = world
            .driver
            .prepare_run(&permit(&request), &request)
            .await
            .unwrap_err();
        assert_eq!(error.kind, kind, "{image}: {error}");
        assert!(error.message.contains(words), "{image}: {error}");
    }
    world.end().await;
}

async fn a_pull_from_a_registry_that_cannot_be_reached_says_so(on: On) {
    let world = World::with(on, |config| {
        config.image_pull_policy = ImagePullPolicy::IfNotPresent;
    })
    .await;
    // Nothing listens on the discard port of loopback.
    let error = prepare_image(&world, "localhost:9/none:1")
        .await
        .unwrap_err();
    assert_eq!(error.kind, DriverErrorKind::ImagePull, "{error}");
    assert!(error.message.contains("localhost:9"), "{error}");
    world.end().await;
}

async fn a_named_image_user_becomes_numeric_and_root_becomes_1000(on: On) {
    let world = World::new(on).await;
    let passwd = "root:x:0:0::/:/x\nagent:x:1234:100::/:/x\nsneaky:x:0:0::/:/x\n";
    let files = [("etc/passwd", passwd), ("etc/group", "staff:x:50:\n")];
    for (tag, user, expected) in [
        ("openshell-test/user-agent:1", "agent", "1234:100"),
        ("openshell-test/user-staff:1", "agent:staff", "1234:50"),
        ("openshell-test/user-sneaky:1", "sneaky", "1000:1000"),
        ("openshell-test/user-root:1", "root", "1000:1000"),
        ("openshell-test/user-none:1", "", "1000:1000"),
    ] {
        world.image(tag, user, "amd64", &files).await;
        let mut request = world.request("user", "run");
        with_image(&mut request, tag);
        let (prepared, launched) = world.run(&request).await;
        let facts = world
            .driver
            .engine()
            .inspect_container(&prepared.workload.0)
            .await
            .unwrap()
            .unwrap();
        assert_eq!(facts.user, expected, "{tag}");
        // The stand-in could read its bootstrap and write its workspace as that user.
        let path = Path::new("/sandbox/started");
        crate::support::until("the workload has written its file", || async {
            world
                .driver
                .read_archive(&prepared.workload, path)
                .await
                .is_ok()
        })
        .await;
        let seen = world.driver.inspect(&prepared.workload).await.unwrap();
        assert_eq!(seen, Sighting::Running(launched.workload));
        world
            .driver
            .remove(&permit(&request), &Containers::default())
            .await
            .unwrap();
    }
    world.end().await;
}

async fn a_step_that_fails_is_undone_l13(on: On) {
    let world = World::new(on).await;
    prepare_image(&world, IMAGE).await.unwrap();
    let mut request = world.request("greedy", "run");
    let mut spec = SandboxSpec::default();
    spec.resources.cpu = Some(MilliCpu(1_000_000));
    request.spec = Arc::new(spec);
    let error = world
        .driver
        .prepare_run(&permit(&request), &request)
        .await
        .unwrap_err();
    assert_eq!(error.kind, DriverErrorKind::Invalid, "{error}");
    assert_eq!(world.census().await, Vec::<String>::new());
    world.end().await;
}

async fn a_pruned_supervisor_image_is_simply_loaded_again(on: On) {
    // A stand-in of its own, so that no other test misses its image.
    let own = tempfile::NamedTempFile::new().unwrap();
    let mut bytes = std::fs::read(crate::support::helper()).unwrap();
    bytes.extend_from_slice(uuid::Uuid::new_v4().as_bytes());
    std::fs::write(own.path(), bytes).unwrap();
    let world = World::with(on, |config| {
        config.supervisor_binary = own.path().to_owned();
    })
    .await;
    prepare_image(&world, IMAGE).await.unwrap();
    let tag = world.driver.supervisor_image().to_owned();
    let prune = || async {
        on.stranger()
            .remove_image(&tag, None::<RemoveImageOptions>, None)
            .await
            .unwrap();
    };
    prune().await;
    let request = world.request("pruned", "run");
    // Pruned between the two steps.
    world
        .driver
        .prepare_run(&permit(&request), &request)
        .await
        .unwrap();
    world
        .driver
        .remove(&permit(&request), &Containers::default())
        .await
        .unwrap();
    prune().await;
    prepare_image(&world, IMAGE).await.unwrap();
    prune().await;
    world.end().await;
}

async fn a_launch_that_fails_leaves_neither_half_running(on: On) {
    let world = World::new(on).await;
    let request = world.request("half", "run");
    let permit = permit(&request);
    prepare_image(&world, IMAGE).await.unwrap();
    let prepared = world.driver.prepare_run(&permit, &request).await.unwrap();
    world
        .driver
        .engine()
        .remove_container(&prepared.supervisor)
        .await
        .unwrap();
    let error = world.driver.launch(&permit, &prepared).await.unwrap_err();
    assert_eq!(error.kind, DriverErrorKind::RuntimeMissing, "{error}");
    let seen = world.driver.inspect(&prepared.workload).await.unwrap();
    assert!(matches!(seen, Sighting::Exited(..)), "{seen:?}");
    world
        .driver
        .remove(&permit, &Containers::default())
        .await
        .unwrap();
    world.end().await;
}

on_every_engine! {
    a_taken_container_name_is_an_error_and_the_foreign_container_stays_l14,
    a_taken_volume_name_is_an_error_and_the_foreign_volume_stays_l14,
    copied_labels_make_nothing_ours_l14,
    an_image_that_cannot_be_had_or_run_is_refused_with_the_way_out,
    a_pull_from_a_registry_that_cannot_be_reached_says_so,
    a_named_image_user_becomes_numeric_and_root_becomes_1000,
    a_step_that_fails_is_undone_l13,
    a_pruned_supervisor_image_is_simply_loaded_again,
    a_launch_that_fails_leaves_neither_half_running,
}
