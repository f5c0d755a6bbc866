//! The machine: whose it is, what is installed, who runs.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result};
use rustix::process::{Pid, Signal};

use crate::wait;

/// Whether this process may install packages and start engines.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Where a program lies on `PATH` or in the administrator's directories.
pub fn find_program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(["/usr/sbin", "/sbin", "/usr/local/sbin"].map(PathBuf::from))
        .map(|directory| directory.join(name))
        .find(|candidate| candidate.is_file())
}

/// Whether a Docker engine answers at this address (`unix:///…`).
pub fn engine_answers(host: &str) -> bool {
    let Ok(outcome) = crate::command::run_with(
        Command::new("docker").args(["-H", host, "version", "--format", "{{.Server.Version}}"]),
        &[],
        Duration::from_secs(20),
    ) else {
        return false;
    };
    outcome.code == 0
}

/// A process whose id was written to a file, if it still runs and is the one that was meant: its command line
/// must contain `mark`.
pub fn recorded_process(pid_file: &Path, mark: &str) -> Option<Pid> {
    let pid: i32 = std::fs::read_to_string(pid_file)
        .ok()?
        .trim()
        .parse()
        .ok()?;
    let command_line = std::fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let text = String::from_utf8_lossy(&command_line);
    (text.contains(mark) && !is_zombie(pid)).then(|| Pid::from_raw(pid))?
}

fn is_zombie(pid: i32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| {
        stat.rsplit(')')
            .next()
            .is_some_and(|rest| rest.starts_with(" Z"))
    })
}

/// Ends a recorded process: TERM, and KILL if it does not go in time.
///
/// # Errors
/// When it survives even that.
pub fn end_process(pid_file: &Path, mark: &str, grace: Duration) -> Result<()> {
    if let Some(pid) = recorded_process(pid_file, mark) {
        let _ = rustix::process::kill_process(pid, Signal::TERM);
        let gone = || Ok(recorded_process(pid_file, mark).is_none().then_some(()));
        if wait::until("the process to end", grace, gone).is_err() {
            let _ = rustix::process::kill_process(pid, Signal::KILL);
            wait::until(
                &format!("process {} to die", pid.as_raw_nonzero()),
                Duration::from_secs(10),
                gone,
            )?;
        }
    }
    remove_file(pid_file)
}

/// Removes a file that may be absent.
///
/// # Errors
/// When it is there and stays.
pub fn remove_file(path: &Path) -> Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("{} cannot be removed", path.display()))
        }
        _ => Ok(()),
    }
}

/// Resident and proportional memory of a process, in KiB.
///
/// # Errors
/// When there is no such process, or it may not be looked at.
pub fn memory(pid: u32) -> Result<Memory> {
    let field = |file: &str, name: &str| -> Result<u64> {
        let path = format!("/proc/{pid}/{file}");
        let text =
            std::fs::read_to_string(&path).with_context(|| format!("{path} is unreadable"))?;
        text.lines()
            .find_map(|line| {
                line.strip_prefix(name)?
                    .trim()
                    .strip_suffix(" kB")?
                    .parse()
                    .ok()
            })
            .with_context(|| format!("{path} has no {name}"))
    };
    Ok(Memory {
        resident_kib: field("status", "VmRSS:")?,
        proportional_kib: field("smaps_rollup", "Pss:")?,
    })
}

/// What a process holds of the machine's memory.
#[derive(Clone, Copy, Debug)]
pub struct Memory {
    /// `VmRSS`.
    pub resident_kib: u64,
    /// `Pss`: pages that are shared count for their share.
    pub proportional_kib: u64,
}
