//! A sandbox runtime of a hundred lines: authenticates as the real one does; its only program is an echo.

use std::net::Shutdown;
use std::os::unix::net::UnixStream as StdUnixStream;
use std::path::Path;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::{Stream, StreamExt as _};
use openshell_core::token::{Audience, link_proof, verify};
use openshell_core::{Generation, SandboxId, Timestamp, posture};
use openshell_proto::link::sandbox_server::{Sandbox, SandboxServer};
use openshell_proto::link::{self, *};
use tokio::net::UnixStream;
use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Server;
use tonic::{Request, Response, Status, Streaming};

use crate::pair::{World, within};

type Boxed<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Posture {
    Complete,
    WithoutEgress,
}

/// What it has seen.
#[derive(Default, Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) attached: Vec<String>,
    pub(crate) main: Vec<ProcessSpec>,
    pub(crate) awaited: Vec<bool>,
    pub(crate) frozen: Vec<bool>,
    pub(crate) stopped: Vec<u32>,
    pub(crate) answers: Vec<control_from_supervisor::Message>,
}

struct State {
    key: Vec<u8>,
    sandbox: SandboxId,
    generation: Generation,
    secret: [u8; 32],
    posture: Posture,
    pinned: Mutex<Option<String>>,
    main: Mutex<MainState>,
    control: Mutex<Option<mpsc::Sender<Result<ControlFromSandbox, Status>>>>,
    seen: watch::Sender<Seen>,
    processes: Arc<AtomicUsize>,
}

#[derive(Clone)]
pub(crate) struct FakeSandbox {
    state: Arc<State>,
    connection: Option<Arc<StdUnixStream>>,
}

pub(crate) fn exit(code: i32) -> Exit {
    Exit {
        code,
        ..Exit::default()
    }
}

impl FakeSandbox {
    pub(crate) fn new(world: &World, posture: Posture, secret: [u8; 32]) -> Self {
        let main = MainState {
            state: Some(main_state::State::NotStarted(NotStarted {})),
        };
        let state = State {
            key: world.signer.public_key().to_vec(),
            sandbox: world.sandbox,
            generation: world.generation,
            secret,
            posture,
            pinned: Mutex::new(None),
            main: Mutex::new(main),
            control: Mutex::new(None),
            seen: watch::Sender::new(Seen::default()),
            processes: Arc::default(),
        };
        Self {
            state: Arc::new(state),
            connection: None,
        }
    }

    /// Dials as soon as the socket is there, and serves the connection.
    pub(crate) async fn dial(&mut self, socket: &Path) {
        let stream = within("the link socket is there", async {
            loop {
                match UnixStream::connect(socket).await {
                    Ok(stream) => break stream,
                    Err(_) => tokio::time::sleep(Duration::from_millis(5)).await,
                }
            }
        })
        .await;
        let stream = stream.into_std().unwrap();
        self.connection = Some(Arc::new(stream.try_clone().unwrap()));
        let stream = UnixStream::from_std(stream).unwrap();
        let incoming = futures_util::stream::iter([Ok::<_, std::io::Error>(stream)])
            .chain(futures_util::stream::pending());
        let service = SandboxServer::new(self.clone());
        tokio::spawn(
            Server::builder()
                .initial_stream_window_size(256 << 10)
                .add_service(service)
                .serve_with_incoming(incoming),
        );
    }

    /// Breaks the link.
    pub(crate) fn hang_up(&self) {
        let connection = self.connection.as_ref().unwrap();
        connection.shutdown(Shutdown::Both).unwrap();
    }

    /// Waits until what it has seen is so.
    pub(crate) async fn sees(&self, what: &str, is: impl FnMut(&Seen) -> bool) -> Seen {
        let mut seen = self.state.seen.subscribe();
        within(what, seen.wait_for(is)).await.unwrap().clone()
    }

    pub(crate) async fn say(&self, message: control_from_sandbox::Message) {
        let control = self.state.control.lock().unwrap().clone().unwrap();
        let message = ControlFromSandbox {
            message: Some(message),
        };
        control.send(Ok(message)).await.unwrap();
    }

    pub(crate) async fn end_main(&self, code: i32) {
        self.state.main.lock().unwrap().state = Some(main_state::State::Exited(exit(code)));
        self.say(control_from_sandbox::Message::MainExit(exit(code)))
            .await;
    }

    /// Waits until so many processes and connections live.
    pub(crate) async fn processes(&self, count: usize) {
        within("the number of processes", async {
            while self.state.processes.load(Ordering::SeqCst) != count {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        })
        .await;
    }

    fn seen(&self, note: impl FnOnce(&mut Seen)) {
        self.state.seen.send_modify(note);
    }
}

/// Counts a process while it lives.
struct Alive(Arc<AtomicUsize>);

impl Alive {
    fn new(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::SeqCst);
        Self(Arc::clone(count))
    }
}

impl Drop for Alive {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// A process that writes what it reads, until its input ends or is broken off.
async fn echo(
    mut input: Streaming<ProcessInput>,
    output: mpsc::Sender<Result<ProcessOutput, Status>>,
    alive: Alive,
) {
    let say = |o| ProcessOutput { output: Some(o) };
    while let Ok(Some(next)) = input.message().await {
        let reply = match next.input {
            Some(process_input::Input::Stdin(bytes)) => process_output::Output::Stdout(bytes),
            Some(process_input::Input::StdinClosed(_)) => {
                let end = process_output::Output::Exit(exit(0));
                drop(output.send(Ok(say(end))).await);
                return;
            }
            Some(process_input::Input::Signal(signal)) => {
                let end = process_output::Output::Exit(exit(128 + signal));
                drop(output.send(Ok(say(end))).await);
                return;
            }
            _ => continue,
        };
        if output.send(Ok(say(reply))).await.is_err() {
            break;
        }
    }
    drop(alive);
}

fn posture_of(posture: Posture) -> link::Posture {
    let enforced = |name| posture == Posture::Complete || name != "egress_interception";
    link::Posture {
        properties: posture::REQUIRED
            .map(|name| Property {
                name: name.to_owned(),
                enforced: enforced(name),
                mechanism: String::new(),
            })
            .to_vec(),
        ..link::Posture::default()
    }
}

#[tonic::async_trait]
impl Sandbox for FakeSandbox {
    type ControlStream = ReceiverStream<Result<ControlFromSandbox, Status>>;
    type AttachMainStream = Boxed<ProcessOutput>;
    type ExecStream = Boxed<ProcessOutput>;
    type ForwardStream = Boxed<ForwardFrame>;

    async fn attach(
        &self,
        request: Request<AttachRequest>,
    ) -> Result<Response<AttachResponse>, Status> {
        let request = request.into_inner();
        let state = &self.state;
        let now = Timestamp::from_second(1).unwrap();
        let claims = verify(&state.key, &request.token, Audience::Sandbox, now)
            .map_err(|e| Status::unauthenticated(e.to_string()))?;
        if (claims.sandbox_id, claims.generation) != (state.sandbox, state.generation) {
            return Err(Status::permission_denied("the token is of another run"));
        }
        let resumed = {
            let mut pinned = state.pinned.lock().unwrap();
            if pinned.as_ref().is_some_and(|p| *p != request.instance_id) {
                return Err(Status::failed_precondition(
                    "already bound to another supervisor process",
                ));
            }
            pinned.replace(request.instance_id.clone()).is_some()
        };
        self.seen(|s| s.attached.push(request.instance_id.clone()));
        let proof = link_proof(
            &state.secret,
            &request.nonce,
            &request.instance_id,
            &request.token,
        );
        Ok(Response::new(AttachResponse {
            proof: proof.to_vec().into(),
            posture: Some(posture_of(state.posture)),
            main: Some(state.main.lock().unwrap().clone()),
            resumed,
        }))
    }

    async fn control(
        &self,
        request: Request<Streaming<ControlFromSupervisor>>,
    ) -> Result<Response<Self::ControlStream>, Status> {
        let (sender, receiver) = mpsc::channel(16);
        *self.state.control.lock().unwrap() = Some(sender);
        let mut inbound = request.into_inner();
        let this = self.clone();
        tokio::spawn(async move {
            while let Ok(Some(message)) = inbound.message().await {
                this.seen(|s| s.answers.extend(message.message));
            }
            this.state.control.lock().unwrap().take();
        });
        Ok(Response::new(ReceiverStream::new(receiver)))
    }

    async fn start_main(
        &self,
        request: Request<StartMainRequest>,
    ) -> Result<Response<StartMainResponse>, Status> {
        let request = request.into_inner();
        self.seen(|s| {
            s.main.push(request.process.unwrap());
            s.awaited.push(request.await_attachment);
        });
        let mut main = self.state.main.lock().unwrap();
        if matches!(main.state, Some(main_state::State::NotStarted(_))) {
            main.state = Some(main_state::State::Running(Running {
                pid: 2,
                started: None,
            }));
        }
        Ok(Response::new(StartMainResponse {
            main: Some(main.clone()),
        }))
    }

    async fn attach_main(
        &self,
        request: Request<Streaming<ProcessInput>>,
    ) -> Result<Response<Self::AttachMainStream>, Status> {
        self.exec(request).await
    }

    async fn exec(
        &self,
        request: Request<Streaming<ProcessInput>>,
    ) -> Result<Response<Self::ExecStream>, Status> {
        let mut input = request.into_inner();
        let first = input.message().await?.and_then(|m| m.input);
        if let Some(process_input::Input::Exec(spec)) = &first
            && spec.argv[0] == "refused"
        {
            return Err(Status::resource_exhausted("too many processes"));
        }
        let (sender, receiver) = mpsc::channel(2);
        if let Some(process_input::Input::Exec(spec)) = &first
            && spec.argv[0] == "broken off"
        {
            let status = Status::internal("no process could be made");
            sender.send(Err(status)).await.unwrap();
        }
        tokio::spawn(echo(input, sender, Alive::new(&self.state.processes)));
        Ok(Response::new(Box::pin(ReceiverStream::new(receiver))))
    }

    async fn forward(
        &self,
        request: Request<Streaming<ForwardFrame>>,
    ) -> Result<Response<Self::ForwardStream>, Status> {
        let mut input = request.into_inner();
        input.message().await?;
        let (sender, receiver) = mpsc::channel(2);
        let alive = Alive::new(&self.state.processes);
        tokio::spawn(async move {
            while let Ok(Some(frame)) = input.message().await {
                let end = matches!(frame.frame, Some(forward_frame::Frame::End(_)));
                if sender.send(Ok(frame)).await.is_err() || end {
                    break;
                }
            }
            drop(alive);
        });
        Ok(Response::new(Box::pin(ReceiverStream::new(receiver))))
    }

    async fn stop(&self, request: Request<StopRequest>) -> Result<Response<StopResponse>, Status> {
        let grace = request.into_inner().grace_millis;
        self.seen(|s| s.stopped.push(grace));
        Ok(Response::new(StopResponse { main: None }))
    }

    async fn freeze(
        &self,
        request: Request<FreezeRequest>,
    ) -> Result<Response<FreezeResponse>, Status> {
        let frozen = request.into_inner().frozen;
        self.seen(|s| s.frozen.push(frozen));
        Ok(Response::new(FreezeResponse { running: 0 }))
    }
}
