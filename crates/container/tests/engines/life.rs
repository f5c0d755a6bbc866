//! A run on a real engine: made, started, waited for, stopped, started again, removed.

use std::time::{Duration, Instant};

use crate::support::{On, World, collect, members, next_run, permit};
use openshell_container::engine::Engine;
use openshell_lifecycle::ComputeDriver;
use openshell_lifecycle::driver::{
    Containers, DriverErrorKind, Role, Sighting, StopOutcome, WaitOutcome,
};

fn containers(prepared: &openshell_lifecycle::driver::Prepared) -> Containers {
    Containers {
        workload: Some(prepared.workload.clone()),
        supervisor: Some(prepared.supervisor.clone()),
    }
}

async fn a_run_starts_with_both_halves_and_a_removal_leaves_nothing_l13(on: On) {
    let world = World::new(on).await;
    let request = world.request("whole", "run");
    let (prepared, launched) = world.run(&request).await;
    assert_eq!(prepared.workload, launched.workload.container);
    for incarnation in [&launched.workload, &launched.supervisor] {
        let seen = world.driver.inspect(&incarnation.container).await.unwrap();
        assert_eq!(seen, Sighting::Running((*incarnation).clone()));
    }
    let owned = world.driver.list_owned().await.unwrap();
    assert_eq!(owned.len(), 2);
    assert!(
        owned
            .iter()
            .all(|o| o.sandbox == request.sandbox && o.running)
    );
    let supervisor = owned.iter().find(|o| o.role == Role::Supervisor).unwrap();
    assert_eq!(supervisor.generation, Some(request.generation));
    // Both stand-ins check what they were promised, and end if it is not so.
    crate::support::until("the workload has written its file", || async {
        let path = std::path::Path::new("/sandbox/started");
        world
            .driver
            .read_archive(&prepared.workload, path)
            .await
            .is_ok()
    })
    .await;
    let seen = world.driver.inspect(&prepared.supervisor).await.unwrap();
    assert_eq!(seen, Sighting::Running(launched.supervisor));

    let permit = permit(&request);
    world
        .driver
        .remove(&permit, &containers(&prepared))
        .await
        .unwrap();
    let gone = world.driver.inspect(&prepared.workload).await.unwrap();
    assert_eq!(gone, Sighting::Missing(prepared.engine.clone()));
    // Again, with nothing there.
    world
        .driver
        .remove(&permit, &containers(&prepared))
        .await
        .unwrap();
    world.end().await;
}

async fn an_exit_code_is_the_engines_and_belongs_to_one_incarnation_l3(on: On) {
    let world = World::new(on).await;
    let request = world.request("seventeen", "exit:17");
    let (prepared, launched) = world.run(&request).await;
    let WaitOutcome::Exited(ended, exit) = world.driver.wait(&launched.workload).await else {
        panic!("the wait tells the exit")
    };
    assert_eq!(ended, launched.workload);
    assert_eq!(exit.code, 17);
    assert!(!exit.oom_killed && exit.finished_at >= ended.started_at);
    let permit1 = permit(&request);
    world
        .driver
        .remove_supervisor(&permit1, &prepared.supervisor)
        .await
        .unwrap();

    // The next run keeps the container, and is another incarnation of it.
    let next = next_run(&request, &prepared.workload);
    let (prepared2, launched2) = world.run(&next).await;
    assert_eq!(prepared2.workload, prepared.workload);
    assert_ne!(launched2.workload.started_at, launched.workload.started_at);
    assert_ne!(prepared2.supervisor, prepared.supervisor);
    assert_eq!(
        world.driver.wait(&launched.workload).await,
        WaitOutcome::Superseded
    );
    assert!(matches!(
        world.driver.wait(&launched2.workload).await,
        WaitOutcome::Exited(ended, _) if ended == launched2.workload
    ));
    world
        .driver
        .remove(&permit1, &containers(&prepared2))
        .await
        .unwrap();
    assert_eq!(
        world.driver.wait(&launched2.workload).await,
        WaitOutcome::Superseded
    );
    world.end().await;
}

async fn a_stop_takes_the_grace_and_no_more_and_is_confirmed_l6(on: On) {
    let world = World::new(on).await;
    let request = world.request("stubborn", "run");
    let (prepared, launched) = world.run(&request).await;
    let permit = permit(&request);
    let begun = Instant::now();
    let outcome = world
        .driver
        .stop(&permit, &prepared.workload, Duration::from_secs(1))
        .await
        .unwrap();
    // Far from the engine's own 10 s, on however busy a machine.
    let took = begun.elapsed();
    let StopOutcome::NotRunning(exit) = outcome else {
        panic!("{outcome:?}")
    };
    assert_eq!(exit.code, 137);
    assert!(
        took >= Duration::from_secs(1) && took < Duration::from_secs(8),
        "{took:?}"
    );
    // Stopping what is stopped is success, with the same answer.
    let again = world
        .driver
        .stop(&permit, &prepared.workload, Duration::ZERO)
        .await
        .unwrap();
    assert_eq!(again, StopOutcome::NotRunning(exit.clone()));
    assert_eq!(
        world.driver.inspect(&prepared.workload).await.unwrap(),
        Sighting::Exited(launched.workload.clone(), exit)
    );
    // A grace of zero kills at once.
    let begun = Instant::now();
    let killed = world
        .driver
        .stop(&permit, &prepared.supervisor, Duration::ZERO)
        .await
        .unwrap();
    assert!(matches!(killed, StopOutcome::NotRunning(_)));
    assert!(begun.elapsed() < Duration::from_secs(8));
    world
        .driver
        .remove(&permit, &containers(&prepared))
        .await
        .unwrap();
    let gone = world
        .driver
        .stop(&permit, &prepared.workload, Duration::ZERO)
        .await
        .unwrap();
    assert_eq!(gone, StopOutcome::Missing);
    world.end().await;
}

async fn what_was_never_started_is_told_apart(on: On) {
    let world = World::new(on).await;
    let request = world.request("unborn", "run");
    let permit = permit(&request);
    let (progress, _lines) = tokio::sync::mpsc::channel(4);
    let image = world.config.default_image.clone();
    world
        .driver
        .prepare_image(&permit, &image, progress)
        .await
        .unwrap();
    let prepared = world.driver.prepare_run(&permit, &request).await.unwrap();
    assert_eq!(
        world.driver.inspect(&prepared.workload).await.unwrap(),
        Sighting::Created
    );
    let stopped = world
        .driver
        .stop(&permit, &prepared.workload, Duration::from_secs(1))
        .await
        .unwrap();
    assert_eq!(stopped, StopOutcome::NeverStarted);
    // An attempt whose record was lost is replaced, not tripped over.
    let again = world.driver.prepare_run(&permit, &request).await.unwrap();
    assert_ne!(again.workload, prepared.workload);
    assert_eq!(world.driver.list_owned().await.unwrap().len(), 2);
    world
        .driver
        .remove(&permit, &Containers::default())
        .await
        .unwrap();
    world.end().await;
}

async fn a_container_that_somebody_removed_is_missing_not_made_anew(on: On) {
    let world = World::new(on).await;
    let request = world.request("robbed", "exit:0");
    let (prepared, _) = world.run(&request).await;
    let permit = permit(&request);
    world
        .driver
        .engine()
        .remove_container(&prepared.workload)
        .await
        .unwrap();
    let next = next_run(&request, &prepared.workload);
    let permit2 = crate::support::permit(&next);
    let error = world.driver.prepare_run(&permit2, &next).await.unwrap_err();
    assert_eq!(error.kind, DriverErrorKind::RuntimeMissing, "{error}");
    // The files are still there for a new container.
    let mut fresh = next.clone();
    fresh.existing_workload = None;
    let prepared = world.driver.prepare_run(&permit2, &fresh).await.unwrap();
    let path = std::path::Path::new("/sandbox/started");
    assert!(
        world
            .driver
            .read_archive(&prepared.workload, path)
            .await
            .is_ok()
    );
    world
        .driver
        .remove(&permit, &containers(&prepared))
        .await
        .unwrap();
    world.end().await;
}

async fn files_belong_to_the_workloads_user_whoever_sent_them(on: On) {
    let world = World::new(on).await;
    let request = world.request("files", "run");
    let (prepared, _) = world.run(&request).await;
    let permit = permit(&request);
    let sent = openshell_container::archive::Writer::default()
        .directory(
            "d",
            0o755,
            openshell_container::identity::UserIds { uid: 4711, gid: 0 },
        )
        .unwrap()
        .file(
            "d/f",
            0o640,
            openshell_container::identity::UserIds { uid: 0, gid: 99 },
            b"hello",
        )
        .unwrap()
        .finish();
    let sandbox = std::path::Path::new("/sandbox");
    world
        .driver
        .write_archive(
            &permit,
            &prepared.workload,
            sandbox,
            crate::support::whole(sent),
        )
        .await
        .unwrap();
    let read = world
        .driver
        .read_archive(&prepared.workload, &sandbox.join("d"))
        .await
        .unwrap();
    let read = collect(read).await.unwrap();
    assert_eq!(
        members(&read),
        [
            ("d".to_owned(), 1000, 1000, 0o755),
            ("d/f".to_owned(), 1000, 1000, 0o640)
        ]
    );
    // The workspace itself, too.
    let root = world
        .driver
        .read_archive(&prepared.workload, sandbox)
        .await
        .unwrap();
    assert_eq!(members(&collect(root).await.unwrap())[0].1, 1000);

    for (path, kind) in [
        ("/sandbox/nothing-here", DriverErrorKind::PathMissing),
        ("/.openshell/boot", DriverErrorKind::Invalid),
        ("relative", DriverErrorKind::Invalid),
    ] {
        let refused = world
            .driver
            .read_archive(&prepared.workload, path.as_ref())
            .await;
        assert_eq!(refused.err().map(|e| e.kind), Some(kind), "{path}");
    }
    let cut = crate::support::whole(bytes::Bytes::from_static(&[7; 700]));
    let refused = world
        .driver
        .write_archive(&permit, &prepared.workload, sandbox, cut)
        .await;
    assert_eq!(refused.unwrap_err().kind, DriverErrorKind::Invalid);
    world
        .driver
        .remove(&permit, &containers(&prepared))
        .await
        .unwrap();
    let gone = world
        .driver
        .read_archive(&prepared.workload, sandbox)
        .await
        .err()
        .unwrap();
    assert_eq!(gone.kind, DriverErrorKind::RuntimeMissing);
    world.end().await;
}

async fn what_an_interrupted_attempt_left_is_found_again_l13(on: On) {
    let world = World::new(on).await;
    let request = world.request("cut-short", "run");
    let engine = world.driver.engine();
    let namespace = &world.config.namespace;
    let probe = openshell_container::plan::probe(
        namespace,
        request.sandbox,
        crate::support::IMAGE,
        "leftover",
    );
    let probe = engine.create_container(&probe).await.unwrap();
    let identity = openshell_container::labels::Identity {
        namespace: namespace.clone(),
        sandbox: request.sandbox,
        name: request.name.clone(),
        workspace: request.workspace.clone(),
    };
    let labels = identity.labels(Role::Workload);
    engine
        .create_volume(&identity.link_volume(), &labels)
        .await
        .unwrap();
    let earlier = openshell_container::plan::supervisor(
        &openshell_container::labels::Identity {
            namespace: namespace.clone(),
            sandbox: request.sandbox,
            name: request.name.clone(),
            workspace: request.workspace.clone(),
        },
        request.generation.next(),
        crate::support::IMAGE,
        openshell_container::Network::None,
    );
    let earlier = engine.create_container(&earlier).await.unwrap();
    let listed = world.driver.list_owned().await.unwrap();
    assert_eq!(listed.len(), 1, "a probe is nobody's half");
    // Another attempt at the same run starts from a clean place; other runs are the fence's.
    let mut next = request.clone();
    next.generation = request.generation.next();
    world.run(&next).await;
    for gone in [&probe, &earlier] {
        let seen = engine.inspect_container(&gone.0).await.unwrap();
        assert_eq!(seen, None);
    }
    let permit = permit(&next);
    world
        .driver
        .remove(&permit, &Containers::default())
        .await
        .unwrap();
    world.end().await;
}

on_every_engine! {
    a_run_starts_with_both_halves_and_a_removal_leaves_nothing_l13,
    an_exit_code_is_the_engines_and_belongs_to_one_incarnation_l3,
    a_stop_takes_the_grace_and_no_more_and_is_confirmed_l6,
    what_was_never_started_is_told_apart,
    a_container_that_somebody_removed_is_missing_not_made_anew,
    files_belong_to_the_workloads_user_whoever_sent_them,
    what_an_interrupted_attempt_left_is_found_again_l13,
}
