//! A gateway of cardboard: records in a map, processes that are a word each.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use openshell_proto::api::{self, SandboxPhase as P};
use openshell_proto::datamodel::ObjectMeta;
use openshell_proto::plus::open_shell_plus_server::OpenShellPlusServer;
use tokio::runtime::Runtime;
use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::{ReceiverStream, TcpListenerStream};
use tonic::body::Body;
use tonic::server::{Grpc, NamedService};
use tonic::transport::{Server, ServerTlsConfig};
use tonic::{Request, Response, Status, Streaming};
use tonic_prost::ProstCodec;
use tower::service_fn;

#[path = "fake_plus.rs"]
mod plus;

pub(crate) type Answer<T> = Result<Response<T>, Status>;
pub(crate) type Out<T> = ReceiverStream<Result<T, Status>>;

/// What the gateway knows.
#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) sandboxes: BTreeMap<String, api::Sandbox>,
    /// Names of calls, with the sandbox they were for.
    pub(crate) calls: Vec<String>,
    /// Signals that processes were sent.
    pub(crate) signals: Vec<i32>,
    /// The archive of the last upload, and its directory.
    pub(crate) uploaded: Option<(String, Vec<u8>)>,
    /// What `attach` finds of the main process: its output and its exit code.
    pub(crate) main: Option<(&'static str, i32)>,
    /// Whether the last create announced that it attaches.
    pub(crate) awaited: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct World {
    state: Arc<Mutex<State>>,
    changed: watch::Sender<()>,
}

/// A running gateway; ends when it is dropped.
#[derive(Debug)]
pub(crate) struct Fake {
    pub(crate) world: World,
    pub(crate) endpoint: String,
    pub(crate) dir: tempfile::TempDir,
    _runtime: Runtime,
}

impl Fake {
    pub(crate) fn start() -> Self {
        Self::serve(None)
    }

    pub(crate) fn serve(tls: Option<ServerTlsConfig>) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        let world = World {
            state: Arc::default(),
            changed: watch::channel(()).0,
        };
        let listener = runtime
            .block_on(tokio::net::TcpListener::bind("127.0.0.1:0"))
            .unwrap();
        let port = listener.local_addr().unwrap().port();
        let scheme = if tls.is_some() { "https" } else { "http" };
        let mut server = Server::builder();
        if let Some(tls) = tls {
            server = server.tls_config(tls).unwrap();
        }
        let routes = server
            .add_service(Public(world.clone()))
            .add_service(OpenShellPlusServer::new(world.clone()));
        runtime.spawn(routes.serve_with_incoming(TcpListenerStream::new(listener)));
        Self {
            world,
            endpoint: format!("{scheme}://127.0.0.1:{port}"),
            dir: tempfile::tempdir().unwrap(),
            _runtime: runtime,
        }
    }

    /// With a sandbox in a phase.
    pub(crate) fn with(self, name: &str, phase: P) -> Self {
        self.world.put(name, phase);
        self
    }
}

impl World {
    /// Changes the state and tells the watchers.
    pub(crate) fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let result = change(&mut self.state.lock().unwrap());
        self.changed.send_replace(());
        result
    }

    pub(crate) fn called(&self, call: &str) -> bool {
        self.state.lock().unwrap().calls.iter().any(|c| c == call)
    }

    fn note(&self, call: &str, name: &str) {
        self.state
            .lock()
            .unwrap()
            .calls
            .push(format!("{call} {name}"));
    }

    pub(crate) fn put(&self, name: &str, phase: P) {
        let meta = ObjectMeta {
            id: format!("id-{name}"),
            name: name.to_owned(),
            workspace: "default".into(),
            ..Default::default()
        };
        let sandbox = api::Sandbox {
            metadata: Some(meta),
            status: Some(api::SandboxStatus::default()),
            ..Default::default()
        };
        self.change(|s| s.sandboxes.insert(name.to_owned(), sandbox));
        self.set(name, phase);
    }

    pub(crate) fn set(&self, name: &str, phase: P) {
        self.change(|s| {
            let status = s.sandboxes.get_mut(name).and_then(|s| s.status.as_mut());
            if let Some(status) = status {
                status.phase = phase as i32;
                let reason = match phase {
                    P::Error => "ImagePullFailed",
                    P::Ready => "Running",
                    _ => "Accepted",
                };
                status.conditions = vec![api::SandboxCondition {
                    r#type: "Ready".into(),
                    reason: reason.into(),
                    message: format!("it is {reason}"),
                    ..Default::default()
                }];
            }
        });
    }

    fn get(&self, name: &str) -> Result<api::Sandbox, Status> {
        let found = self.state.lock().unwrap().sandboxes.get(name).cloned();
        found.ok_or_else(|| {
            Status::not_found(format!(
                "sandbox {name:?} does not exist in workspace \"default\""
            ))
        })
    }

    fn answer(&self, name: &str) -> Answer<api::SandboxResponse> {
        Ok(Response::new(api::SandboxResponse {
            sandbox: Some(self.get(name)?),
            ..Default::default()
        }))
    }

    async fn create(
        self,
        request: Request<api::CreateSandboxRequest>,
    ) -> Answer<api::SandboxResponse> {
        let request = request.into_inner();
        let name = if request.name.is_empty() {
            "made-up".to_owned()
        } else {
            request.name
        };
        self.note("create", &name);
        if self.get(&name).is_ok() {
            return Err(Status::already_exists(format!(
                "sandbox {name:?} exists already"
            )));
        }
        self.put(&name, P::Provisioning);
        self.change(|s| {
            if let Some(sandbox) = s.sandboxes.get_mut(&name) {
                sandbox.spec = request.spec;
            }
            s.awaited = request.await_main_process_attachment;
        });
        let answer = self.answer(&name);
        match name.as_str() {
            "slow" => {}
            "broken" => self.set(&name, P::Error),
            "quick" => {
                self.change(|s| {
                    if let Some(status) =
                        s.sandboxes.get_mut("quick").and_then(|s| s.status.as_mut())
                    {
                        status.exit_code = Some(7);
                    }
                });
                self.set(&name, P::Completed);
            }
            _ => self.set(&name, P::Ready),
        }
        answer
    }

    async fn delete(
        self,
        request: Request<api::DeleteSandboxRequest>,
    ) -> Answer<api::DeleteSandboxResponse> {
        let name = request.into_inner().name;
        self.note("delete", &name);
        let gone = self.get(&name).is_err();
        if name == "locked" {
            return Err(Status::permission_denied("this user may not delete it"));
        }
        self.set(&name, P::Deleting);
        if name != "stuck" {
            self.change(|s| s.sandboxes.remove(&name));
        }
        let outcome = if gone {
            api::DeletionOutcome::AlreadyAbsent
        } else {
            api::DeletionOutcome::Accepted
        };
        Ok(Response::new(api::DeleteSandboxResponse {
            outcome: outcome as i32,
            sandbox_id: format!("id-{name}"),
        }))
    }

    /// Accepts, answers the record of that moment, and gets there soon.
    fn go(&self, name: &str, first: P, then: P) -> Answer<api::SandboxResponse> {
        self.get(name)?;
        self.set(name, first);
        let answer = self.answer(name);
        if name != "stuck" {
            self.set(name, then);
        }
        answer
    }

    async fn list(
        self,
        request: Request<api::ListSandboxesRequest>,
    ) -> Answer<api::ListSandboxesResponse> {
        let request = request.into_inner();
        let state = self.state.lock().unwrap();
        let mut names = state
            .sandboxes
            .iter()
            .filter(|(n, _)| **n > request.page_token);
        // Small pages, so that their end is met.
        let size = request.page_size.clamp(1, 2) as usize;
        let page: Vec<_> = names.by_ref().take(size).collect();
        let more = names.next().is_some();
        Ok(Response::new(api::ListSandboxesResponse {
            next_page_token: page
                .last()
                .filter(|_| more)
                .map(|(n, _)| (*n).clone())
                .unwrap_or_default(),
            sandboxes: page.into_iter().map(|(_, s)| s.clone()).collect(),
        }))
    }

    async fn watch(
        self,
        request: Request<api::WatchSandboxRequest>,
    ) -> Answer<Out<api::SandboxStreamEvent>> {
        let name = request.into_inner().sandbox;
        self.get(&name)?;
        let (tx, rx) = mpsc::channel(4);
        tokio::spawn(async move {
            let mut changes = self.changed.subscribe();
            loop {
                changes.mark_unchanged();
                let event = self.get(&name).map(|s| api::SandboxStreamEvent {
                    payload: Some(api::sandbox_stream_event::Payload::Sandbox(s)),
                    ..Default::default()
                });
                let last = event.is_err();
                if tx.send(event).await.is_err() || last || changes.changed().await.is_err() {
                    return;
                }
            }
        });
        Ok(Response::new(ReceiverStream::new(rx)))
    }

    /// Gives back what it gets, in capitals.
    async fn forward(
        self,
        request: Request<Streaming<api::TcpForwardFrame>>,
    ) -> Answer<Out<api::TcpForwardFrame>> {
        use api::tcp_forward_frame::Payload;
        let mut frames = request.into_inner();
        let (tx, rx) = mpsc::channel(4);
        tokio::spawn(async move {
            while let Ok(Some(frame)) = frames.message().await {
                if let Some(Payload::Data(data)) = frame.payload {
                    let payload = Some(Payload::Data(data.to_ascii_uppercase().into()));
                    if tx.send(Ok(api::TcpForwardFrame { payload })).await.is_err() {
                        return;
                    }
                }
            }
        });
        Ok(Response::new(ReceiverStream::new(rx)))
    }

    async fn logs(
        self,
        request: Request<api::GetSandboxLogsRequest>,
    ) -> Answer<api::GetSandboxLogsResponse> {
        let request = request.into_inner();
        let line = api::SandboxLogLine {
            level: request.min_level,
            source: request.sources.join(","),
            target: "egress".into(),
            message: format!("{} lines", request.lines),
            ..Default::default()
        };
        Ok(Response::new(api::GetSandboxLogsResponse {
            logs: vec![line],
            buffer_total: 1,
        }))
    }
}

/// The calls of the public service that the program makes.
#[derive(Clone)]
struct Public(World);

impl NamedService for Public {
    const NAME: &'static str = "openshell.v1.OpenShell";
}

macro_rules! unary {
    ($request:expr, $call:expr) => {
        Grpc::new(ProstCodec::default())
            .unary(service_fn($call), $request)
            .await
    };
}

impl tower::Service<http::Request<Body>> for Public {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let w = self.0.clone();
        Box::pin(async move {
            let path = request.uri().path().to_owned();
            Ok(match path.rsplit('/').next().unwrap_or_default() {
                "Health" => unary!(request, |_: Request<api::HealthRequest>| async {
                    let status = api::ServiceStatus::Healthy as i32;
                    let version = "1.2.3".to_owned();
                    Ok(Response::new(api::HealthResponse { status, version }))
                }),
                "GetCurrentUser" => {
                    unary!(request, |_: Request<api::GetCurrentUserRequest>| async {
                        let subject = "tester".to_owned();
                        Ok(Response::new(api::GetCurrentUserResponse {
                            subject,
                            ..Default::default()
                        }))
                    })
                }
                "GetGatewayInfo" => {
                    unary!(request, |_: Request<api::GetGatewayInfoRequest>| async {
                        Ok(Response::new(api::GetGatewayInfoResponse::default()))
                    })
                }
                "CreateSandbox" => unary!(request, move |r| w.clone().create(r)),
                "DeleteSandbox" => unary!(request, move |r| w.clone().delete(r)),
                "ListSandboxes" => unary!(request, move |r| w.clone().list(r)),
                "GetSandboxLogs" => unary!(request, move |r| w.clone().logs(r)),
                "GetSandbox" => unary!(request, move |r: Request<api::GetSandboxRequest>| {
                    let answer = w.answer(&r.into_inner().name);
                    async move { answer }
                }),
                "StopSandbox" => unary!(request, move |r: Request<api::StopSandboxRequest>| {
                    let answer = w.go(&r.into_inner().name, P::Stopping, P::Stopped);
                    async move { answer }
                }),
                "StartSandbox" => unary!(request, move |r: Request<api::StartSandboxRequest>| {
                    let answer = w.go(&r.into_inner().name, P::Starting, P::Ready);
                    async move { answer }
                }),
                "WatchSandbox" => {
                    let call = service_fn(move |r| w.clone().watch(r));
                    Grpc::new(ProstCodec::default())
                        .server_streaming(call, request)
                        .await
                }
                "ForwardTcp" => {
                    let call = service_fn(move |r| w.clone().forward(r));
                    Grpc::new(ProstCodec::default())
                        .streaming(call, request)
                        .await
                }
                other => {
                    Status::unimplemented(format!("{other} is not made of cardboard")).into_http()
                }
            })
        })
    }
}
