//! An engine that goes away: what was asked is unknown and never an exit, and it may come back.

use std::sync::Arc;
use std::time::Duration;

use crate::support::{On, World, permit};
use openshell_lifecycle::ComputeDriver;
use openshell_lifecycle::driver::{
    Containers, DriverErrorKind, EngineEventKind, EngineSignal, Role, Sighting, WaitOutcome,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinSet;

/// A relay to the engine whose connections can be cut.
struct Relay {
    on: On,
    path: std::path::PathBuf,
    task: tokio::task::JoinHandle<()>,
    /// Told when a wait has been passed on.
    wait_seen: Arc<Notify>,
    _directory: tempfile::TempDir,
}

impl Relay {
    fn new(on: On) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("engine.sock");
        let mut relay = Self {
            on,
            path,
            task: tokio::spawn(async {}),
            wait_seen: Arc::default(),
            _directory: directory,
        };
        relay.open();
        relay
    }

    fn open(&mut self) {
        let _ = std::fs::remove_file(&self.path);
        let listener = UnixListener::bind(&self.path).unwrap();
        let engine = self.on.socket();
        let wait_seen = Arc::clone(&self.wait_seen);
        self.task = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((mut near, _)) = listener.accept().await {
                let engine = engine.clone();
                let wait_seen = Arc::clone(&wait_seen);
                connections.spawn(async move {
                    let mut far = UnixStream::connect(engine).await?;
                    let mut start = vec![0; 4096];
                    let n = near.read(&mut start).await?;
                    far.write_all(&start[..n]).await?;
                    if start[..n].windows(6).any(|w| w == b"/wait?") {
                        wait_seen.notify_one();
                    }
                    tokio::io::copy_bidirectional(&mut near, &mut far).await
                });
            }
        });
    }

    /// Cuts every connection; the socket stays, and refuses.
    async fn cut(&mut self) {
        self.task.abort();
        let _ = (&mut self.task).await;
    }
}

async fn a_broken_wait_is_lost_and_never_an_exit_l4(on: On) {
    let mut relay = Relay::new(on);
    let world = World::at(on, &relay.path, |_| {}).await;
    let request = world.request("cut", "run");
    let (prepared, launched) = world.run(&request).await;
    let driver = Arc::clone(&world.driver);
    let workload = launched.workload.clone();
    let waiting = tokio::spawn(async move { driver.wait(&workload).await });
    tokio::time::timeout(Duration::from_secs(20), relay.wait_seen.notified())
        .await
        .expect("the wait reaches the engine");
    relay.cut().await;
    let outcome = waiting.await.unwrap();
    assert!(matches!(outcome, WaitOutcome::Lost(_)), "{outcome:?}");
    let error = world.driver.inspect(&prepared.workload).await.unwrap_err();
    assert_eq!(error.kind, DriverErrorKind::Unreachable);
    assert!(error.message.contains("nothing listens"), "{error}");
    relay.open();
    assert_eq!(
        world.driver.inspect(&prepared.workload).await.unwrap(),
        Sighting::Running(launched.workload)
    );
    world
        .driver
        .remove(&permit(&request), &Containers::default())
        .await
        .unwrap();
    world.end().await;
}

async fn a_watch_tells_of_ends_and_of_its_own_loss_and_comes_back(on: On) {
    let mut relay = Relay::new(on);
    let world = World::at(on, &relay.path, |_| {}).await;
    let (sender, mut signals) = mpsc::channel(64);
    let driver = Arc::clone(&world.driver);
    let watch = tokio::spawn(async move { driver.watch(sender).await });
    let mut next = async || {
        tokio::time::timeout(Duration::from_secs(20), signals.recv())
            .await
            .unwrap()
            .unwrap()
    };
    let EngineSignal::Connected(engine) = next().await else {
        panic!("first of all it says who answers")
    };
    let request = world.request("watched", "exit:3");
    let (prepared, _) = world.run(&request).await;
    assert_eq!(prepared.engine, engine);
    loop {
        if let EngineSignal::Event(event) = next().await
            && let EngineEventKind::Died { code } = event.kind
        {
            assert_eq!(
                (event.sandbox, event.role, code),
                (request.sandbox, Role::Workload, 3)
            );
            assert_eq!(event.container, prepared.workload);
            break;
        }
    }
    relay.cut().await;
    loop {
        match next().await {
            EngineSignal::MonitorLost(_) => break,
            EngineSignal::Event(_) => {}
            EngineSignal::Connected(_) => panic!("nothing is there to connect to"),
        }
    }
    relay.open();
    assert_eq!(next().await, EngineSignal::Connected(engine));
    world
        .driver
        .remove(&permit(&request), &Containers::default())
        .await
        .unwrap();
    loop {
        if let EngineSignal::Event(event) = next().await
            && event.kind == EngineEventKind::Removed
            && event.role == Role::Workload
        {
            break;
        }
    }
    drop(signals);
    tokio::time::timeout(Duration::from_secs(5), watch)
        .await
        .unwrap()
        .unwrap();
    world.end().await;
}

async fn an_engine_that_is_down_is_unreachable_with_what_to_do_and_may_come_later(on: On) {
    let mut relay = Relay::new(on);
    relay.cut().await;
    let directory = tempfile::tempdir().unwrap();
    for (socket, words) in [
        (relay.path.clone(), "nothing listens"),
        (directory.path().join("none.sock"), "there is no socket"),
    ] {
        let config = openshell_container::ContainerConfig::new(
            "down",
            crate::support::helper(),
            crate::support::helper(),
        );
        let driver = on
            .connect(&socket, config)
            .expect("being down is no reason to fail");
        let error = driver.info().await.unwrap_err();
        assert_eq!(error.kind, DriverErrorKind::Unreachable);
        assert!(error.message.contains(words), "{error}");
        if socket == relay.path {
            relay.open();
            assert_eq!(driver.info().await.unwrap().driver, on.name());
        }
    }
}

on_every_engine! {
    a_broken_wait_is_lost_and_never_an_exit_l4,
    a_watch_tells_of_ends_and_of_its_own_loss_and_comes_back,
    an_engine_that_is_down_is_unreachable_with_what_to_do_and_may_come_later,
}
