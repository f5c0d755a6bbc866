//! The way down: one thread writes both streams, so that their order stays; it starts with the first byte.

use std::io::{self, Write};

use bytes::Bytes;
use tokio::sync::{mpsc, oneshot};

/// Pieces that wait to be written.
const DEPTH: usize = 4;

/// Where a piece belongs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Stream {
    /// To stdout.
    Stdout,
    /// To stderr.
    Stderr,
}

/// A piece of output.
pub(super) type Chunk = (Stream, Bytes);

/// Writes what a process says.
#[derive(Debug, Default)]
pub(super) struct Downlink {
    thread: Option<(mpsc::Sender<Chunk>, oneshot::Receiver<()>)>,
}

impl Downlink {
    /// Room for one more piece; none if nobody reads any more.
    pub(super) async fn room(&mut self) -> Option<mpsc::Permit<'_, Chunk>> {
        let (sender, _) = self.thread.get_or_insert_with(start);
        sender.reserve().await.ok()
    }

    /// Waits until everything is written.
    pub(super) async fn finish(&mut self) {
        if let Some((sender, done)) = self.thread.take() {
            drop(sender);
            // An error means that the thread has ended already.
            drop(done.await);
        }
    }
}

fn start() -> (mpsc::Sender<Chunk>, oneshot::Receiver<()>) {
    let (sender, mut chunks) = mpsc::channel::<Chunk>(DEPTH);
    let (done, ended) = oneshot::channel();
    // Ends when the sender is dropped or nobody reads; `done` tells either.
    std::thread::spawn(move || {
        while let Some((stream, bytes)) = chunks.blocking_recv() {
            if write(stream, &bytes).is_err() {
                break;
            }
        }
        drop(chunks);
        let _ = done.send(());
    });
    (sender, ended)
}

fn write(stream: Stream, bytes: &[u8]) -> io::Result<()> {
    match stream {
        Stream::Stdout => {
            let mut out = io::stdout().lock();
            out.write_all(bytes)?;
            out.flush()
        }
        Stream::Stderr => io::stderr().lock().write_all(bytes),
    }
}
