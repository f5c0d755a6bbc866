//! A TCP connection to a loopback port inside, carried by one stream.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use bytes::Bytes;
use openshell_proto::link::forward_frame::Frame;
use openshell_proto::link::{ForwardEnd, ForwardFrame, ForwardOpen};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::mpsc;
use tokio::time::timeout;
use tonic::{Status, Streaming};

const CONNECT: Duration = Duration::from_secs(5);
const CHUNK: usize = 32 * 1024;

/// Where a stream's frames go.
pub(super) type Sender = mpsc::Sender<Result<ForwardFrame, Status>>;

/// The addresses that are meant; nothing but this host's own.
pub(super) fn targets(open: &ForwardOpen) -> Result<Vec<SocketAddr>, Status> {
    let port = u16::try_from(open.port)
        .ok()
        .filter(|p| *p != 0)
        .ok_or_else(|| Status::invalid_argument(format!("{} is no port", open.port)))?;
    let addresses: Vec<IpAddr> = match open.host.as_str() {
        "" | "localhost" => vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()],
        host => {
            let ip = host.parse::<IpAddr>().ok().filter(|ip| {
                let ip = ip.to_canonical();
                ip.is_loopback()
            });
            let ip = ip.ok_or_else(|| {
                Status::invalid_argument(format!(
                    "{host:?} is not a loopback address: only ports inside the sandbox are forwarded"
                ))
            })?;
            vec![ip]
        }
    };
    Ok(addresses
        .into_iter()
        .map(|ip| SocketAddr::new(ip, port))
        .collect())
}

/// Connects.
pub(super) async fn connect(open: &ForwardOpen) -> Result<TcpStream, Status> {
    let mut last = None;
    for target in targets(open)? {
        match timeout(CONNECT, TcpStream::connect(target)).await {
            Ok(Ok(stream)) => {
                // Small writes of an interactive protocol must not wait for company.
                let _slow = stream.set_nodelay(true);
                return Ok(stream);
            }
            Ok(Err(e)) => {
                last.get_or_insert(e);
            }
            Err(_) => {
                last.get_or_insert(std::io::ErrorKind::TimedOut.into());
            }
        }
    }
    let why = last.map(|e| e.to_string()).unwrap_or_default();
    Err(Status::unavailable(format!(
        "nothing inside the sandbox accepts connections on port {}: {why}",
        open.port
    )))
}

/// Copies both ways until both have ended.
pub(super) async fn run(stream: TcpStream, frames: Streaming<ForwardFrame>, to: Sender) {
    let (read, write) = stream.into_split();
    let gone = to.clone();
    let both = async { tokio::join!(outward(read, to), inward(frames, write)) };
    tokio::select! {
        _done = both => {}
        () = gone.closed() => {}
    }
}

async fn outward(mut read: OwnedReadHalf, to: Sender) {
    let frame = |frame| Ok(ForwardFrame { frame: Some(frame) });
    let mut buffer = vec![0; CHUNK];
    loop {
        match read.read(&mut buffer).await {
            Ok(0) => break,
            Ok(n) => {
                let data = Bytes::copy_from_slice(&buffer[..n]);
                if to.send(frame(Frame::Data(data))).await.is_err() {
                    return;
                }
            }
            Err(e) => {
                let _gone = to.send(Err(Status::aborted(e.to_string()))).await;
                return;
            }
        }
    }
    let _gone = to.send(frame(Frame::End(ForwardEnd {}))).await;
}

async fn inward(mut frames: Streaming<ForwardFrame>, mut write: OwnedWriteHalf) {
    while let Ok(Some(frame)) = frames.message().await {
        match frame.frame {
            Some(Frame::Data(data)) => {
                if write.write_all(&data).await.is_err() {
                    return;
                }
            }
            Some(Frame::End(_)) => break,
            Some(Frame::Open(_)) | None => {}
        }
    }
    let _gone = write.shutdown().await;
}

#[cfg(test)]
mod tests;
