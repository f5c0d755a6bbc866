//! Supervisors of the simulated engine's sandboxes. Inside, `cat`, `env`, `sleep`, `fail N` and `missing` exist,
//! and every forwarded connection echoes.

use std::sync::Arc;

use bytes::Bytes;
use openshell_core::posture::REQUIRED;
use openshell_core::token::Signer;
use openshell_core::{Generation, SandboxId, SupervisorInstance};
use openshell_proto::link::{
    self, ForwardFrame, Posture, ProcessInput, ProcessOutput, ProcessSpec, Property, forward_frame,
    process_input, process_output,
};
use openshell_proto::supervisor::supervisor_gateway_client::SupervisorGatewayClient;
use openshell_proto::supervisor::{
    FromSupervisor, Hello, LogBatch, MainStarted, RelayClaim, RelayFrame, RelayOpen,
    from_supervisor, relay_frame, relay_open, to_supervisor,
};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_stream::StreamExt as _;
use tokio_stream::wrappers::ReceiverStream;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::Channel;

use super::{Credentials, token};

type Supervisor = SupervisorGatewayClient<InterceptedService<Channel, Credentials>>;

pub(super) async fn supervise(
    launches: mpsc::Receiver<(SandboxId, Generation)>,
    signer: Arc<Signer>,
    channel: Channel,
) {
    let mut sessions = JoinSet::new();
    let mut launches = ReceiverStream::new(launches);
    while let Some((sandbox, generation)) = launches.next().await {
        let credentials = Credentials(Some(token(&signer, sandbox, generation)));
        let client = SupervisorGatewayClient::with_interceptor(channel.clone(), credentials);
        sessions.spawn(session(client, sandbox, generation));
    }
}

fn message(message: from_supervisor::Message) -> FromSupervisor {
    FromSupervisor {
        message: Some(message),
    }
}

async fn session(mut client: Supervisor, sandbox: SandboxId, generation: Generation) {
    let (to_gateway, out) = mpsc::channel(16);
    let properties = REQUIRED.map(|name| Property {
        name: name.to_owned(),
        enforced: true,
        mechanism: "simulated".to_owned(),
    });
    let hello = Hello {
        sandbox_id: sandbox.to_string(),
        generation: generation.0,
        instance_id: SupervisorInstance::random().to_string(),
        version: "1".to_owned(),
        posture: Some(Posture {
            properties: properties.into(),
            ..Posture::default()
        }),
        main: None,
    };
    to_gateway
        .send(message(from_supervisor::Message::Hello(hello)))
        .await
        .unwrap();
    let Ok(orders) = client.session(ReceiverStream::new(out)).await else {
        return;
    };
    let mut orders = orders.into_inner();
    let mut relays = JoinSet::new();
    while let Ok(Some(order)) = orders.message().await {
        match order.message {
            Some(to_supervisor::Message::Welcome(_)) => {
                let running = link::Running {
                    pid: 7,
                    started: Some(prost_types::Timestamp {
                        seconds: 1_700_000_000,
                        nanos: 0,
                    }),
                };
                let line = link::LogLine {
                    level: "warn".to_owned(),
                    target: "egress".to_owned(),
                    message: "denied".to_owned(),
                    ..link::LogLine::default()
                };
                let started = MainStarted {
                    running: Some(running),
                };
                let logs = LogBatch {
                    sequence: 1,
                    lines: vec![line],
                };
                for m in [
                    from_supervisor::Message::Logs(logs),
                    from_supervisor::Message::MainStarted(started),
                ] {
                    let _ = to_gateway.send(message(m)).await;
                }
            }
            Some(to_supervisor::Message::RelayOpen(open)) => {
                relays.spawn(relay(client.clone(), open));
            }
            Some(to_supervisor::Message::Heartbeat(h)) => {
                let beat = from_supervisor::Message::Heartbeat(h);
                let _ = to_gateway.send(message(beat)).await;
            }
            _ => {}
        }
    }
}

async fn relay(mut client: Supervisor, open: RelayOpen) {
    let (to_gateway, out) = mpsc::channel(4);
    let claim = relay_frame::Frame::Claim(RelayClaim {
        relay_id: open.relay_id,
    });
    to_gateway
        .send(RelayFrame { frame: Some(claim) })
        .await
        .unwrap();
    let inbound = client.relay(ReceiverStream::new(out)).await.unwrap();
    let mut inbound = inbound.into_inner();
    let (input_in, inputs) = mpsc::channel(4);
    let read = async {
        while let Ok(Some(frame)) = inbound.message().await {
            if input_in.send(frame.frame).await.is_err() {
                break;
            }
        }
        drop(input_in);
    };
    let play = async move {
        match open.target {
            Some(relay_open::Target::Exec(spec)) => exec(spec, inputs, &to_gateway).await,
            Some(relay_open::Target::AttachMain(_)) => {
                let _ = to_gateway.send(stdout("main says hi\n")).await;
                let _ = to_gateway.send(exit(0, "")).await;
            }
            Some(relay_open::Target::Forward(_)) => echo(inputs, &to_gateway).await,
            None => {}
        }
    };
    tokio::join!(read, play);
}

type Inputs = mpsc::Receiver<Option<relay_frame::Frame>>;
type Outputs = mpsc::Sender<RelayFrame>;

fn output(output: process_output::Output) -> RelayFrame {
    RelayFrame {
        frame: Some(relay_frame::Frame::Output(ProcessOutput {
            output: Some(output),
        })),
    }
}

fn stdout(data: impl Into<Bytes>) -> RelayFrame {
    output(process_output::Output::Stdout(data.into()))
}

fn exit(code: i32, error: &str) -> RelayFrame {
    output(process_output::Output::Exit(link::Exit {
        code,
        error: error.to_owned(),
        ..link::Exit::default()
    }))
}

async fn exec(spec: ProcessSpec, mut inputs: Inputs, out: &Outputs) {
    let argv: Vec<&str> = spec.argv.iter().map(String::as_str).collect();
    let last = match argv[..] {
        ["cat"] => loop {
            let input = match inputs.recv().await {
                Some(Some(relay_frame::Frame::Input(ProcessInput { input: Some(i) }))) => i,
                Some(_) => continue,
                None => return,
            };
            match input {
                process_input::Input::Stdin(data) => {
                    // Nobody listens any more: the end of the input will say so.
                    let _ = out.send(stdout(data)).await;
                }
                process_input::Input::StdinClosed(_) => break exit(0, ""),
                process_input::Input::Signal(n) => break exit(128 + n, ""),
                _ => {}
            }
        },
        ["env"] => {
            let mut text = format!("workdir={}\nlogin={}\n", spec.workdir, spec.login_shell);
            for (k, v) in &spec.environment {
                text += &format!("{k}={v}\n");
            }
            let _ = out.send(stdout(text)).await;
            exit(0, "")
        }
        ["sleep"] => {
            while inputs.recv().await.is_some() {}
            return;
        }
        ["fail", code] => exit(code.parse().unwrap(), ""),
        _ => exit(127, "no such program"),
    };
    let _ = out.send(last).await;
}

async fn echo(mut inputs: Inputs, out: &Outputs) {
    while let Some(frame) = inputs.recv().await {
        let Some(relay_frame::Frame::Forward(f)) = frame else {
            continue;
        };
        let end = matches!(f.frame, Some(forward_frame::Frame::End(_)));
        let back = RelayFrame {
            frame: Some(relay_frame::Frame::Forward(ForwardFrame { frame: f.frame })),
        };
        if out.send(back).await.is_err() || end {
            return;
        }
    }
}
