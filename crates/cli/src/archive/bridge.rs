//! Between streams of chunks and blocking readers and writers; bounded, so that each side waits for the other.

use std::io::{self, Read, Write};

use bytes::{Buf, Bytes};
use tokio::sync::mpsc;

/// What one message carries.
const CHUNK: usize = 64 << 10;

/// A blocking writer whose bytes come out of a channel. Whoever drops the receiver ends it.
#[derive(Debug)]
pub(crate) struct ChunkWriter {
    out: mpsc::Sender<Bytes>,
    buffer: Vec<u8>,
}

impl ChunkWriter {
    /// Into this channel.
    pub(crate) fn new(out: mpsc::Sender<Bytes>) -> Self {
        Self {
            out,
            buffer: Vec::with_capacity(CHUNK),
        }
    }
}

impl Write for ChunkWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let take = bytes.len().min(CHUNK - self.buffer.len());
        self.buffer.extend_from_slice(&bytes[..take]);
        if self.buffer.len() == CHUNK {
            self.flush()?;
        }
        Ok(take)
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        let full = std::mem::replace(&mut self.buffer, Vec::with_capacity(CHUNK));
        self.out
            .blocking_send(full.into())
            .map_err(|_| io::Error::new(io::ErrorKind::BrokenPipe, "the gateway takes no more"))
    }
}

/// A blocking reader of what goes into a channel.
#[derive(Debug)]
pub(crate) struct ChunkReader {
    chunks: mpsc::Receiver<Bytes>,
    rest: Bytes,
}

impl ChunkReader {
    /// Of this channel.
    pub(crate) fn new(chunks: mpsc::Receiver<Bytes>) -> Self {
        Self {
            chunks,
            rest: Bytes::new(),
        }
    }
}

impl Read for ChunkReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.rest.is_empty() {
            match self.chunks.blocking_recv() {
                Some(chunk) => self.rest = chunk,
                None => return Ok(0),
            }
        }
        let take = buffer.len().min(self.rest.len());
        buffer[..take].copy_from_slice(&self.rest[..take]);
        self.rest.advance(take);
        Ok(take)
    }
}
