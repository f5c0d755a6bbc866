//! The processes of an engine's containers, which outlive both of its daemons.

use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use rustix::process::{Pid, Signal};

use crate::wait;

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
        for process in children(shim).into_iter().chain([shim]) {
            if let Some(pid) = Pid::from_raw(process) {
                // It may just have ended.
                let _ = rustix::process::kill_process(pid, Signal::KILL);
            }
        }
    }
    let gone = || Ok((!any(engine)).then_some(()));
    wait::until("the containers' processes to end", END, gone)
}

const END: Duration = Duration::from_secs(10);

/// What stands between containerd and a container: its command line names its engine's socket.
fn shims(engine: &Path) -> Vec<i32> {
    let socket = engine.join("containerd.sock").display().to_string();
    let is_one = |pid: &i32| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line);
        let mut words = line.split('\0');
        let named = words.next().is_some_and(|p| p.contains("containerd-shim-"));
        named && words.any(|word| word == socket)
    };
    all().into_iter().filter(is_one).collect()
}

fn children(parent: i32) -> Vec<i32> {
    let of_it = |pid: &i32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let after_name = stat.rsplit(") ").next().unwrap_or_default();
        after_name.split(' ').nth(1) == Some(parent.to_string().as_str())
    };
    all().into_iter().filter(of_it).collect()
}

fn all() -> Vec<i32> {
    let Ok(directory) = std::fs::read_dir("/proc") else {
        return Vec::new();
    };
    let number = |entry: std::fs::DirEntry| entry.file_name().to_str()?.parse().ok();
    directory.flatten().filter_map(number).collect()
}
