//! The service that the supervisor calls. Nothing but Attach is answered before Attach has succeeded.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::Stream;
use openshell_proto::link::forward_frame::Frame;
use openshell_proto::link::process_input::Input;
use openshell_proto::link::sandbox_server::Sandbox;
use openshell_proto::link::{
    AttachRequest, AttachResponse, ControlFromSandbox, ControlFromSupervisor, ForwardFrame,
    FreezeRequest, FreezeResponse, ProcessInput, ProcessOutput, StartMainRequest,
    StartMainResponse, StopRequest, StopResponse,
};
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;
use tonic::{Request, Response, Status, Streaming};

use super::serve::Connection;
use super::{attach, control, forward};
use crate::freeze::Cause;
use crate::process::{exec, main_process};
use crate::runtime::{Runtime, StopOrder};

/// A stream must say what it is for.
const FIRST_MESSAGE: Duration = Duration::from_secs(10);

/// The receiving end of a bounded channel, as a stream.
pub(super) struct Outgoing<T>(mpsc::Receiver<T>);

impl<T> Stream for Outgoing<T> {
    type Item = T;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<T>> {
        self.0.poll_recv(cx)
    }
}

/// Drops its part of the control stream's state when the stream ends.
pub(super) struct ControlOut {
    messages: mpsc::Receiver<ControlFromSandbox>,
    runtime: Arc<Runtime>,
    name: u64,
}

impl Stream for ControlOut {
    type Item = Result<ControlFromSandbox, Status>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.messages.poll_recv(cx).map(|m| m.map(Ok))
    }
}

impl Drop for ControlOut {
    fn drop(&mut self) {
        self.runtime.control.disconnect(self.name);
    }
}

/// One connection's service.
#[derive(Clone)]
pub(super) struct Service {
    runtime: Arc<Runtime>,
    connection: Arc<Connection>,
}

type Outcome<T> = Result<Response<T>, Status>;

impl Service {
    /// For a connection.
    pub(super) fn new(runtime: Arc<Runtime>, connection: Arc<Connection>) -> Self {
        Self {
            runtime,
            connection,
        }
    }

    fn attached(&self) -> Result<&Arc<Runtime>, Status> {
        if self.connection.is_attached() {
            Ok(&self.runtime)
        } else {
            Err(Status::unauthenticated(
                "this connection has not completed attach",
            ))
        }
    }
}

async fn first<T>(stream: &mut Streaming<T>) -> Result<T, Status> {
    match timeout(FIRST_MESSAGE, stream.message()).await {
        Ok(message) => message?.ok_or_else(|| Status::invalid_argument("the stream was empty")),
        Err(_) => Err(Status::deadline_exceeded("no first message within 10 s")),
    }
}

#[tonic::async_trait]
impl Sandbox for Service {
    type ControlStream = ControlOut;
    type AttachMainStream = Outgoing<Result<ProcessOutput, Status>>;
    type ExecStream = Outgoing<Result<ProcessOutput, Status>>;
    type ForwardStream = Outgoing<Result<ForwardFrame, Status>>;

    async fn attach(&self, request: Request<AttachRequest>) -> Outcome<AttachResponse> {
        if self.connection.is_attached() {
            return Err(Status::failed_precondition(
                "this connection has completed attach before",
            ));
        }
        // Not bound to the call: a caller that goes away must not leave half of it.
        let (runtime, connection) = (Arc::clone(&self.runtime), Arc::clone(&self.connection));
        let response = attach::attach(&runtime, request.into_inner()).await?;
        connection.set_attached();
        Ok(Response::new(response))
    }

    async fn control(
        &self,
        request: Request<Streaming<ControlFromSupervisor>>,
    ) -> Outcome<Self::ControlStream> {
        let runtime = Arc::clone(self.attached()?);
        let (tx, messages) = mpsc::channel(control::QUEUE);
        let name = runtime.control.connect(tx);
        let mut incoming = request.into_inner();
        let end = self.connection.end.clone();
        let receiver = Arc::clone(&runtime);
        self.connection.spawn(async move {
            while let Ok(Some(message)) = incoming.message().await {
                receiver.control.receive(message);
            }
            // One for the life of the connection: without it the connection is no link.
            end.cancel();
        });
        Ok(Response::new(ControlOut {
            messages,
            runtime,
            name,
        }))
    }

    async fn start_main(&self, request: Request<StartMainRequest>) -> Outcome<StartMainResponse> {
        let runtime = self.attached()?;
        let request = request.into_inner();
        let spec = request
            .process
            .ok_or_else(|| Status::invalid_argument("there is nothing to start"))?;
        let main = main_process::start(runtime, spec, request.await_attachment).await?;
        Ok(Response::new(StartMainResponse { main: Some(main) }))
    }

    async fn attach_main(
        &self,
        request: Request<Streaming<ProcessInput>>,
    ) -> Outcome<Self::AttachMainStream> {
        let runtime = Arc::clone(self.attached()?);
        let mut input = request.into_inner();
        let (tx, rx) = mpsc::channel(exec::QUEUE);
        self.connection.spawn(async move {
            match first(&mut input).await.map(|m| m.input) {
                Ok(Some(Input::AttachMain(start))) => {
                    main_process::attach(runtime, start, input, tx).await;
                }
                Ok(_) => refuse(&tx, "the first message must be attach_main").await,
                Err(status) => drop(tx.send(Err(status)).await),
            }
        });
        Ok(Response::new(Outgoing(rx)))
    }

    async fn exec(&self, request: Request<Streaming<ProcessInput>>) -> Outcome<Self::ExecStream> {
        let runtime = Arc::clone(self.attached()?);
        let mut input = request.into_inner();
        let (tx, rx) = mpsc::channel(exec::QUEUE);
        self.connection.spawn(async move {
            match first(&mut input).await.map(|m| m.input) {
                Ok(Some(Input::Exec(spec))) => exec::run(runtime, spec, input, tx).await,
                Ok(_) => refuse(&tx, "the first message must be exec").await,
                Err(status) => drop(tx.send(Err(status)).await),
            }
        });
        Ok(Response::new(Outgoing(rx)))
    }

    async fn forward(
        &self,
        request: Request<Streaming<ForwardFrame>>,
    ) -> Outcome<Self::ForwardStream> {
        self.attached()?;
        let mut frames = request.into_inner();
        let (tx, rx) = mpsc::channel(exec::QUEUE);
        self.connection.spawn(async move {
            let opened = match first(&mut frames).await.map(|m| m.frame) {
                Ok(Some(Frame::Open(open))) => forward::connect(&open).await,
                Ok(_) => Err(Status::invalid_argument("the first frame must be open")),
                Err(status) => Err(status),
            };
            match opened {
                Ok(stream) => forward::run(stream, frames, tx).await,
                Err(status) => drop(tx.send(Err(status)).await),
            }
        });
        Ok(Response::new(Outgoing(rx)))
    }

    async fn stop(&self, request: Request<StopRequest>) -> Outcome<StopResponse> {
        let runtime = self.attached()?;
        let grace = match request.into_inner().grace_millis {
            0 => Duration::ZERO,
            millis => Duration::from_millis(millis.into()),
        };
        let (done, ended) = oneshot::channel();
        // A stop in progress is joined by whoever asks again: its end is the same.
        let _joined = runtime.stops.send(StopOrder { grace, done }).await;
        let _ended = ended.await;
        Ok(Response::new(StopResponse {
            main: Some(runtime.main.state()),
        }))
    }

    async fn freeze(&self, request: Request<FreezeRequest>) -> Outcome<FreezeResponse> {
        let runtime = self.attached()?;
        let running = if request.into_inner().frozen {
            runtime.freezer.freeze(Cause::Order).await
        } else {
            runtime.freezer.thaw(Cause::Order);
            0
        };
        Ok(Response::new(FreezeResponse {
            running: u32::try_from(running).unwrap_or(u32::MAX),
        }))
    }
}

async fn refuse(to: &exec::Sender, why: &str) {
    let _gone = to.send(Err(Status::invalid_argument(why))).await;
}
