//! One connection of the link: the sandbox dialled it, and serves gRPC on it.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use std::{io, net};

use hyper_util::rt::TokioIo;
use openshell_proto::link::sandbox_client::SandboxClient;
use tokio::net::UnixStream;
use tonic::transport::{Channel, Endpoint};

/// Larger control messages close the link.
pub(super) const MAX_CONTROL: usize = 64 << 10;
/// A frame of a process or a connection, with what is around its bytes.
const MAX_FRAME: usize = 256 << 10;
/// What may be under way in one stream, and in all: a stalled stream leaves room for the others.
const STREAM_WINDOW: u32 = 256 << 10;
const CONNECTION_WINDOW: u32 = 17 << 20;
const KEEPALIVE: Duration = Duration::from_secs(5);
const KEEPALIVE_WITHIN: Duration = Duration::from_secs(10);

/// Holds the socket, so that closing it ends every stream, whoever still holds a clone of the channel.
pub(super) struct Connection(std::os::unix::net::UnixStream);

/// An attached sandbox, to be called.
#[derive(Clone, Debug)]
pub(crate) struct Link {
    /// Tells this connection from earlier ones.
    pub(crate) epoch: u64,
    channel: Channel,
}

impl Connection {
    pub(super) async fn over(stream: UnixStream, epoch: u64) -> io::Result<(Self, Link)> {
        let stream = stream.into_std()?;
        let kept = stream.try_clone()?;
        let once = Arc::new(Mutex::new(Some(TokioIo::new(UnixStream::from_std(
            stream,
        )?))));
        let connector = tower::service_fn(move |_| {
            // A second call means that the connection is gone; only the sandbox can make another.
            let io = once.lock().unwrap_or_else(PoisonError::into_inner).take();
            std::future::ready(io.ok_or_else(|| io::Error::from(io::ErrorKind::NotConnected)))
        });
        let channel = Endpoint::from_static("http://sandbox")
            .http2_keep_alive_interval(KEEPALIVE)
            .keep_alive_timeout(KEEPALIVE_WITHIN)
            .keep_alive_while_idle(true)
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .connect_with_connector(connector)
            .await
            .map_err(io::Error::other)?;
        Ok((Self(kept), Link { epoch, channel }))
    }

    /// Ends it for both sides.
    pub(super) fn close(&self) {
        // It may have been closed by the other side already.
        drop(self.0.shutdown(net::Shutdown::Both));
    }
}

impl Link {
    /// For calls and the control stream.
    pub(crate) fn control(&self) -> SandboxClient<Channel> {
        SandboxClient::new(self.channel.clone()).max_decoding_message_size(MAX_CONTROL)
    }

    /// For processes and connections.
    pub(crate) fn streams(&self) -> SandboxClient<Channel> {
        SandboxClient::new(self.channel.clone()).max_decoding_message_size(MAX_FRAME)
    }
}
