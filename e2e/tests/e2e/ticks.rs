//! A main that writes down when it ran, and what its notes say.

use std::path::Path;
use std::time::Duration;

use openshell_e2e::wait;

use crate::world::{PATIENCE, uptime};

/// Notes that it runs, and then writes a line with the time ten times a second.
pub(crate) const TICKING: &[&str] = &[
    "sh",
    "-c",
    "echo run >> /sandbox/boots; while :; do cut -d' ' -f1 /proc/uptime >> /sandbox/ticks; usleep 100000; done",
];
/// A pause of this length is one in which it did not run. Ten ticks fit into it: a busy machine makes shorter ones.
pub(crate) const GAP: f64 = 1.0;

/// The notes of one main.
pub(crate) struct Ticks(Vec<f64>);

impl Ticks {
    pub(crate) fn parse(text: &str) -> Self {
        // The last line may just be written.
        Self(text.lines().filter_map(|line| line.parse().ok()).collect())
    }

    /// From where the engine keeps them, without asking anybody.
    pub(crate) fn on_disk(workspace: &Path) -> Self {
        Self::parse(&std::fs::read_to_string(workspace.join("ticks")).unwrap_or_default())
    }

    pub(crate) fn last(&self) -> f64 {
        self.0.last().copied().unwrap_or_default()
    }

    /// The longest pause after this moment.
    pub(crate) fn longest_pause(&self, after: f64) -> f64 {
        let since = self.0.iter().copied().filter(|tick| *tick >= after);
        let since: Vec<f64> = since.collect();
        let pauses = since.windows(2).map(|pair| pair[1] - pair[0]);
        pauses.fold(0.0, f64::max)
    }
}

/// Waits until it ticks.
pub(crate) fn wait_ticking(workspace: &Path) {
    let began = uptime();
    wait::until("it to tick", PATIENCE, || {
        Ok((Ticks::on_disk(workspace).last() > began).then_some(()))
    })
    .expect("ticks");
}

/// Waits until it ticks no more, and says when it did last.
pub(crate) fn wait_still(workspace: &Path) -> f64 {
    wait::until("it to tick no more", PATIENCE, || {
        let last = Ticks::on_disk(workspace).last();
        Ok((uptime() - last > GAP).then_some(last))
    })
    .expect("no ticks")
}

/// Lets it run for a while, so that there is something to be seen in its notes.
pub(crate) fn run_on() {
    wait::pause(Duration::from_millis(1500));
}
