//! The processes of this container, as `/proc` shows them: everything but PID 1 is the workload's.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions};
use tokio::sync::{Notify, oneshot, watch};

/// A lock whose holder never panics half-way: what it guards is replaced in single steps.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ended {
    /// As a shell would report it.
    pub(crate) code: i32,
    /// 0 if none.
    pub(crate) signal: i32,
}

/// A state letter of `/proc/<pid>/stat`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// It may run.
    Runs,
    /// Stopped or traced.
    Stopped,
    /// Dead, or waiting to be reaped.
    Dead,
}

/// Reads the state out of `/proc/<pid>/stat`.
fn state_in(stat: &str) -> Option<State> {
    match stat.rsplit_once(')')?.1.trim_start().chars().next()? {
        'T' | 't' => Some(State::Stopped),
        'Z' | 'X' | 'x' => Some(State::Dead),
        _ => Some(State::Runs),
    }
}

/// All of them but PID 1, with their states.
pub(crate) fn list() -> Vec<(i32, State)> {
    let Ok(proc) = std::fs::read_dir("/proc") else {
        return Vec::new();
    };
    proc.flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok())
        .filter(|pid| *pid != 1)
        .filter_map(|pid| {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
            Some((pid, state_in(&stat)?))
        })
        .collect()
}

/// How many are alive.
pub(crate) fn alive() -> usize {
    list().iter().filter(|(_, s)| *s != State::Dead).count()
}

struct Child {
    ended: oneshot::Sender<Ended>,
    /// It leads a session with a terminal.
    terminal: bool,
}

/// The processes that the launcher started and that somebody waits for. Whoever else ends is an orphan and is
/// reaped without a word.
pub(crate) struct Registry {
    children: Mutex<HashMap<i32, Child>>,
    /// The launcher has finished a start, so that a pass which it held up can be made.
    started: Notify,
    /// Grows with every reaped process.
    reaped: watch::Sender<u64>,
}

impl Registry {
    /// Empty.
    pub(crate) fn new() -> Self {
        Self {
            children: Mutex::default(),
            started: Notify::new(),
            reaped: watch::Sender::new(0),
        }
    }

    /// Starts a process and registers it in one step, so that it cannot be reaped in between.
    pub(crate) fn start<E>(
        &self,
        terminal: bool,
        spawn: impl FnOnce() -> Result<i32, E>,
    ) -> Result<(i32, oneshot::Receiver<Ended>), E> {
        let started = {
            let mut children = locked(&self.children);
            spawn().map(|pid| {
                let (ended, rx) = oneshot::channel();
                children.insert(pid, Child { ended, terminal });
                (pid, rx)
            })
        };
        self.started.notify_one();
        started
    }

    /// Signals the group that a registered process leads, or only itself. False if it has been reaped: its number
    /// may be another's by now.
    pub(crate) fn signal(&self, pid: i32, signal: Signal, group: bool) -> bool {
        let children = locked(&self.children);
        let Some(target) = Pid::from_raw(pid).filter(|_| children.contains_key(&pid)) else {
            return false;
        };
        let sent = if group {
            rustix::process::kill_process_group(target, signal)
        } else {
            rustix::process::kill_process(target, signal)
        };
        sent.is_ok()
    }

    /// Hangs up every terminal: an interactive shell ignores TERM, but not this.
    pub(crate) fn hang_up(&self) {
        let children = locked(&self.children);
        for (pid, _) in children.iter().filter(|(_, child)| child.terminal) {
            if let Some(leader) = Pid::from_raw(*pid) {
                let _gone = rustix::process::kill_process_group(leader, Signal::HUP);
            }
        }
    }

    /// Changes whenever something was reaped.
    pub(crate) fn reaped(&self) -> watch::Receiver<u64> {
        self.reaped.subscribe()
    }

    /// Waits until the launcher has finished a start.
    pub(crate) async fn started(&self) {
        self.started.notified().await;
    }

    /// Reaps whatever has ended. A start in progress is left alone: it ends with another pass.
    pub(crate) fn reap(&self) {
        let Ok(mut children) = self.children.try_lock() else {
            return;
        };
        let mut count = 0;
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG;
        while let Ok(Some((pid, ended))) = wait_any(options) {
            count += 1;
            if let Some(waiting) = children.remove(&pid) {
                let _nobody = waiting.ended.send(ended);
            }
        }
        drop(children);
        if count > 0 {
            self.reaped.send_modify(|total| *total += count);
        }
    }
}

fn wait_any(options: WaitIdOptions) -> rustix::io::Result<Option<(i32, Ended)>> {
    // First look, then take: the process keeps its number until its waiter has been found.
    let Some(_seen) = rustix::process::waitid(WaitId::All, options | WaitIdOptions::NOWAIT)? else {
        return Ok(None);
    };
    let Some((pid, status)) = rustix::process::wait(rustix::process::WaitOptions::NOHANG)? else {
        return Ok(None);
    };
    let ended = match status.terminating_signal() {
        Some(signal) => Ended {
            code: 128 + signal,
            signal,
        },
        None => Ended {
            code: status.exit_status().unwrap_or(1),
            signal: 0,
        },
    };
    Ok(Some((pid.as_raw_nonzero().get(), ended)))
}

#[cfg(test)]
mod tests;
