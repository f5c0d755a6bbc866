//! What tests wait for in the notes of a main that ticks.

use std::path::Path;
use std::time::Duration;

pub(crate) use openshell_e2e::ticks::{MAIN as TICKING, Ticks};
use openshell_e2e::wait;

use crate::world::{PATIENCE, uptime};

/// A pause of this length is one in which it did not run. Ten ticks fit into it: a busy machine makes shorter ones.
pub(crate) const GAP: f64 = 1.0;

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
