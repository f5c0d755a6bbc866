//! Listens, and passes each connection on as a stream of its own.

use std::io::Write;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::BytesMut;
use openshell_proto::api::{
    SandboxPhase, SandboxStatus, TcpForwardFrame, TcpForwardInit, TcpRelayTarget,
    tcp_forward_frame::Payload, tcp_forward_init::Target,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::OwnedReadHalf;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;
use tokio_stream::wrappers::ReceiverStream;

use crate::connect::Gateway;
use crate::error::{CliError, CliResult};
use crate::exit::Exit;
use crate::global::GlobalArgs;
use crate::output::say;
use crate::process::{Happening, Signals};

use super::StartArgs;
use super::state::{Record, State};

/// Connections at a time; more wait in the kernel's queue.
const CONNECTIONS: usize = 256;
/// One read of a connection.
const CHUNK: usize = 32 << 10;
/// Frames under way for each connection.
const DEPTH: usize = 4;
/// What the process in the background says once it listens.
pub(super) const READY: &str = "ready";

/// Serves until a signal comes.
pub(super) async fn serve(
    global: &GlobalArgs,
    address: SocketAddr,
    args: &StartArgs,
    record: Record,
    child: bool,
) -> CliResult<Exit> {
    let gateway = Gateway::connect(global).await?;
    check_ready(&gateway, &args.name).await?;
    let listener = listen(address).await?;
    let registered = State::of_user()?.register(record)?;
    let mut signals = Signals::new(false)?;
    if child {
        leave_terminal();
        let mut stdout = std::io::stdout().lock();
        // Whoever started us may have gone; that ends nothing.
        drop(writeln!(stdout, "{READY}").and_then(|()| stdout.flush()));
    } else {
        say(format_args!(
            "{address} leads to port {} of sandbox {:?}; Ctrl-C ends it",
            args.ports.remote, args.name
        ));
    }
    let free = Arc::new(Semaphore::new(CONNECTIONS));
    let mut connections = JoinSet::new();
    let signal = loop {
        tokio::select! {
            happening = signals.next() => if let Happening::Signal(n) = happening {
                break n;
            },
            Some(_) = connections.join_next(), if !connections.is_empty() => {}
            accepted = accept(&listener, &free) => {
                let (stream, permit) = accepted?;
                let (gateway, name, port) = (gateway.clone(), args.name.clone(), args.ports.remote);
                connections.spawn(async move {
                    let _permit = permit;
                    if let Err(error) = connection(&gateway, &name, port, stream).await
                        && !child
                    {
                        say(&error);
                    }
                });
            }
        }
    };
    connections.shutdown().await;
    drop(registered);
    // Ctrl-C is how a forward in the foreground is meant to end.
    Ok(if signal == 2 || signal == 15 {
        Exit::Done
    } else {
        Exit::of_process(128 + signal)
    })
}

fn leave_terminal() {
    // It fails only for a process that leads a group already; then it has no terminal to lose.
    let _ = rustix::process::setsid();
}

async fn check_ready(gateway: &Gateway, name: &str) -> CliResult<()> {
    let sandbox = crate::cmd::sandbox::get(gateway, name).await?;
    let phase = sandbox
        .status
        .as_ref()
        .map(SandboxStatus::phase)
        .unwrap_or_default();
    // While the engine is away, the way through the supervisor may still be open.
    if matches!(phase, SandboxPhase::Ready | SandboxPhase::Unknown) {
        return Ok(());
    }
    let phase = crate::view::phase_name(phase);
    Err(CliError::new(
        Exit::Conflict,
        format!("sandbox {name:?} is {phase}, not Ready"),
    )
    .hint(format!("`openshell sandbox start {name}` starts it")))
}

async fn listen(address: SocketAddr) -> CliResult<TcpListener> {
    TcpListener::bind(address).await.map_err(|e| {
        let error = CliError::local(format!("{address} cannot be listened on"));
        match e.kind() {
            std::io::ErrorKind::AddrInUse => error
                .why("the port is in use")
                .hint("`openshell forward list` shows our own; or take another one: PORT:REMOTE"),
            _ => error.why(e.to_string()),
        }
    })
}

async fn accept(
    listener: &TcpListener,
    free: &Arc<Semaphore>,
) -> CliResult<(TcpStream, tokio::sync::OwnedSemaphorePermit)> {
    let broken = |e: String| CliError::local("no more connections can be taken").why(e);
    let permit = Arc::clone(free)
        .acquire_owned()
        .await
        .map_err(|e| broken(e.to_string()))?;
    let (stream, _) = listener.accept().await.map_err(|e| broken(e.to_string()))?;
    Ok((stream, permit))
}

async fn connection(gateway: &Gateway, name: &str, port: u16, stream: TcpStream) -> CliResult<()> {
    // Without it only small packets wait; not worth an end.
    drop(stream.set_nodelay(true));
    let (mut read, mut write) = stream.into_split();
    let (up, frames) = mpsc::channel(DEPTH);
    let init = TcpForwardInit {
        sandbox: name.to_owned(),
        workspace: gateway.workspace().to_owned(),
        target: Some(Target::Tcp(TcpRelayTarget {
            host: "127.0.0.1".to_owned(),
            port: port.into(),
        })),
        ..Default::default()
    };
    // There is room for the first one.
    drop(up.try_send(TcpForwardFrame {
        payload: Some(Payload::Init(init)),
    }));
    let what = format!("a connection to port {port} of sandbox {name:?} failed");
    let down = gateway.api().forward_tcp(ReceiverStream::new(frames)).await;
    let mut down = down
        .map_err(|s| gateway.failed(what.as_str(), &s))?
        .into_inner();
    let upward = send(&mut read, up);
    let downward = async {
        while let Some(frame) = down.message().await? {
            if let Some(Payload::Data(data)) = frame.payload
                && write.write_all(&data).await.is_err()
            {
                // The local side has gone; what comes is for nobody.
                return Ok(());
            }
        }
        // It may have gone already.
        drop(write.shutdown().await);
        Ok(())
    };
    tokio::pin!(upward, downward);
    // The end of our side is a half-close; the end of the other side is the end.
    let result: Result<(), tonic::Status> = tokio::select! {
        result = &mut downward => result,
        () = &mut upward => downward.await,
    };
    result.map_err(|s| gateway.failed(what, &s))
}

/// Sends until the local side sends no more; dropping the sender closes that direction.
async fn send(read: &mut OwnedReadHalf, up: mpsc::Sender<TcpForwardFrame>) {
    loop {
        let mut buffer = BytesMut::with_capacity(CHUNK);
        match read.read_buf(&mut buffer).await {
            Ok(n) if n > 0 => {
                let frame = TcpForwardFrame {
                    payload: Some(Payload::Data(buffer.freeze())),
                };
                if up.send(frame).await.is_err() {
                    return;
                }
            }
            _ => return,
        }
    }
}
