//! The processes of an engine's containers, which outlive both of its daemons.

use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use rustix::process::{Pid, Signal};

use crate::{processes, wait};

/// Whether a container of the engine in this directory has a process still.
pub(super) fn any(engine: &Path) -> bool {
    !shims(engine).is_empty()
}

/// Kills them all.
///
/// # Errors
/// When one survives that.
pub(super) fn end(engine: &Path) -> Result<()> {
    for shim in shims(engine) {
        for process in processes::children(shim).into_iter().chain([shim]) {
            // It may just have ended.
            let _ = rustix::process::kill_process(process, Signal::KILL);
        }
    }
    let gone = || Ok((!any(engine)).then_some(()));
    wait::until("the containers' processes to end", END, gone)
}

const END: Duration = Duration::from_secs(10);

/// What stands between containerd and a container: its command line names its engine's socket.
fn shims(engine: &Path) -> Vec<Pid> {
    let socket = engine.join("containerd.sock").display().to_string();
    processes::of(|words| {
        words[0].contains("containerd-shim-") && words.iter().any(|word| *word == socket)
    })
}
