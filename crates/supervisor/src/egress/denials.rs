//! The log of denials: the first of its kind at once, repeats counted and told together, all of it bounded. A
//! sandbox that hammers on a closed door must not drown its own log.

use std::collections::BTreeMap;
use std::time::Duration;

use openshell_proto::link::LogLine;
use tokio::time::Instant;

use crate::clock;

/// Repeats are told after this.
const WINDOW: Duration = Duration::from_secs(10);
/// Kinds that are told apart within a window; the others are counted together.
const KINDS: usize = 128;

/// One denial.
#[derive(Clone, Debug)]
pub(super) struct Denial {
    /// OPEN | RESOLVE
    pub(super) activity: &'static str,
    /// Who tried; empty if nobody can tell.
    pub(super) binary: String,
    pub(super) pid: Option<i32>,
    pub(super) destination: String,
    /// In the line.
    pub(super) why: &'static str,
    /// As it was answered.
    pub(super) reason: String,
}

type Kind = (&'static str, String, String);

/// What has been denied within its window.
#[derive(Default)]
pub(super) struct Denials {
    seen: BTreeMap<Kind, Seen>,
    others: u64,
    others_due: Option<Instant>,
}

struct Seen {
    due: Instant,
    repeats: u64,
    last: Denial,
}

impl Denials {
    /// A line, if this is the first of its kind in a window.
    pub(super) fn record(&mut self, denial: Denial, now: Instant) -> Option<LogLine> {
        let kind = (
            denial.activity,
            denial.binary.clone(),
            denial.destination.clone(),
        );
        if let Some(seen) = self.seen.get_mut(&kind) {
            seen.repeats += 1;
            seen.last = denial;
            return None;
        }
        if self.seen.len() >= KINDS {
            self.others += 1;
            self.others_due.get_or_insert(now + WINDOW);
            return None;
        }
        let line = denial.line(0);
        self.seen.insert(
            kind,
            Seen {
                due: now + WINDOW,
                repeats: 0,
                last: denial,
            },
        );
        Some(line)
    }

    pub(super) fn due(&self) -> Option<Instant> {
        let kinds = self.seen.values().map(|seen| seen.due);
        kinds.chain(self.others_due).min()
    }

    /// Ends the windows that are over: a line for each kind that was repeated.
    pub(super) fn flush(&mut self, now: Instant) -> Vec<LogLine> {
        let mut lines = Vec::new();
        self.seen.retain(|_, seen| {
            if seen.due > now {
                return true;
            }
            if seen.repeats == 0 {
                return false;
            }
            lines.push(seen.last.line(seen.repeats));
            // Still at it: the next window counts on.
            seen.repeats = 0;
            seen.due = now + WINDOW;
            true
        });
        if self.others_due.is_some_and(|due| due <= now) {
            lines.push(line(
                format!(
                    "NET:OPEN [MED] DENIED {} more connections or names, of too many kinds to tell apart",
                    self.others
                ),
                BTreeMap::new(),
            ));
            self.others = 0;
            self.others_due = None;
        }
        lines
    }
}

impl Denial {
    fn line(&self, repeats: u64) -> LogLine {
        let Self {
            activity,
            binary,
            destination,
            why,
            reason,
            ..
        } = self;
        let who = match self.pid {
            Some(pid) => format!("{binary}({pid}) -> "),
            None => String::new(),
        };
        let again = match repeats {
            0 => String::new(),
            n => format!(", {n} more in {} s", WINDOW.as_secs()),
        };
        let mut fields = BTreeMap::from([
            ("destination".to_owned(), destination.clone()),
            ("reason".to_owned(), reason.clone()),
        ]);
        if let Some(pid) = self.pid {
            fields.insert("binary".to_owned(), binary.clone());
            fields.insert("pid".to_owned(), pid.to_string());
        }
        if repeats > 0 {
            fields.insert("repeats".to_owned(), repeats.to_string());
        }
        line(
            format!("NET:{activity} [MED] DENIED {who}{destination} [{why}{again}]"),
            fields,
        )
    }
}

fn line(message: String, fields: BTreeMap<String, String>) -> LogLine {
    LogLine {
        time: Some(clock::now()),
        level: "warn".to_owned(),
        target: "egress".to_owned(),
        message,
        fields,
    }
}
