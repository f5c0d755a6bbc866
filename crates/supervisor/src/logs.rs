//! Log lines on their way to the gateway: kept until acknowledged, bounded, oldest dropped first.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use openshell_proto::link::LogLine;
use openshell_proto::supervisor::LogBatch;
use prost::Message as _;
use tokio::sync::Notify;

use crate::clock;

/// Lines that wait, and their bytes.
const WAITING_LINES: usize = 2000;
const WAITING_BYTES: usize = 1 << 20;
/// One batch.
const BATCH_LINES: usize = 200;
const BATCH_BYTES: usize = 48 << 10;
/// A longer message is cut.
const MESSAGE_BYTES: usize = 8 << 10;

/// The buffer. One batch is in flight at a time.
#[derive(Default)]
pub(crate) struct LogBuffer {
    ring: Mutex<Ring>,
    more: Notify,
}

#[derive(Default)]
struct Ring {
    waiting: VecDeque<(usize, LogLine)>,
    bytes: usize,
    dropped: u64,
    last_sequence: u64,
    in_flight: Option<LogBatch>,
}

impl LogBuffer {
    fn lock(&self) -> MutexGuard<'_, Ring> {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn push(&self, mut line: LogLine) {
        if line.message.len() > MESSAGE_BYTES {
            let end = line.message.floor_char_boundary(MESSAGE_BYTES);
            line.message.truncate(end);
            line.message.push('…');
        }
        disarm(&mut line.message);
        line.fields.values_mut().for_each(disarm);
        let size = line.encoded_len();
        let mut ring = self.lock();
        ring.bytes += size;
        ring.waiting.push_back((size, line));
        while ring.waiting.len() > WAITING_LINES || ring.bytes > WAITING_BYTES {
            let Some((size, _)) = ring.waiting.pop_front() else {
                break;
            };
            ring.bytes -= size;
            ring.dropped += 1;
        }
        drop(ring);
        self.more.notify_one();
    }

    /// The batch that is to be sent now: for a new session the one in flight again, else the next.
    pub(crate) fn batch(&self, again: bool) -> Option<LogBatch> {
        let mut ring = self.lock();
        if ring.in_flight.is_some() {
            return ring.in_flight.clone().filter(|_| again);
        }
        let lines = ring.take();
        if lines.is_empty() {
            return None;
        }
        ring.last_sequence += 1;
        let batch = LogBatch {
            sequence: ring.last_sequence,
            lines,
        };
        ring.in_flight = Some(batch.clone());
        Some(batch)
    }

    /// The gateway has a batch.
    pub(crate) fn acknowledge(&self, sequence: u64) {
        let mut ring = self.lock();
        if ring
            .in_flight
            .as_ref()
            .is_some_and(|b| b.sequence <= sequence)
        {
            ring.in_flight = None;
            drop(ring);
            self.more.notify_one();
        }
    }

    /// Waits until there may be a batch.
    pub(crate) async fn more(&self) {
        self.more.notified().await;
    }
}

/// Names and paths in a line are the agent's to choose, and a line ends up on somebody's terminal.
fn disarm(text: &mut String) {
    if text.contains(char::is_control) {
        *text = text
            .chars()
            .flat_map(|c| {
                let (plain, escaped) = if c.is_control() && c != '\t' {
                    (None, Some(c.escape_default()))
                } else {
                    (Some(c), None)
                };
                plain.into_iter().chain(escaped.into_iter().flatten())
            })
            .collect();
    }
}

impl Ring {
    fn take(&mut self) -> Vec<LogLine> {
        let mut lines = Vec::new();
        let mut bytes = 0;
        if self.dropped > 0 {
            lines.push(LogLine {
                time: Some(clock::now()),
                level: "warn".to_owned(),
                target: "supervisor".to_owned(),
                message: format!(
                    "{} log lines were dropped here: they came faster than the gateway took them",
                    self.dropped
                ),
                fields: Default::default(),
            });
            self.dropped = 0;
        }
        while lines.len() < BATCH_LINES {
            match self.waiting.front() {
                Some((size, _)) if bytes == 0 || bytes + size <= BATCH_BYTES => bytes += size,
                _ => break,
            }
            if let Some((size, line)) = self.waiting.pop_front() {
                self.bytes -= size;
                lines.push(line);
            }
        }
        lines
    }
}

#[cfg(test)]
mod tests;
