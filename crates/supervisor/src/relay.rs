//! Bridges one stream of the gateway with one of the sandbox. Bounded and back-pressured both ways; when either
//! side goes, the other is ended.

use std::time::Duration;

use openshell_proto::link::{ForwardFrame, ProcessInput, forward_frame, process_input};
use openshell_proto::supervisor::relay_frame::Frame;
use openshell_proto::supervisor::{
    RelayClaim, RelayEnded, RelayFrame, RelayOpen, relay_open::Target,
};
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Response, Status, Streaming};

use crate::link::Link;
use crate::session::Gateway;

/// Frames that wait between the two connections, each way.
const FRAMES: usize = 2;
/// Either side opens its stream within this.
const OPEN: Duration = Duration::from_secs(10);

/// Serves a relay to its end. An error is a refusal: the gateway is told, no claim was made.
pub(crate) async fn serve(
    open: RelayOpen,
    link: Option<Link>,
    gateway: Gateway,
) -> Result<(), String> {
    let link =
        link.ok_or("the sandbox is not linked to its supervisor at the moment; try again")?;
    let id = open.relay_id;
    match open.target.ok_or("the relay has no target")? {
        Target::Exec(spec) => {
            let (inputs, stream) = inputs(process(process_input::Input::Exec(spec)));
            let outputs = opened(link.streams().exec(stream)).await?;
            bridge(&id, gateway, inputs, outputs, Frame::Output, input).await;
        }
        Target::AttachMain(start) => {
            let (inputs, stream) = inputs(process(process_input::Input::AttachMain(start)));
            let outputs = opened(link.streams().attach_main(stream)).await?;
            bridge(&id, gateway, inputs, outputs, Frame::Output, input).await;
        }
        Target::Forward(to) => {
            let first = ForwardFrame {
                frame: Some(forward_frame::Frame::Open(to)),
            };
            let (inputs, stream) = inputs(first);
            let outputs = opened(link.streams().forward(stream)).await?;
            bridge(&id, gateway, inputs, outputs, Frame::Forward, forward).await;
        }
    }
    Ok(())
}

fn process(input: process_input::Input) -> ProcessInput {
    ProcessInput { input: Some(input) }
}

fn input(frame: Frame) -> Option<ProcessInput> {
    match frame {
        Frame::Input(input) => Some(input),
        _ => None,
    }
}

fn forward(frame: Frame) -> Option<ForwardFrame> {
    match frame {
        Frame::Forward(frame) => Some(frame),
        _ => None,
    }
}

/// A request stream that begins with `first`.
fn inputs<I>(first: I) -> (mpsc::Sender<I>, ReceiverStream<I>) {
    let (sender, receiver) = mpsc::channel(FRAMES);
    // There is room: it is the first.
    drop(sender.try_send(first));
    (sender, ReceiverStream::new(receiver))
}

async fn opened<O>(
    call: impl Future<Output = Result<Response<Streaming<O>>, Status>>,
) -> Result<Streaming<O>, String> {
    match timeout(OPEN, call).await {
        Ok(Ok(response)) => Ok(response.into_inner()),
        Ok(Err(status)) => Err(status.message().to_owned()),
        Err(_) => Err(format!("the sandbox did not answer within {OPEN:?}")),
    }
}

async fn bridge<I, O>(
    id: &str,
    gateway: Gateway,
    inputs: mpsc::Sender<I>,
    mut outputs: Streaming<O>,
    wrap: fn(O) -> Frame,
    unwrap: fn(Frame) -> Option<I>,
) {
    let claim = RelayClaim {
        relay_id: id.to_owned(),
    };
    let (to_gateway, stream) = mpsc::channel(FRAMES);
    drop(to_gateway.try_send(frame(Frame::Claim(claim))));
    let mut from_gateway = match timeout(OPEN, gateway.relay(ReceiverStream::new(stream))).await {
        Ok(Ok(frames)) => frames,
        Ok(Err(status)) => return tracing::debug!(id, "relay not taken: {}", status.message()),
        Err(_) => return tracing::debug!(id, "relay not taken in time"),
    };
    let mut inputs = Some(inputs);
    let towards = async {
        // Ends when the gateway has gone; what comes after the sandbox has ended its side is read and dropped.
        while let Ok(Some(RelayFrame { frame: Some(frame) })) = from_gateway.message().await {
            let Some(input) = unwrap(frame) else { return };
            if let Some(open) = &inputs
                && open.send(input).await.is_err()
            {
                inputs = None;
            }
        }
    };
    let back = async {
        // Owns its sender: when the sandbox has said its last, the gateway sees the end of the stream. The
        // response is not dropped before the gateway has taken everything, which would cut it short.
        let to_gateway = to_gateway;
        loop {
            let next = match outputs.message().await {
                Ok(Some(output)) => wrap(output),
                Ok(None) => break,
                Err(status) => match refusal(&status) {
                    Some(ended) => Frame::Ended(ended),
                    None => break,
                },
            };
            let last = matches!(next, Frame::Ended(_));
            if to_gateway.send(frame(next)).await.is_err() {
                return;
            }
            if last {
                break;
            }
        }
        drop(to_gateway);
        std::future::pending::<()>().await;
    };
    tokio::select! {
        () = towards => {}
        () = back => {}
    }
}

/// What the sandbox itself said, as opposed to a link that broke: then the outcome is unknown.
fn refusal(status: &Status) -> Option<RelayEnded> {
    std::error::Error::source(status)
        .is_none()
        .then(|| RelayEnded {
            message: status.message().to_owned(),
        })
}

fn frame(frame: Frame) -> RelayFrame {
    RelayFrame { frame: Some(frame) }
}
