//! A main process that notes the time ten times a second, and what its notes say about a pause in its life.

use std::path::Path;

use anyhow::{Context as _, Result};

/// Where it notes the time, as seconds since boot: one clock for the host and for everything inside.
pub const TICKS: &str = "/sandbox/ticks";
/// Where it notes that it was started.
pub const BOOTS: &str = "/sandbox/boots";

/// The main process.
pub const MAIN: &[&str] = &[
    "sh",
    "-c",
    "echo run >> /sandbox/boots; while :; do read now rest < /proc/uptime; echo $now >> /sandbox/ticks; usleep 100000; done",
];

/// What it has noted.
#[derive(Clone, Debug, Default)]
pub struct Ticks(Vec<f64>);

impl Ticks {
    /// From the file's text; a line that is being written does not count.
    pub fn parse(text: &str) -> Self {
        let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
        Self(whole.lines().filter_map(|line| line.parse().ok()).collect())
    }

    /// From where the engine keeps a workspace, without asking anybody; none if there is no such file.
    pub fn on_disk(workspace: &Path) -> Self {
        Self::parse(&std::fs::read_to_string(workspace.join("ticks")).unwrap_or_default())
    }

    /// The longest time without a note between those that are not older than this, in seconds.
    pub fn longest_pause(&self, since: f64) -> f64 {
        let notes = self.0.iter().copied().filter(|tick| *tick >= since);
        let pauses = notes.clone().zip(notes.skip(1)).map(|(a, b)| b - a);
        pauses.fold(0.0, f64::max)
    }

    /// The last note; 0 if there is none.
    pub fn last(&self) -> f64 {
        self.0.last().copied().unwrap_or(0.0)
    }
}

/// What it would note now.
///
/// # Errors
/// When the machine does not tell.
pub fn uptime() -> Result<f64> {
    let text = std::fs::read_to_string("/proc/uptime")?;
    let first = text.split(' ').next().unwrap_or_default();
    first
        .parse()
        .context("/proc/uptime does not begin with a number")
}

#[cfg(test)]
mod tests;
