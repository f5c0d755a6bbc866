//! Streams made by a task that ends with them.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_util::Stream;
use tokio::sync::mpsc;
use tokio_util::task::AbortOnDropHandle;
use tonic::Status;

/// What a streaming call answers with.
pub(crate) type Answer<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;
/// Where its task puts messages; waits while the client is slow.
pub(crate) type Sink<T> = mpsc::Sender<Result<T, Status>>;

/// Messages between a task and its client.
const BUFFER: usize = 16;

struct Owned<T> {
    messages: mpsc::Receiver<Result<T, Status>>,
    _task: AbortOnDropHandle<()>,
}

impl<T> Stream for Owned<T> {
    type Item = Result<T, Status>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.messages.poll_recv(cx)
    }
}

/// A stream fed by a task. A client that goes away drops the stream, and that aborts the task.
pub(crate) fn spawn<T, F>(work: impl FnOnce(Sink<T>) -> F) -> Answer<T>
where
    T: Send + 'static,
    F: Future<Output = ()> + Send + 'static,
{
    let (sink, messages) = mpsc::channel(BUFFER);
    Box::pin(Owned {
        messages,
        _task: AbortOnDropHandle::new(tokio::spawn(work(sink))),
    })
}
