//! One connection: gRPC served on the stream that we dialled, and everything of it ends with it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hyper::server::conn::http2;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use openshell_proto::link::sandbox_server::SandboxServer;
use tokio::net::UnixStream;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::service::Service;
use crate::runtime::Runtime;

/// A stream's window; the connection's holds all of them, so that one that is not read stops no other.
const STREAM_WINDOW: u32 = 256 * 1024;
const MAX_STREAMS: u32 = 128;
const CONNECTION_WINDOW: u32 = STREAM_WINDOW * (MAX_STREAMS + 1);
/// The peer is asked for a sign of life so often, and waited for so long.
const KEEPALIVE: Duration = Duration::from_secs(5);
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(10);
/// A peer that does not authenticate in time is not ours.
const ATTACH_DEADLINE: Duration = Duration::from_secs(10);
/// One message: a piece of input, or a command with its environment.
const MAX_MESSAGE: usize = 1024 * 1024;

/// What a connection is to its own calls.
pub(crate) struct Connection {
    attached: AtomicBool,
    /// Ends the connection and all of its streams.
    pub(crate) end: CancellationToken,
    /// The streams' work.
    pub(crate) tasks: TaskTracker,
}

impl Connection {
    fn new() -> Self {
        Self {
            attached: AtomicBool::new(false),
            end: CancellationToken::new(),
            tasks: TaskTracker::new(),
        }
    }

    /// Whether Attach has succeeded on it.
    pub(crate) fn is_attached(&self) -> bool {
        self.attached.load(Ordering::Acquire)
    }

    /// It has.
    pub(crate) fn set_attached(&self) {
        self.attached.store(true, Ordering::Release);
    }

    /// Runs work that ends with the connection.
    pub(crate) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        let end = self.end.clone();
        self.tasks.spawn(async move {
            end.run_until_cancelled_owned(work).await;
        });
    }
}

/// Spawns the connection's streams so that they end with it.
#[derive(Clone)]
struct Streams(Arc<Connection>);

impl<F> hyper::rt::Executor<F> for Streams
where
    F: Future + Send + 'static,
    F::Output: Send,
{
    fn execute(&self, stream: F) {
        self.0.spawn(async move {
            stream.await;
        });
    }
}

/// Serves until the connection ends. `on_end` is called at once, before its streams are waited for. True if it
/// had been attached.
pub(super) async fn serve(
    stream: UnixStream,
    runtime: &Arc<Runtime>,
    attach_by: impl Future<Output = ()>,
) -> Arc<Connection> {
    let connection = Arc::new(Connection::new());
    let service = SandboxServer::new(Service::new(Arc::clone(runtime), Arc::clone(&connection)))
        .max_decoding_message_size(MAX_MESSAGE);
    let mut builder = http2::Builder::new(Streams(Arc::clone(&connection)));
    builder
        .timer(TokioTimer::new())
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_concurrent_streams(MAX_STREAMS)
        .max_send_buf_size(64 * 1024)
        .max_header_list_size(16 * 1024)
        .keep_alive_interval(KEEPALIVE)
        .keep_alive_timeout(KEEPALIVE_TIMEOUT);
    let work = builder.serve_connection(TokioIo::new(stream), TowerToHyperService::new(service));
    let unattached = async {
        tokio::select! {
            () = sleep(ATTACH_DEADLINE) => {}
            () = attach_by => {}
        }
        if connection.is_attached() {
            std::future::pending::<()>().await;
        }
    };
    tokio::select! {
        _broken = work => {}
        () = connection.end.cancelled() => {}
        () = unattached => {}
    }
    connection.end.cancel();
    connection.tasks.close();
    connection
}
