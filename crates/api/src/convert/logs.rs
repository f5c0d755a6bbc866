//! Log lines on the wire, and the filters that requests put on them.

use openshell_core::{SandboxId, Timestamp};
use openshell_proto::api;
use tonic::Status;

use super::from_time;
use crate::session::SourcedLine;
use crate::status::invalid;

/// Which lines are wanted.
#[derive(Clone, Debug, Default)]
pub(crate) struct Filter {
    since: Option<Timestamp>,
    sources: Vec<String>,
    least: Option<u8>,
}

impl Filter {
    /// Reads a request's fields.
    pub(crate) fn parse(
        since: Option<&prost_types::Timestamp>,
        sources: Vec<String>,
        min_level: &str,
    ) -> Result<Self, Status> {
        let since = since
            .map(|t| from_time(t).ok_or_else(|| invalid("since_time", "is not a time")))
            .transpose()?;
        for source in &sources {
            if !matches!(source.as_str(), "sandbox" | "gateway") {
                return Err(invalid("sources", "use sandbox or gateway"));
            }
        }
        let least = match min_level {
            "" => None,
            text => Some(
                rank(text)
                    .ok_or_else(|| invalid("min_level", "use error, warn, info, debug or trace"))?,
            ),
        };
        Ok(Self {
            since,
            sources,
            least,
        })
    }

    /// Whether a line is wanted. One that says nothing about its level or time is.
    pub(crate) fn wants(&self, line: &SourcedLine) -> bool {
        let late_enough = match (self.since, line.line.time.as_ref().and_then(from_time)) {
            (Some(since), Some(time)) => time >= since,
            _ => true,
        };
        let loud_enough = match (self.least, rank(&line.line.level)) {
            (Some(least), Some(level)) => level <= least,
            _ => true,
        };
        let from_there =
            self.sources.is_empty() || self.sources.iter().any(|s| s.as_str() == line.source);
        late_enough && loud_enough && from_there
    }
}

fn rank(level: &str) -> Option<u8> {
    Some(match level.to_ascii_lowercase().as_str() {
        "error" => 0,
        "warn" | "warning" => 1,
        "info" => 2,
        "debug" => 3,
        "trace" => 4,
        _ => return None,
    })
}

/// A line on the wire.
pub(crate) fn line(sandbox: SandboxId, l: SourcedLine) -> api::SandboxLogLine {
    api::SandboxLogLine {
        sandbox_id: sandbox.to_string(),
        event_time: l.line.time,
        level: l.line.level,
        target: l.line.target,
        message: l.line.message,
        source: l.source.to_owned(),
        fields: l.line.fields,
    }
}
