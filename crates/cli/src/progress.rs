//! What a wait tells on stderr: one line for each change, with the time since the start.

use std::time::Duration;

use openshell_proto::api;
use tokio::time::Instant;

use crate::output::{printable, say};
use crate::view::SandboxView;
use crate::wait::Seen;

/// An image's progress is told no oftener than this.
const EVENT_PACE: Duration = Duration::from_secs(1);

/// Tells what changes.
#[derive(Debug)]
pub(crate) struct Progress {
    quiet: bool,
    start: Instant,
    last: String,
    last_event: Option<Instant>,
}

impl Progress {
    /// From now on; silent if `quiet`.
    pub(crate) fn new(quiet: bool) -> Self {
        Self {
            quiet,
            start: Instant::now(),
            last: String::new(),
            last_event: None,
        }
    }

    /// Tells what was seen, if it is new.
    pub(crate) fn seen(&mut self, seen: &Seen<'_>) {
        match seen {
            Seen::Record(sandbox) => self.record(sandbox),
            Seen::Event(event) => self.event(event),
            Seen::Gone => self.line("gone"),
        }
    }

    fn record(&mut self, sandbox: &api::Sandbox) {
        let view = SandboxView::new(sandbox, None);
        let text = match (view.reason.as_str(), view.message.as_str()) {
            ("", _) => view.phase.to_owned(),
            (reason, "") => format!("{} ({reason})", view.phase),
            (reason, message) => format!("{} ({reason}): {message}", view.phase),
        };
        self.line(&text);
    }

    fn event(&mut self, event: &api::PlatformEvent) {
        if self.last_event.is_some_and(|t| t.elapsed() < EVENT_PACE) || event.message.is_empty() {
            return;
        }
        self.last_event = Some(Instant::now());
        self.line(&format!("  {}", event.message));
    }

    /// A line of its own.
    pub(crate) fn line(&mut self, text: &str) {
        if self.quiet || self.last == text {
            return;
        }
        text.clone_into(&mut self.last);
        let dim = anstyle::Style::new().dimmed();
        let elapsed = self.start.elapsed().as_secs_f32();
        say(format_args!(
            "{dim}{elapsed:>6.2}s{dim:#}  {}",
            printable(text)
        ));
    }
}
