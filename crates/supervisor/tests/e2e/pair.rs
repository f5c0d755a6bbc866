//! A gateway, a supervisor and a sandbox of one run, wired together.

use std::path::PathBuf;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use openshell_core::bootstrap::SupervisorBootstrap;
use openshell_core::token::{Audience, Claims, Signer};
use openshell_core::{Generation, SandboxId};
use openshell_supervisor::{Outcome, Settings, Timings, run};
use tempfile::TempDir;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::gateway::Gateway;
use crate::sandbox::{FakeSandbox, Posture};

/// Whatever is waited for happens within this.
pub(crate) const WITHIN: Duration = Duration::from_secs(20);
pub(crate) const SECRET: [u8; 32] = [7; 32];

/// The identities and keys of a run.
pub(crate) struct World {
    pub(crate) signer: Signer,
    pub(crate) sandbox: SandboxId,
    pub(crate) generation: Generation,
    pub(crate) directory: TempDir,
    pub(crate) timings: Timings,
}

impl World {
    pub(crate) fn new() -> Self {
        let key = Signer::generate_pkcs8().unwrap();
        Self {
            signer: Signer::from_pkcs8(&key).unwrap(),
            sandbox: SandboxId::random(),
            generation: Generation(3),
            directory: TempDir::new().unwrap(),
            timings: Timings::default(),
        }
    }

    pub(crate) fn token(
        &self,
        aud: Audience,
        sandbox: SandboxId,
        generation: Generation,
    ) -> String {
        let claims = Claims {
            iss: "openshell-gateway:test".to_owned(),
            aud,
            sandbox_id: sandbox,
            generation,
            iat: 0,
            exp: 0,
            jti: uuid::Uuid::new_v4().to_string(),
        };
        self.signer.sign(&claims).unwrap()
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.directory
            .path()
            .join(format!("{}.sock", self.generation))
    }

    pub(crate) fn bootstrap(&self, endpoint: &str) -> SupervisorBootstrap {
        SupervisorBootstrap {
            sandbox_id: self.sandbox,
            sandbox_name: "test".to_owned(),
            generation: self.generation,
            gateway_endpoint: endpoint.to_owned(),
            gateway_ca_pem: String::new(),
            gateway_token: self.token(Audience::Gateway, self.sandbox, self.generation),
            sandbox_token: self.token(Audience::Sandbox, self.sandbox, self.generation),
            link_secret: STANDARD.encode(SECRET),
            workload_uid: rustix::process::getuid().as_raw(),
            stop_grace_millis: 1000,
        }
    }

    pub(crate) fn supervise(&self, bootstrap: SupervisorBootstrap) -> Supervisor {
        let mut settings = Settings::new(bootstrap)
            .unwrap()
            .with_link_directory(self.directory.path());
        settings.timings = self.timings;
        let term = CancellationToken::new();
        let shutdown = term.clone().cancelled_owned();
        let task = tokio::spawn(async move { run(settings, shutdown).await.unwrap() });
        Supervisor { term, task }
    }

    pub(crate) fn sandbox(&self) -> FakeSandbox {
        FakeSandbox::new(self, Posture::Complete, SECRET)
    }
}

/// A supervisor at work.
pub(crate) struct Supervisor {
    pub(crate) term: CancellationToken,
    task: JoinHandle<Outcome>,
}

impl Supervisor {
    pub(crate) async fn ended(&mut self) -> Outcome {
        within("the supervisor ends", &mut self.task).await.unwrap()
    }

    pub(crate) fn running(&self) -> bool {
        !self.task.is_finished()
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// All three.
pub(crate) struct Pair {
    pub(crate) world: World,
    pub(crate) gateway: Gateway,
    pub(crate) supervisor: Supervisor,
    pub(crate) sandbox: FakeSandbox,
}

impl Pair {
    /// With main running.
    pub(crate) async fn ready() -> Self {
        Self::ready_in(World::new()).await
    }

    pub(crate) async fn ready_in(world: World) -> Self {
        let gateway = Gateway::start(&world).await;
        let supervisor = world.supervise(world.bootstrap(&gateway.endpoint()));
        let mut sandbox = world.sandbox();
        sandbox.dial(&world.socket()).await;
        gateway.fence.seen("MainStarted").await;
        Self {
            world,
            gateway,
            supervisor,
            sandbox,
        }
    }
}

/// Fails the test if it takes too long.
pub(crate) async fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(WITHIN, future).await {
        Ok(value) => value,
        Err(_) => panic!("not within {WITHIN:?}: {what}"),
    }
}
