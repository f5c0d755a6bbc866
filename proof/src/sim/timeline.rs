//! What a person reads of a run: when, who, what.

use std::fmt::Write as _;
use std::sync::{Mutex, PoisonError};

use tokio::time::Instant;

/// Lines in the order in which things happened; nothing is kept unless somebody wants to read it.
pub(crate) struct Timeline {
    began: Instant,
    lines: Option<Mutex<String>>,
}

impl Timeline {
    pub(crate) fn new(kept: bool) -> Self {
        Self {
            began: Instant::now(),
            lines: kept.then(Mutex::default),
        }
    }

    /// How far the run is.
    pub(crate) fn elapsed(&self) -> std::time::Duration {
        self.began.elapsed()
    }

    /// Adds a line.
    pub(crate) fn say(&self, who: &str, what: impl FnOnce() -> String) {
        let Some(lines) = &self.lines else { return };
        let at = self.elapsed();
        let mut lines = lines.lock().unwrap_or_else(PoisonError::into_inner);
        // Writing to a string cannot fail.
        let _ = writeln!(
            lines,
            "{:>7}.{:03}  {who:<11} {}",
            at.as_secs(),
            at.subsec_millis(),
            what()
        );
    }

    /// All of it.
    pub(crate) fn text(&self) -> String {
        self.lines.as_ref().map_or_else(String::new, |lines| {
            lines.lock().unwrap_or_else(PoisonError::into_inner).clone()
        })
    }
}
