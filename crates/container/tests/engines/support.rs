//! A real engine for the tests: a namespace of its own for each test, an image made from nothing, a stand-in for
//! both halves, and a census. There is nothing to skip: without an engine the tests fail.
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::StreamExt;
use openshell_container::api::ApiDriver;
use openshell_container::archive::{ROOT, Writer};
use openshell_container::binary::Binary;
use openshell_container::engine::Engine;
use openshell_container::labels::of_namespace;
use openshell_container::{ContainerConfig, ImagePullPolicy};
use openshell_core::bootstrap::{SandboxBootstrap, SupervisorBootstrap};
use openshell_core::engine::Sockets;
use openshell_core::{
    ContainerId, Generation, ImageRef, SandboxId, SandboxName, SandboxSpec, WorkspaceName,
};
use openshell_lifecycle::ComputeDriver;
use openshell_lifecycle::driver::{
    ByteStream, DriverError, Launched, Permit, Prepared, RunRequest,
};
use tokio::sync::mpsc;

/// The image of most tests: nothing but an empty directory, user 1000:1000.
pub(crate) const IMAGE: &str = "openshell-test/nothing:1";

/// Which engine a test runs on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum On {
    Docker,
    Podman,
}

impl On {
    /// As its client is called.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Docker => "docker",
            Self::Podman => "podman",
        }
    }

    /// The engine that the tests may use.
    pub(crate) fn socket(self) -> PathBuf {
        let variable = format!("OPENSHELL_TEST_{}_HOST", self.name().to_uppercase());
        let host = std::env::var(&variable).unwrap_or_else(|_| {
            panic!("{variable} is not set: use `cargo xtask test` or `cargo xtask with-engine`")
        });
        PathBuf::from(host.trim_start_matches("unix://"))
    }

    /// Its driver, speaking to this socket.
    pub(crate) fn connect(
        self,
        socket: &Path,
        config: ContainerConfig,
    ) -> Result<ApiDriver, DriverError> {
        let sockets = Sockets::at(socket);
        match self {
            Self::Docker => openshell_driver_docker::connect(sockets, config),
            Self::Podman => openshell_driver_podman::connect(sockets, config),
        }
    }

    /// The engine as somebody else uses it.
    pub(crate) fn stranger(self) -> bollard::Docker {
        let version = bollard::ClientVersion {
            major_version: 1,
            minor_version: 41,
        };
        bollard::Docker::connect_with_unix(&self.socket().to_string_lossy(), 60, &version).unwrap()
    }
}

/// Compiles the stand-in once for all test processes.
pub(crate) fn helper() -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/engines/helper.rs");
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("openshell-stand-in");
    let modified = |path: &Path| path.metadata().and_then(|m| m.modified()).ok();
    if modified(&target) >= modified(&source) {
        return target;
    }
    // The compiler's intermediate files lie beside its output.
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let fresh = directory.path().join("stand-in");
    let rustc = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".to_owned());
    let status = Command::new(rustc)
        .args([
            "--edition",
            "2024",
            "-O",
            "-C",
            "target-feature=+crt-static",
        ])
        .args(["-C", "strip=symbols", "-C", "panic=abort", "-o"])
        .arg(&fresh)
        .arg(&source)
        .status()
        .expect("rustc runs");
    assert!(status.success(), "the stand-in compiles");
    std::fs::rename(&fresh, &target).expect("the stand-in is put in place");
    target
}

/// One gateway's worth of the engine.
pub(crate) struct World {
    pub(crate) driver: Arc<ApiDriver>,
    pub(crate) config: ContainerConfig,
}

impl World {
    pub(crate) async fn new(on: On) -> Self {
        Self::with(on, |_| {}).await
    }

    pub(crate) async fn with(on: On, change: impl FnOnce(&mut ContainerConfig)) -> Self {
        Self::at(on, &on.socket(), change).await
    }

    /// Reached through this socket.
    pub(crate) async fn at(
        on: On,
        socket: &Path,
        change: impl FnOnce(&mut ContainerConfig),
    ) -> Self {
        let unique = uuid::Uuid::new_v4().simple().to_string();
        let mut config =
            ContainerConfig::new(format!("test-{}", &unique[..12]), helper(), helper());
        config.default_image = ImageRef(IMAGE.to_owned());
        config.image_pull_policy = ImagePullPolicy::Never;
        change(&mut config);
        let driver = on
            .connect(socket, config.clone())
            .expect("the driver is made");
        let world = Self {
            driver: Arc::new(driver),
            config,
        };
        world.image(IMAGE, "1000:1000", "amd64", &[]).await;
        world
    }

    /// Loads an image that holds just these files.
    pub(crate) async fn image(&self, tag: &str, user: &str, arch: &str, files: &[(&str, &str)]) {
        let known = self.driver.engine().inspect_image(tag).await;
        if known.expect("an engine answers").is_some() {
            return;
        }
        let mut layer = Writer::default();
        layer.directory("etc", 0o755, ROOT).unwrap();
        for (path, text) in files {
            layer.file(path, 0o644, ROOT, text.as_bytes()).unwrap();
        }
        let layer = layer.finish();
        let diff = sha256(&layer);
        let config = serde_json::json!({
            "architecture": if arch == "amd64" { host_architecture() } else { arch },
            "os": "linux",
            "config": { "User": user, "Cmd": ["/never"], "Labels": { "openshell.ai/test": "image" } },
            "rootfs": { "type": "layers", "diff_ids": [format!("sha256:{diff}")] },
        });
        let manifest = serde_json::json!([{ "Config": "config.json", "RepoTags": [tag], "Layers": ["layer.tar"] }]);
        let saved = Writer::default()
            .file(
                "manifest.json",
                0o644,
                ROOT,
                manifest.to_string().as_bytes(),
            )
            .unwrap()
            .file("config.json", 0o644, ROOT, config.to_string().as_bytes())
            .unwrap()
            .file("layer.tar", 0o644, ROOT, &layer)
            .unwrap()
            .finish();
        self.driver
            .engine()
            .load_image(whole(saved))
            .await
            .expect("the test image is loaded");
    }

    pub(crate) fn request(&self, name: &str, order: &str) -> RunRequest {
        let sandbox = SandboxId::random();
        let generation = Generation(1);
        RunRequest {
            sandbox,
            name: SandboxName::new(name).unwrap(),
            workspace: WorkspaceName::default_workspace(),
            generation,
            spec: Arc::new(SandboxSpec::default()),
            existing_workload: None,
            sandbox_bootstrap: SandboxBootstrap {
                sandbox_id: sandbox,
                generation,
                gateway_public_key: String::new(),
                link_secret: order.to_owned(),
                supervisor_uid: 0,
                stop_grace_millis: 1000,
            },
            supervisor_bootstrap: SupervisorBootstrap {
                sandbox_id: sandbox,
                sandbox_name: name.to_owned(),
                generation,
                gateway_endpoint: String::new(),
                gateway_ca_pem: String::new(),
                gateway_token: String::new(),
                sandbox_token: String::new(),
                link_secret: "run".to_owned(),
                workload_uid: 0,
                stop_grace_millis: 1000,
            },
        }
    }

    /// Prepares and launches.
    pub(crate) async fn run(&self, request: &RunRequest) -> (Prepared, Launched) {
        let permit = permit(request);
        let (progress, _lines) = mpsc::channel(16);
        let image = request
            .spec
            .image
            .clone()
            .unwrap_or(ImageRef(IMAGE.to_owned()));
        self.driver
            .prepare_image(&permit, &image, progress)
            .await
            .expect("the image is there");
        let prepared = self
            .driver
            .prepare_run(&permit, request)
            .await
            .expect("the run is prepared");
        let launched = self
            .driver
            .launch(&permit, &prepared)
            .await
            .expect("the run is launched");
        (prepared, launched)
    }

    /// Everything of this namespace that the engine holds.
    pub(crate) async fn census(&self) -> Vec<String> {
        let labels = of_namespace(&self.config.namespace);
        let engine = self.driver.engine();
        let containers = engine.list_containers(&labels).await.unwrap();
        let volumes = engine.list_volumes(&labels).await.unwrap();
        let containers = containers
            .into_iter()
            .map(|c| format!("container {}", c.name));
        let volumes = volumes.into_iter().map(|v| format!("volume {}", v.name));
        containers.chain(volumes).collect()
    }

    /// Ends a test: whatever it made on purpose is removed, and nothing else may be there.
    pub(crate) async fn end(self) {
        assert_eq!(self.census().await, Vec::<String>::new(), "nothing is left");
    }
}

impl Drop for World {
    /// A failed test leaves nothing on the engine either.
    fn drop(&mut self) {
        let driver = Arc::clone(&self.driver);
        let labels = of_namespace(&self.config.namespace);
        let clean = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build();
            let Ok(runtime) = runtime else { return };
            runtime.block_on(async {
                let engine = driver.engine();
                for container in engine.list_containers(&labels).await.unwrap_or_default() {
                    let _ = engine.remove_container(&container.id).await;
                }
                for volume in engine.list_volumes(&labels).await.unwrap_or_default() {
                    let _ = engine.remove_volume(&volume.name).await;
                }
            });
        });
        let _ = clean.join();
    }
}

pub(crate) fn permit(request: &RunRequest) -> Permit {
    Permit::for_tests(request.sandbox, request.generation)
}

/// The same sandbox's next run, on the kept container.
pub(crate) fn next_run(request: &RunRequest, workload: &ContainerId) -> RunRequest {
    let mut next = request.clone();
    next.generation = request.generation.next();
    next.sandbox_bootstrap.generation = next.generation;
    next.supervisor_bootstrap.generation = next.generation;
    next.existing_workload = Some(workload.clone());
    next
}

pub(crate) fn whole(bytes: Bytes) -> ByteStream {
    Box::pin(futures_util::stream::iter([Ok(bytes)]))
}

pub(crate) async fn collect(mut stream: ByteStream) -> Result<Vec<u8>, DriverError> {
    let mut all = Vec::new();
    while let Some(chunk) = stream.next().await {
        all.extend_from_slice(&chunk?);
    }
    Ok(all)
}

/// Path, owner, mode and text of every member.
pub(crate) fn members(archive: &[u8]) -> Vec<(String, u64, u64, u32)> {
    let mut archive = tar::Archive::new(archive);
    let entries = archive.entries().unwrap();
    entries
        .map(|entry| {
            let entry = entry.unwrap();
            let header = entry.header();
            (
                entry
                    .path()
                    .unwrap()
                    .to_string_lossy()
                    .trim_end_matches('/')
                    .to_owned(),
                header.uid().unwrap(),
                header.gid().unwrap(),
                header.mode().unwrap() & 0o7777,
            )
        })
        .collect()
}

/// Waits until something is so.
pub(crate) async fn until<F: Future<Output = bool>>(what: &str, mut check: impl FnMut() -> F) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !check().await {
        assert!(Instant::now() < deadline, "not within 20 s: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn host_architecture() -> &'static str {
    Binary::open(&helper()).unwrap().architecture()
}

fn sha256(bytes: &[u8]) -> String {
    use std::io::Write;
    let mut child = Command::new("sha256sum")
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("sha256sum runs");
    child.stdin.take().unwrap().write_all(bytes).unwrap();
    let output = child.wait_with_output().unwrap();
    String::from_utf8(output.stdout).unwrap()[..64].to_owned()
}
