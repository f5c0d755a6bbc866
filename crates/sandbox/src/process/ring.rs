//! The replay buffer of main's output: the last 1 MiB, read by any number of followers, each at its own place.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Mutex;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::Notify;
use tokio::time::timeout;

use crate::processes::locked;

/// As much as is kept.
pub(crate) const CAPACITY: usize = 1024 * 1024;
/// A follower that reads nothing for so long no longer holds main up.
const PATIENCE: Duration = Duration::from_secs(5);

/// Where a chunk came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// Standard output, or the terminal.
    Stdout,
    /// Standard error.
    Stderr,
}

/// What a follower reads next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Output.
    Chunk(Source, Bytes),
    /// So many bytes were overwritten before this follower read them.
    Missed(u64),
}

#[derive(Default)]
struct Inner {
    chunks: VecDeque<(Source, Bytes)>,
    /// The position of the first chunk, and of what will be written next.
    start: u64,
    end: u64,
    closed: bool,
    followers: BTreeMap<u64, u64>,
    named: u64,
}

/// The buffer.
pub(crate) struct Ring {
    inner: Mutex<Inner>,
    capacity: u64,
    written: Notify,
    read: Notify,
}

impl Ring {
    /// Empty.
    pub(crate) fn new(capacity: usize) -> Self {
        Self {
            inner: Mutex::default(),
            capacity: capacity as u64,
            written: Notify::new(),
            read: Notify::new(),
        }
    }

    /// Adds output. Waits while a follower that keeps reading would lose some; one that does not is left behind.
    pub(crate) async fn write(&self, source: Source, chunk: Bytes) {
        if chunk.is_empty() {
            return;
        }
        loop {
            let read = self.read.notified();
            let place = locked(&self.inner).room(chunk.len() as u64, self.capacity);
            match place {
                Ok(()) => break,
                Err(slowest) => {
                    if timeout(PATIENCE, read).await.is_err() {
                        locked(&self.inner).followers.remove(&slowest);
                    }
                }
            }
        }
        let mut inner = locked(&self.inner);
        inner.end += chunk.len() as u64;
        inner.chunks.push_back((source, chunk));
        while inner.end - inner.start > self.capacity {
            match inner.chunks.pop_front() {
                Some((_, old)) => inner.start += old.len() as u64,
                None => break,
            }
        }
        drop(inner);
        self.written.notify_waiters();
    }

    /// There will be no more.
    pub(crate) fn close(&self) {
        locked(&self.inner).closed = true;
        self.written.notify_waiters();
    }

    /// Follows from what is kept on, or from now on.
    pub(crate) fn follow(&self, replay: bool) -> Follower<'_> {
        let mut inner = locked(&self.inner);
        inner.named += 1;
        let name = inner.named;
        let at = if replay { inner.start } else { inner.end };
        inner.followers.insert(name, at);
        drop(inner);
        self.read.notify_waiters();
        Follower {
            ring: self,
            name,
            at,
        }
    }

    /// How many follow.
    pub(crate) fn followers(&self) -> usize {
        locked(&self.inner).followers.len()
    }

    /// Waits until somebody follows, or has.
    pub(crate) async fn followed(&self) {
        loop {
            let read = self.read.notified();
            if locked(&self.inner).named > 0 {
                return;
            }
            read.await;
        }
    }

    /// Waits until nobody follows any more.
    pub(crate) async fn all_gone(&self) {
        loop {
            let read = self.read.notified();
            if self.followers() == 0 {
                return;
            }
            read.await;
        }
    }
}

impl Inner {
    /// Whether so much may be written; else who holds it up.
    fn room(&self, more: u64, capacity: u64) -> Result<(), u64> {
        match self.followers.iter().min_by_key(|(_, at)| **at) {
            Some((name, at)) if self.end - at + more > capacity && self.end > *at => Err(*name),
            _ => Ok(()),
        }
    }
}

/// A reader at its own place.
pub(crate) struct Follower<'a> {
    ring: &'a Ring,
    name: u64,
    at: u64,
}

impl Follower<'_> {
    /// What comes next; `None` when there will be no more.
    pub(crate) async fn next(&mut self) -> Option<Next> {
        loop {
            let written = self.ring.written.notified();
            if let Some(next) = self.look() {
                return next;
            }
            written.await;
        }
    }

    fn look(&mut self) -> Option<Option<Next>> {
        let mut inner = locked(&self.ring.inner);
        if self.at < inner.start {
            let missed = inner.start - self.at;
            self.at = inner.start;
            return Some(Some(Next::Missed(missed)));
        }
        if self.at == inner.end {
            return inner.closed.then_some(None);
        }
        let mut position = inner.start;
        let mut found = None;
        for (source, chunk) in &inner.chunks {
            let after = position + chunk.len() as u64;
            if self.at < after {
                let skip = usize::try_from(self.at - position).unwrap_or(0);
                found = Some((*source, chunk.slice(skip..), after));
                break;
            }
            position = after;
        }
        let (source, chunk, after) = found?;
        self.at = after;
        if let Some(place) = inner.followers.get_mut(&self.name) {
            *place = after;
        }
        drop(inner);
        self.ring.read.notify_waiters();
        Some(Some(Next::Chunk(source, chunk)))
    }
}

impl Drop for Follower<'_> {
    fn drop(&mut self) {
        locked(&self.ring.inner).followers.remove(&self.name);
        self.ring.read.notify_waiters();
    }
}

#[cfg(test)]
mod tests;
