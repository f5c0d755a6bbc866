//! The real session service on loopback, over a fence that only remembers.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use openshell_api::auth::Caller;
use openshell_api::session::{SessionConfig, SessionHub, SessionPort, service};
use openshell_core::token::{Audience, verify};
use openshell_core::{
    Condition, Generation, Intent, Life, Phase, Reason, Restart, SandboxId, SandboxMeta,
    SandboxRecord, SandboxSpec, SupervisorInstance, Timestamp,
};
use openshell_lifecycle::fence::SessionRefused;
use openshell_lifecycle::ports::{SessionEvent, SessionHello};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Identity, Server, ServerTlsConfig};
use tonic::{Request, Status};

use crate::pair::{World, within};

/// Remembers what it was told, and pins the first supervisor.
#[derive(Clone)]
pub(crate) struct StubFence {
    record: Arc<SandboxRecord>,
    pub(crate) hellos: Arc<Mutex<Vec<SessionHello>>>,
    told: Arc<watch::Sender<Vec<String>>>,
    pinned: Arc<Mutex<Option<SupervisorInstance>>>,
}

impl StubFence {
    fn new(world: &World) -> Self {
        Self {
            record: Arc::new(record(world)),
            hellos: Arc::default(),
            told: Arc::new(watch::Sender::new(Vec::new())),
            pinned: Arc::default(),
        }
    }

    /// Waits until it has been told something that contains this, and says how often.
    pub(crate) async fn seen(&self, what: &str) -> usize {
        self.seen_times(what, 1).await
    }

    pub(crate) async fn seen_times(&self, what: &str, times: usize) -> usize {
        let count = |told: &Vec<String>| told.iter().filter(|t| t.contains(what)).count();
        let mut told = self.told.subscribe();
        let told = within(what, told.wait_for(|told| count(told) >= times)).await;
        count(&told.unwrap())
    }

    pub(crate) fn told(&self) -> Vec<String> {
        self.told.borrow().clone()
    }

    fn say(&self, what: String) {
        self.told.send_modify(|told| told.push(what));
    }
}

impl SessionPort for StubFence {
    async fn opened(&self, hello: SessionHello) -> Result<Arc<SandboxRecord>, SessionRefused> {
        let result = {
            let mut pinned = self.pinned.lock().unwrap();
            if hello.generation != self.record.life.generation {
                Err(SessionRefused::StaleGeneration {
                    got: hello.generation,
                    present: self.record.life.generation,
                })
            } else if pinned.is_some_and(|p| p != hello.instance) {
                Err(SessionRefused::OtherInstance(hello.generation))
            } else if !hello.enforced {
                Err(SessionRefused::NotEnforced)
            } else {
                *pinned = Some(hello.instance);
                Ok(Arc::clone(&self.record))
            }
        };
        match &result {
            Ok(_) => self.say(format!("Opened {:?}", hello.main)),
            Err(e) => self.say(format!("Refused {e:?}")),
        }
        self.hellos.lock().unwrap().push(hello);
        result
    }

    async fn event(
        &self,
        _sandbox: SandboxId,
        _generation: Generation,
        _instance: SupervisorInstance,
        event: SessionEvent,
    ) {
        self.say(format!("{event:?}"));
    }

    fn generation(&self, sandbox: SandboxId) -> Option<Generation> {
        (sandbox == self.record.meta.id).then_some(self.record.life.generation)
    }
}

fn record(world: &World) -> SandboxRecord {
    SandboxRecord {
        meta: SandboxMeta {
            id: world.sandbox,
            name: "test".parse().unwrap(),
            workspace: "default".parse().unwrap(),
            labels: BTreeMap::new(),
            annotations: BTreeMap::new(),
            created: Timestamp::UNIX_EPOCH,
            template: None,
        },
        spec: SandboxSpec {
            command: vec!["/bin/main".to_owned(), "--flag".to_owned()],
            environment: BTreeMap::from([("KEY".to_owned(), "value".to_owned())]),
            await_attachment: true,
            ..SandboxSpec::default()
        },
        life: Life {
            intent: Intent::Running,
            phase: Phase::Provisioning,
            condition: Condition {
                reason: Reason::SupervisorNotConnected,
                message: String::new(),
                since: Timestamp::UNIX_EPOCH,
            },
            generation: world.generation,
            run: None,
            operation: None,
            restart: Restart::default(),
            last_exit: None,
            engine: None,
            retired: Default::default(),
            hold: None,
        },
        resource_version: 1,
    }
}

/// A gateway that can go away and come back on the same port, with or without its memory.
pub(crate) struct Gateway {
    pub(crate) hub: SessionHub,
    pub(crate) fence: StubFence,
    pub(crate) address: SocketAddr,
    key: Vec<u8>,
    server: JoinHandle<()>,
    config: SessionConfig,
    identity: Option<Identity>,
}

impl Gateway {
    pub(crate) async fn start(world: &World) -> Self {
        Self::start_with(world, SessionConfig::default()).await
    }

    pub(crate) async fn start_with(world: &World, config: SessionConfig) -> Self {
        Self::start_as(world, config, None).await
    }

    /// With TLS, if there is an identity.
    pub(crate) async fn start_as(
        world: &World,
        config: SessionConfig,
        identity: Option<Identity>,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (hub, fence) = (SessionHub::new(), StubFence::new(world));
        let key = world.signer.public_key().to_vec();
        let (again, tls) = (config.clone(), identity.clone());
        let server = serve(listener, &hub, &fence, key.clone(), config, identity);
        Self {
            hub,
            fence,
            address,
            key,
            server,
            config: again,
            identity: tls,
        }
    }

    pub(crate) fn endpoint(&self) -> String {
        let scheme = if self.identity.is_some() {
            "https"
        } else {
            "http"
        };
        format!("{scheme}://{}", self.address)
    }

    /// As a gateway that is told to end: sessions are closed, connections end.
    pub(crate) async fn stop(&mut self) {
        self.hub.shutdown().await;
        self.server.abort();
        drop((&mut self.server).await);
    }

    /// On the same port, with the same fence and a hub that knows nothing.
    pub(crate) async fn start_again(&mut self) {
        self.hub = SessionHub::new();
        let listener = within("the port is free", async {
            loop {
                match TcpListener::bind(self.address).await {
                    Ok(listener) => break listener,
                    Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
                }
            }
        })
        .await;
        let (key, config) = (self.key.clone(), self.config.clone());
        let tls = self.identity.clone();
        self.server = serve(listener, &self.hub, &self.fence, key, config, tls);
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        self.server.abort();
    }
}

fn serve(
    listener: TcpListener,
    hub: &SessionHub,
    fence: &StubFence,
    key: Vec<u8>,
    config: SessionConfig,
    identity: Option<Identity>,
) -> JoinHandle<()> {
    let service = service(hub.clone(), fence.clone(), config);
    // What the API's authentication layer does.
    let authenticate = move |mut request: Request<()>| {
        let header = request.metadata().get("authorization");
        let token = header
            .and_then(|h| h.to_str().ok()?.strip_prefix("Bearer "))
            .ok_or_else(|| Status::unauthenticated("no token"))?;
        let now = Timestamp::from_second(1).unwrap();
        let claims = verify(&key, token, Audience::Gateway, now)
            .map_err(|e| Status::unauthenticated(e.to_string()))?;
        request.extensions_mut().insert(Caller::Supervisor(claims));
        Ok(request)
    };
    let mut server = Server::builder();
    if let Some(identity) = identity {
        server = server
            .tls_config(ServerTlsConfig::new().identity(identity))
            .unwrap();
    }
    tokio::spawn(async move {
        server
            .initial_stream_window_size(256 << 10)
            .add_service(InterceptedService::new(service, authenticate))
            .serve_with_incoming(TcpIncoming::from(listener).with_nodelay(Some(true)))
            .await
            .unwrap();
    })
}
