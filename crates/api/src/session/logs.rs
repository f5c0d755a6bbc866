//! The last log lines of each sandbox, in memory: bounded in lines and in bytes.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use openshell_core::{SandboxId, SupervisorInstance};
use openshell_proto::link::LogLine;
use prost::Message as _;
use tokio::sync::broadcast;

/// Log lines kept in memory for each sandbox.
pub const LOG_LINES: usize = 2000;
/// And at most so many bytes of them.
const LOG_BYTES: usize = 1 << 20;
/// How far a follower may fall behind before it misses lines.
const FOLLOW_LINES: usize = 256;

/// A log line with where it came from.
#[derive(Clone, Debug, PartialEq)]
pub struct SourcedLine {
    /// Grows by one with every line of this sandbox since the gateway started.
    pub sequence: u64,
    /// sandbox | gateway
    pub source: &'static str,
    /// The line.
    pub line: LogLine,
}

/// All sandboxes' lines.
#[derive(Debug, Default)]
pub(super) struct LogBook(Mutex<HashMap<SandboxId, Log>>);

#[derive(Debug, Default)]
struct Log {
    lines: VecDeque<(usize, SourcedLine)>,
    bytes: usize,
    last_sequence: u64,
    /// The newest batch taken, so that one sent twice counts once.
    last_batch: Option<(SupervisorInstance, u64)>,
    /// Made when somebody follows; its buffer is too large to keep for everybody.
    follow: Option<broadcast::Sender<SourcedLine>>,
}

impl Log {
    fn push(&mut self, source: &'static str, line: LogLine) {
        self.last_sequence += 1;
        let line = SourcedLine {
            sequence: self.last_sequence,
            source,
            line,
        };
        if let Some(follow) = &self.follow
            && follow.send(line.clone()).is_err()
        {
            self.follow = None;
        }
        let size = line.line.encoded_len();
        self.bytes += size;
        self.lines.push_back((size, line));
        while self.lines.len() > LOG_LINES || self.bytes > LOG_BYTES {
            let Some((size, _)) = self.lines.pop_front() else {
                break;
            };
            self.bytes -= size;
        }
    }
}

impl LogBook {
    fn lock(&self) -> MutexGuard<'_, HashMap<SandboxId, Log>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn push(&self, sandbox: SandboxId, source: &'static str, line: LogLine) {
        self.lock().entry(sandbox).or_default().push(source, line);
    }

    /// Takes a supervisor's batch, once.
    pub(super) fn batch(
        &self,
        sandbox: SandboxId,
        instance: SupervisorInstance,
        sequence: u64,
        lines: Vec<LogLine>,
    ) {
        let mut book = self.lock();
        let log = book.entry(sandbox).or_default();
        if matches!(log.last_batch, Some((of, last)) if of == instance && sequence <= last) {
            return;
        }
        log.last_batch = Some((instance, sequence));
        for line in lines {
            log.push("sandbox", line);
        }
    }

    pub(super) fn last(&self, sandbox: SandboxId, limit: usize) -> (Vec<SourcedLine>, usize) {
        let book = self.lock();
        let Some(log) = book.get(&sandbox) else {
            return (Vec::new(), 0);
        };
        let kept = log.lines.len();
        let lines = log.lines.iter().skip(kept.saturating_sub(limit));
        (lines.map(|(_, line)| line.clone()).collect(), kept)
    }

    pub(super) fn follow(&self, sandbox: SandboxId) -> broadcast::Receiver<SourcedLine> {
        let mut book = self.lock();
        let log = book.entry(sandbox).or_default();
        log.follow
            .get_or_insert_with(|| broadcast::channel(FOLLOW_LINES).0)
            .subscribe()
    }

    /// Forgets those that no longer exist.
    pub(super) fn retain(&self, exists: impl Fn(SandboxId) -> bool) {
        self.lock().retain(|sandbox, _| exists(*sandbox));
    }
}
