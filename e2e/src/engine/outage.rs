//! What may happen to an engine: its daemon ends and comes back, on the same data or on others.

use std::time::Duration;

use anyhow::{Context as _, Result};
use rustix::process::{Pid, Signal};

use super::Engine;
use crate::{host, wait};

const DATA: &str = "data";
/// Without live-restore it stops its containers first, with the grace of each.
const END: Duration = Duration::from_secs(60);
const START: Duration = Duration::from_secs(60);

impl Engine {
    /// Ends the daemon with a signal and waits for its end. With live-restore, or by KILL, what runs on it runs on.
    ///
    /// # Errors
    /// When it does not run, or does not end.
    pub fn end_daemon(&mut self, signal: Signal) -> Result<()> {
        self.signal_daemon(signal)?;
        self.await_daemons_end()
    }

    /// Only sends the signal.
    ///
    /// # Errors
    /// When it does not run.
    pub fn signal_daemon(&self, signal: Signal) -> Result<()> {
        let child = self.children.get("dockerd");
        let child = child.context("the daemon does not run")?;
        rustix::process::kill_process(Pid::from_child(child), signal)
            .context("the daemon could not be signalled")
    }

    /// Waits for the end of a daemon that was signalled.
    ///
    /// # Errors
    /// When it does not run, or does not end.
    pub fn await_daemons_end(&mut self) -> Result<()> {
        let child = self.children.get_mut("dockerd");
        let child = child.context("the daemon does not run")?;
        wait::until("the daemon to end", END, || Ok(child.try_wait()?))
            .with_context(|| self.last_words("dockerd"))?;
        self.children.remove("dockerd");
        host::remove_file(&self.pid_file("dockerd"))
    }

    /// Whether this process has a daemon that it has not ended.
    pub fn has_daemon(&self) -> bool {
        self.children.contains_key("dockerd")
    }

    /// Starts the daemon (again) on its data and waits until it answers.
    ///
    /// # Errors
    /// When it does not.
    pub fn start_daemon(&mut self) -> Result<()> {
        self.start_daemon_on(DATA)
    }

    /// Starts a daemon that knows nothing of what the other has held.
    ///
    /// # Errors
    /// When it does not answer.
    pub fn start_empty_daemon(&mut self) -> Result<()> {
        self.start_daemon_on("other-data")
    }

    fn start_daemon_on(&mut self, data: &str) -> Result<()> {
        self.spawn_daemon(data)?;
        let host = self.host();
        wait::until("the private engine to answer", START, || {
            Ok(host::engine_answers(&host).then_some(()))
        })
        .with_context(|| self.last_words("dockerd"))
    }
}
