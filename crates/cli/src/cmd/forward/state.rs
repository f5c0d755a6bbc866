//! Which forwards run: one small file each. A process is known by its id and the moment at which it
//! started, so that a number used again by the kernel is never taken for ours.

use std::fs;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::PathBuf;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde::{Deserialize, Serialize};

use crate::error::{CliError, CliResult};
use crate::exit::Exit;

/// How long a forward may take to end.
const PATIENCE: Timespec = Timespec {
    tv_sec: 5,
    tv_nsec: 0,
};

/// A forward.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct Record {
    pub(super) workspace: String,
    pub(super) sandbox: String,
    pub(super) bind_address: String,
    pub(super) port: u16,
    pub(super) remote_port: u16,
    pub(super) pid: i32,
    /// Clock ticks since the boot at which the process started.
    pub(super) started: u64,
}

/// Where the files lie.
#[derive(Clone, Debug)]
pub(super) struct State {
    dir: PathBuf,
}

/// Removes a forward's file when it ends.
#[derive(Debug)]
pub(super) struct Registered {
    state: State,
    port: u16,
}

impl Drop for Registered {
    fn drop(&mut self) {
        self.state.forget(self.port);
    }
}

impl State {
    /// `$XDG_RUNTIME_DIR`, else `$XDG_STATE_HOME`, else `~/.local/state`.
    pub(super) fn of_user() -> CliResult<Self> {
        let set = |name: &str| {
            std::env::var_os(name)
                .filter(|v| !v.is_empty())
                .map(PathBuf::from)
        };
        let base = set("XDG_RUNTIME_DIR")
            .or_else(|| set("XDG_STATE_HOME"))
            .or_else(|| set("HOME").map(|h| h.join(".local/state")))
            .ok_or_else(|| {
                CliError::local("there is no place to remember forwards")
                    .why("none of XDG_RUNTIME_DIR, XDG_STATE_HOME and HOME is set")
            })?;
        Ok(Self::at(base.join("openshell/forwards")))
    }

    /// In this directory.
    pub(super) fn at(dir: PathBuf) -> Self {
        Self { dir }
    }

    fn file(&self, port: u16) -> PathBuf {
        self.dir.join(format!("{port}.json"))
    }

    /// Remembers this process's forward until the result is dropped.
    pub(super) fn register(&self, mut record: Record) -> CliResult<Registered> {
        record.pid = i32::try_from(std::process::id()).unwrap_or_default();
        record.started = started(record.pid).unwrap_or_default();
        let path = self.file(record.port);
        let write = || -> std::io::Result<()> {
            fs::DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(&self.dir)?;
            let file = fs::OpenOptions::new()
                .write(true)
                .create(true)
                .truncate(true)
                .mode(0o600)
                .open(&path)?;
            serde_json::to_writer(file, &record).map_err(Into::into)
        };
        write().map_err(|e| {
            CliError::local("the forward could not be remembered")
                .why(format!("{}: {e}", path.display()))
        })?;
        Ok(Registered {
            state: self.clone(),
            port: record.port,
        })
    }

    /// Forgets; that there is nothing to forget is fine.
    pub(super) fn forget(&self, port: u16) {
        drop(fs::remove_file(self.file(port)));
    }

    /// The one on this port.
    pub(super) fn find(&self, port: u16) -> Option<Record> {
        let bytes = fs::read(self.file(port)).ok()?;
        serde_json::from_slice(&bytes).ok()
    }

    /// All, by port.
    pub(super) fn all(&self) -> Vec<Record> {
        let files = fs::read_dir(&self.dir).into_iter().flatten().flatten();
        let ports = files.filter_map(|f| f.path().file_stem()?.to_str()?.parse::<u16>().ok());
        let mut ports: Vec<u16> = ports.collect();
        ports.sort_unstable();
        ports.into_iter().filter_map(|p| self.find(p)).collect()
    }
}

impl Record {
    /// Whether exactly this process still runs.
    pub(super) fn is_alive(&self) -> bool {
        self.pid > 0 && started(self.pid) == Some(self.started)
    }

    /// Ends it and waits until it has; false if it had ended before.
    pub(super) fn end(&self) -> CliResult<bool> {
        let failed = |e: std::io::Error| {
            CliError::local(format!("process {} could not be ended", self.pid)).why(e.to_string())
        };
        let Some(pid) = Pid::from_raw(self.pid) else {
            return Ok(false);
        };
        // Opened first and compared then: from here on the number cannot change its owner.
        let Ok(handle) = pidfd_open(pid, PidfdFlags::NONBLOCK) else {
            return Ok(false);
        };
        if !self.is_alive() {
            return Ok(false);
        }
        pidfd_send_signal(&handle, Signal::TERM).map_err(|e| failed(e.into()))?;
        // Readable once the process has ended.
        let mut ended = [PollFd::new(&handle, PollFlags::IN)];
        match poll(&mut ended, Some(&PATIENCE)).map_err(|e| failed(e.into()))? {
            0 => Err(CliError::new(
                Exit::TimedOut,
                format!("process {} does not end", self.pid),
            )),
            _ => Ok(true),
        }
    }
}

/// When a process started, in ticks since the boot: field 22 of its stat, counted behind the name, which may
/// hold anything.
fn started(pid: i32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_whitespace();
    // A zombie has ended, even if nobody has asked for its status yet.
    let alive = !matches!(fields.next()?, "Z" | "X");
    fields.nth(18)?.parse().ok().filter(|_| alive)
}
