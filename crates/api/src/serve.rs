//! Listening: connections in, bounded; TLS with optional client certificates; HTTP/2 and HTTP/1.1 on one port.

pub mod health;
mod tls;

pub use tls::{TlsError, server_config};

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tower::Service as _;

use crate::auth::PeerIdentity;

/// The bounds of a listener.
#[derive(Clone, Copy, Debug)]
pub struct ServeConfig {
    /// Connections at a time; more wait to be accepted.
    pub max_connections: usize,
    /// How long a TLS handshake, or the header of an HTTP/1.1 request, may take.
    pub handshake: Duration,
    /// How long requests in flight may go on after the shutdown.
    pub drain: Duration,
}

impl Default for ServeConfig {
    fn default() -> Self {
        Self {
            max_connections: 1024,
            handshake: Duration::from_secs(8),
            drain: Duration::from_secs(5),
        }
    }
}

/// Bytes a peer may send on one stream, and on one connection, before they are read.
const STREAM_WINDOW: u32 = 512 * 1024;
const CONNECTION_WINDOW: u32 = 2 * 1024 * 1024;
/// A peer that is gone without a word is noticed after the sum of these.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(15);
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(10);
/// Relays are streams, and one client may hold many.
const STREAMS_PER_CONNECTION: u32 = 1024;
/// How long to wait when no connection can be accepted, such as for want of file descriptors.
const ACCEPT_BACKOFF: Duration = Duration::from_millis(100);

/// Serves until the shutdown; returns when every connection has ended, at the latest after the drain.
/// A handler finds the [`PeerIdentity`] of a verified client certificate, and the peer's [`SocketAddr`], among
/// the extensions of its request.
pub async fn serve(
    listener: TcpListener,
    tls: Option<Arc<rustls::ServerConfig>>,
    router: Router,
    config: ServeConfig,
    shutdown: CancellationToken,
) {
    let acceptor = tls.map(TlsAcceptor::from);
    let slots = Arc::new(Semaphore::new(config.max_connections));
    // Dropping the set ends what is still in it.
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            () = shutdown.cancelled() => break,
            Some(_) = connections.join_next() => continue,
            accepted = accept(&listener, &slots) => accepted,
        };
        let Some((stream, peer, slot)) = accepted else {
            break;
        };
        let connection = Connection {
            acceptor: acceptor.clone(),
            router: router.clone(),
            config,
            shutdown: shutdown.clone(),
        };
        connections.spawn(async move {
            connection.run(stream, peer).await;
            drop(slot);
        });
    }
    drop(listener);
    let drained = async { while connections.join_next().await.is_some() {} };
    if tokio::time::timeout(config.drain, drained).await.is_err() {
        tracing::info!(
            connections = connections.len(),
            "ending connections that did not end by themselves"
        );
    }
}

/// The next connection, once there is room for it; `None` if there will never be another.
async fn accept(
    listener: &TcpListener,
    slots: &Arc<Semaphore>,
) -> Option<(TcpStream, SocketAddr, OwnedSemaphorePermit)> {
    let slot = Arc::clone(slots).acquire_owned().await.ok()?;
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => return Some((stream, peer, slot)),
            Err(error) => {
                // Of one connection that is gone already, or of this process: neither ends the listener.
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(ACCEPT_BACKOFF).await;
            }
        }
    }
}

/// What one connection needs.
struct Connection {
    acceptor: Option<TlsAcceptor>,
    router: Router,
    config: ServeConfig,
    shutdown: CancellationToken,
}

impl Connection {
    async fn run(self, stream: TcpStream, peer: SocketAddr) {
        // Small messages are the rule here; waiting to fill a segment only delays them.
        let _ = stream.set_nodelay(true);
        let Some(acceptor) = &self.acceptor else {
            return self.http(stream, peer, None).await;
        };
        let handshake = tokio::time::timeout(self.config.handshake, acceptor.accept(stream));
        let handshake = tokio::select! {
            () = self.shutdown.cancelled() => return,
            handshake = handshake => handshake,
        };
        match handshake {
            Ok(Ok(stream)) => {
                let identity = tls::peer_identity(stream.get_ref().1);
                self.http(stream, peer, identity).await;
            }
            Ok(Err(error)) => tracing::debug!(%peer, %error, "a TLS handshake failed"),
            Err(_) => tracing::debug!(%peer, "a TLS handshake took too long"),
        }
    }

    async fn http<S>(&self, stream: S, peer: SocketAddr, identity: Option<PeerIdentity>)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let router = self.router.clone();
        let service = service_fn(move |request: hyper::Request<hyper::body::Incoming>| {
            let mut request: Request = request.map(axum::body::Body::new);
            request.extensions_mut().insert(peer);
            if let Some(identity) = &identity {
                request.extensions_mut().insert(identity.clone());
            }
            // A router is always ready: its service is called without a word before.
            router.clone().call(request)
        });
        let builder = http_builder(self.config.handshake);
        let connection = builder.serve_connection(TokioIo::new(stream), service);
        let mut connection = std::pin::pin!(connection);
        let ended = tokio::select! {
            ended = connection.as_mut() => ended,
            () = self.shutdown.cancelled() => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        };
        if let Err(error) = ended {
            tracing::debug!(%peer, %error, "a connection broke");
        }
    }
}

fn http_builder(header_deadline: Duration) -> Builder<TokioExecutor> {
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(header_deadline);
    builder
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(KEEPALIVE_INTERVAL)
        .keep_alive_timeout(KEEPALIVE_TIMEOUT)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_concurrent_streams(STREAMS_PER_CONNECTION)
        .max_header_list_size(32 * 1024);
    builder
}

#[cfg(test)]
mod tests;
