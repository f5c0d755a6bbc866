//! The resolver inside: names are the supervisor's to answer, and what it does not name does not exist.

#[cfg(test)]
mod tests;
mod wire;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::runtime::Runtime;
use wire::Code;

/// Where programs find it: where they look if nothing is configured, and where an image's own configuration is
/// pointed to.
const ADDRESSES: [SocketAddr; 2] = [
    SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 53),
    SocketAddr::new(IpAddr::V4(Ipv4Addr::new(127, 0, 0, 53)), 53),
];
/// Queries in work at once at each address; more are not answered, which makes programs ask again.
const MAX_QUERIES: usize = 64;
const MAX_CONNECTIONS: usize = 16;
/// A query that is longer asks nothing that we answer.
const MAX_UDP: usize = 1232;
const MAX_TCP: usize = 4096;
const IDLE: Duration = Duration::from_secs(5);

/// Serves both transports, for the life of the runtime.
pub(crate) async fn serve(runtime: Arc<Runtime>) {
    let [first, second] = ADDRESSES;
    tokio::join!(serve_at(&runtime, first), serve_at(&runtime, second));
}

async fn serve_at(runtime: &Arc<Runtime>, address: SocketAddr) {
    let bound = async {
        let udp = UdpSocket::bind(address).await?;
        let tcp = TcpListener::bind(address).await?;
        Ok::<_, std::io::Error>((udp, tcp))
    };
    match bound.await {
        Ok((udp, tcp)) => {
            tokio::join!(datagrams(runtime, udp), streams(runtime, tcp));
        }
        Err(e) => {
            let text = format!(
                "no resolver on {address}: {e}; names will not resolve (the container needs net.ipv4.ip_unprivileged_port_start=0)"
            );
            runtime.control.log("error", "dns", text, &[]);
        }
    }
}

async fn datagrams(runtime: &Arc<Runtime>, socket: UdpSocket) {
    let socket = Arc::new(socket);
    let mut open = JoinSet::new();
    let mut buffer = vec![0; MAX_UDP];
    loop {
        // An error here is that of an earlier answer, whose asker has gone.
        let Ok((length, from)) = socket.recv_from(&mut buffer).await else {
            continue;
        };
        while open.try_join_next().is_some() {}
        if open.len() >= MAX_QUERIES {
            continue;
        }
        let query = buffer[..length].to_vec();
        let (runtime, socket) = (Arc::clone(runtime), Arc::clone(&socket));
        open.spawn(async move {
            if let Some(reply) = resolve(&runtime, &query).await {
                let _gone = socket.send_to(&reply, from).await;
            }
        });
    }
}

async fn streams(runtime: &Arc<Runtime>, listener: TcpListener) {
    let mut open = JoinSet::new();
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        while open.try_join_next().is_some() {}
        if open.len() < MAX_CONNECTIONS {
            open.spawn(stream_queries(Arc::clone(runtime), stream));
        }
    }
}

async fn stream_queries(runtime: Arc<Runtime>, mut stream: TcpStream) {
    while let Ok(Some(query)) = timeout(IDLE, frame(&mut stream)).await {
        let Some(reply) = resolve(&runtime, &query).await else {
            return;
        };
        let length = u16::try_from(reply.len()).unwrap_or(0);
        let sent = async {
            stream.write_all(&length.to_be_bytes()).await?;
            stream.write_all(&reply).await
        };
        if !matches!(timeout(IDLE, sent).await, Ok(Ok(()))) {
            return;
        }
    }
}

async fn frame(stream: &mut TcpStream) -> Option<Vec<u8>> {
    let length = usize::from(stream.read_u16().await.ok()?);
    if length > MAX_TCP {
        return None;
    }
    let mut query = vec![0; length];
    stream.read_exact(&mut query).await.ok()?;
    Some(query)
}

async fn resolve(runtime: &Runtime, query: &[u8]) -> Option<Vec<u8>> {
    let question = match wire::parse(query)? {
        Ok(question) => question,
        Err(code) => return Some(wire::answer(query, None, code, &[], 0)),
    };
    let reply = |code, addresses: &[IpAddr], ttl| {
        Some(wire::answer(query, Some(&question), code, addresses, ttl))
    };
    if question.name == "localhost" || question.name.ends_with(".localhost") {
        let own = [
            IpAddr::V4(Ipv4Addr::LOCALHOST),
            std::net::Ipv6Addr::LOCALHOST.into(),
        ];
        return reply(Code::Ok, &own, 60);
    }
    let asked = runtime
        .control
        .ask_name(question.name.clone(), question.record_type.into());
    let Some(answer) = asked.await else {
        return reply(Code::Failed, &[], 0);
    };
    let addresses: Vec<IpAddr> = answer
        .addresses
        .iter()
        .filter_map(|a| a.parse().ok())
        .collect();
    if addresses.is_empty() {
        return reply(Code::NoSuchName, &[], 0);
    }
    reply(Code::Ok, &addresses, answer.ttl_seconds)
}
