//! A gateway in this process: the real fence on a simulated engine, the real router on a loopback port, and
//! supervisors that come into session at every launch and play sandbox.
#![allow(
    dead_code,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "each test binary uses a part of it"
)]

mod sandbox;

use std::sync::Arc;
use std::time::Duration;

use axum::serve::ListenerExt as _;
use openshell_api::auth::{AuthConfig, PeerIdentity};
use openshell_api::session::{SessionConfig, SessionHub, service};
use openshell_api::{Api, ApiConfig, router};
use openshell_core::token::{Audience, Claims, Signer};
use openshell_core::{Generation, ImageRef, SandboxId};
use openshell_lifecycle::ports::{Environment as _, SystemEnvironment};
use openshell_lifecycle::simulated::{SimulatedDriver, SimulatedIssuer};
use openshell_lifecycle::{Fence, FenceConfig, LifecycleFence as _};
use openshell_proto::api::open_shell_client::OpenShellClient;
use openshell_proto::api::{self, SandboxPhase};
use openshell_proto::plus::open_shell_plus_client::OpenShellPlusClient;
use openshell_store::Store;
use tokio::task::JoinSet;
use tonic::metadata::MetadataValue;
use tonic::service::Interceptor;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Status};

pub const DEADLINE: Duration = Duration::from_secs(20);

/// Puts a token, or nothing, before every call.
#[derive(Clone)]
pub struct Credentials(pub Option<String>);

impl Interceptor for Credentials {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        if let Some(token) = &self.0 {
            let value = MetadataValue::try_from(format!("Bearer {token}")).unwrap();
            request.metadata_mut().insert("authorization", value);
        }
        Ok(request)
    }
}

pub type Client = OpenShellClient<InterceptedService<Channel, Credentials>>;
pub type Plus = OpenShellPlusClient<Channel>;

pub struct Gateway {
    pub fence: Fence<SimulatedDriver>,
    pub driver: Arc<SimulatedDriver>,
    pub hub: SessionHub,
    pub store: Store,
    signer: Arc<Signer>,
    channel: Channel,
    anonymous: Channel,
    _tasks: JoinSet<()>,
}

impl Gateway {
    pub async fn start() -> Self {
        let environment = Arc::new(SystemEnvironment);
        let driver = Arc::new(SimulatedDriver::new(environment.clone()));
        let store = Store::in_memory().unwrap();
        let fence = Fence::new(
            FenceConfig::default(),
            driver.clone(),
            store.clone(),
            environment,
            Arc::new(SimulatedIssuer),
        );
        fence.restore().await.unwrap();
        let signer = Signer::from_pkcs8(&Signer::generate_pkcs8().unwrap()).unwrap();
        let hub = SessionHub::new();
        let config = ApiConfig {
            auth: AuthConfig {
                public_key: signer.public_key().to_vec(),
                allow_unauthenticated_users: false,
            },
            default_image: Some(ImageRef("base:1".to_owned())),
            version: "1.2.3".to_owned(),
        };
        let supervisors = service(hub.clone(), fence.clone(), SessionConfig::default());
        let api = Api::new(fence.clone(), store.clone(), hub.clone(), config);
        let app = router(api, supervisors);
        let mut tasks = JoinSet::new();
        let anonymous = serve(&mut tasks, app.clone()).await;
        // As the TLS listener does for a verified client certificate.
        let identity = PeerIdentity {
            subject: "ada".to_owned(),
        };
        let channel = serve(&mut tasks, app.layer(axum::Extension(identity))).await;
        let signer = Arc::new(signer);
        let launches = driver.launches();
        tasks.spawn(sandbox::supervise(
            launches,
            signer.clone(),
            anonymous.clone(),
        ));
        Self {
            fence,
            driver,
            hub,
            store,
            signer,
            channel,
            anonymous,
            _tasks: tasks,
        }
    }

    /// How many sandboxes there are.
    pub fn fence_len(&self) -> usize {
        self.fence.list().len()
    }

    /// A user with a certificate.
    pub fn user(&self) -> Client {
        OpenShellClient::with_interceptor(self.channel.clone(), Credentials(None))
    }

    /// The same user's bare connection.
    pub fn channel(&self) -> Channel {
        self.channel.clone()
    }

    pub fn plus(&self) -> Plus {
        OpenShellPlusClient::new(self.channel.clone())
    }

    /// A caller without a certificate, perhaps with a token.
    pub fn stranger(&self, token: Option<String>) -> Client {
        OpenShellClient::with_interceptor(self.anonymous.clone(), Credentials(token))
    }

    pub fn token(&self, sandbox: SandboxId, generation: Generation) -> String {
        token(&self.signer, sandbox, generation)
    }

    /// Creates a sandbox and waits until it is ready.
    pub async fn ready(&self, name: &str) -> api::Sandbox {
        let request = api::CreateSandboxRequest {
            name: name.to_owned(),
            ..Default::default()
        };
        self.user().create_sandbox(request).await.unwrap();
        self.phase(name, SandboxPhase::Ready).await
    }

    /// Waits for a phase.
    pub async fn phase(&self, name: &str, phase: SandboxPhase) -> api::Sandbox {
        let mut changes = self.fence.changes();
        tokio::time::timeout(DEADLINE, async {
            loop {
                changes.borrow_and_update();
                let sandbox = self.get(name).await.unwrap();
                if sandbox.status.as_ref().unwrap().phase() == phase {
                    return sandbox;
                }
                changes.changed().await.unwrap();
            }
        })
        .await
        .unwrap_or_else(|_| panic!("{name} is not {phase:?} in time"))
    }

    pub async fn get(&self, name: &str) -> Result<api::Sandbox, Status> {
        let request = api::GetSandboxRequest {
            name: name.to_owned(),
            ..Default::default()
        };
        let response = self.user().get_sandbox(request).await?;
        Ok(response.into_inner().sandbox.unwrap())
    }

    /// Waits until a name is free again.
    pub async fn gone(&self, name: &str) {
        let mut changes = self.fence.changes();
        tokio::time::timeout(DEADLINE, async {
            loop {
                changes.borrow_and_update();
                if self.get(name).await.is_err() {
                    return;
                }
                changes.changed().await.unwrap();
            }
        })
        .await
        .expect("deleted in time");
    }
}

async fn serve(tasks: &mut JoinSet<()>, app: axum::Router) -> Channel {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    // Small frames wait for no acknowledgement, as on the real listener.
    let listener = listener.tap_io(|stream| stream.set_nodelay(true).unwrap());
    tasks.spawn(async move { axum::serve(listener, app).await.unwrap() });
    Endpoint::from_shared(format!("http://{address}"))
        .unwrap()
        .connect_lazy()
}

pub fn token(signer: &Signer, sandbox: SandboxId, generation: Generation) -> String {
    let claims = Claims {
        iss: "openshell-gateway:test".to_owned(),
        aud: Audience::Gateway,
        sandbox_id: sandbox,
        generation,
        iat: SystemEnvironment.now().as_second(),
        exp: 0,
        jti: "1".to_owned(),
    };
    signer.sign(&claims).unwrap()
}
