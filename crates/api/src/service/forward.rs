//! TCP connections to loopback ports inside a sandbox.

use std::future::pending;
use std::net::IpAddr;

use bytes::Bytes;
use futures_util::StreamExt as _;
use openshell_lifecycle::LifecycleFence;
use openshell_proto::api::{self, tcp_forward_frame, tcp_forward_init};
use openshell_proto::datamodel::{WorkspaceSelector, workspace_selector};
use openshell_proto::link::{self, forward_frame};
use openshell_proto::supervisor::{RelayFrame, relay_frame};
use tonic::{Code, Status, Streaming};

use super::Inner;
use super::exec::first_message;
use crate::session::{Relay, RelayTarget};
use crate::status;
use crate::stream::{self as answers, Answer, Sink};

/// The largest piece of data in one frame.
const PIECE: usize = 32 << 10;

impl<F: LifecycleFence> Inner<F> {
    pub(super) async fn forward_tcp(
        &self,
        mut frames: Streaming<api::TcpForwardFrame>,
    ) -> Result<Answer<api::TcpForwardFrame>, Status> {
        let first = frames.message().await?.and_then(|m| m.payload);
        let Some(tcp_forward_frame::Payload::Init(init)) = first else {
            return Err(first_message("init"));
        };
        let target = target(init.target)?;
        let selector = WorkspaceSelector {
            selection: Some(workspace_selector::Selection::Workspace(init.workspace)),
        };
        let record = self.find(Some(selector), "init.sandbox", &init.sandbox)?;
        self.require_ready(&record)?;
        let relay = self.open(&record, RelayTarget::Forward(target)).await?;
        Ok(answers::spawn(move |sink| run(relay, frames, sink)))
    }
}

fn target(target: Option<tcp_forward_init::Target>) -> Result<link::ForwardOpen, Status> {
    let tcp = match target {
        Some(tcp_forward_init::Target::Tcp(tcp)) => tcp,
        Some(tcp_forward_init::Target::Ssh(_)) => {
            return Err(status::error(
                Code::Unimplemented,
                "UNIMPLEMENTED",
                "init.target: forwarding to SSH is not built yet; forward a TCP port",
            ));
        }
        None => return Err(status::invalid("init.target", "is missing")),
    };
    if !(1..=u32::from(u16::MAX)).contains(&tcp.port) {
        return Err(status::invalid(
            "init.target.tcp.port",
            "must be 1 to 65535",
        ));
    }
    let loopback = match tcp.host.as_str() {
        "" | "localhost" => true,
        host => host.parse().is_ok_and(|ip: IpAddr| ip.is_loopback()),
    };
    if !loopback {
        return Err(status::invalid(
            "init.target.tcp.host",
            "must be localhost or a loopback address; only ports inside the sandbox can be reached",
        ));
    }
    Ok(link::ForwardOpen {
        host: if tcp.host.is_empty() {
            "localhost".to_owned()
        } else {
            tcp.host
        },
        port: tcp.port,
    })
}

fn frame(frame: forward_frame::Frame) -> RelayFrame {
    RelayFrame {
        frame: Some(relay_frame::Frame::Forward(link::ForwardFrame {
            frame: Some(frame),
        })),
    }
}

async fn run(
    relay: Relay,
    mut frames: Streaming<api::TcpForwardFrame>,
    sink: Sink<api::TcpForwardFrame>,
) {
    let Relay {
        to_sandbox,
        mut from_sandbox,
    } = relay;
    let feed = async {
        'client: while let Some(next) = frames.next().await {
            let Some(tcp_forward_frame::Payload::Data(mut data)) = next?.payload else {
                return Err(status::invalid(
                    "payload",
                    "only data follows the first message",
                ));
            };
            while !data.is_empty() {
                let piece: Bytes = data.split_to(data.len().min(PIECE));
                let sent = to_sandbox
                    .send(frame(forward_frame::Frame::Data(piece)))
                    .await;
                if sent.is_err() {
                    break 'client;
                }
            }
        }
        // Half closed: the other direction goes on.
        let _ = to_sandbox
            .send(frame(forward_frame::Frame::End(link::ForwardEnd {})))
            .await;
        pending::<Result<std::convert::Infallible, Status>>().await
    };
    let drain = async {
        loop {
            let data = match from_sandbox.recv().await {
                Some(Ok(RelayFrame {
                    frame: Some(relay_frame::Frame::Forward(f)),
                })) => match f.frame {
                    Some(forward_frame::Frame::Data(data)) => data,
                    Some(forward_frame::Frame::End(_)) => return Ok(()),
                    _ => continue,
                },
                Some(Ok(_)) => continue,
                Some(Err(e)) => return Err(status::relay(&e)),
                None => return Ok(()),
            };
            let message = api::TcpForwardFrame {
                payload: Some(tcp_forward_frame::Payload::Data(data)),
            };
            if sink.send(Ok(message)).await.is_err() {
                return Ok(());
            }
        }
    };
    let failed: Option<Status> = tokio::select! {
        Err(e) = feed => Some(e),
        done = drain => done.err(),
    };
    if let Some(e) = failed {
        let _ = sink.send(Err(e)).await;
    }
}
