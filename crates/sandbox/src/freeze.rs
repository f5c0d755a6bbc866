//! Freezing: every workload process is stopped where it stands, and goes on only when nothing forbids it.

use std::collections::HashSet;
use std::sync::Mutex;
use std::time::Duration;

use rustix::process::{Pid, Signal};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep};

use crate::processes::{self, State, locked};
use crate::sys;

/// Between two looks; only until nothing runs any more.
const PAUSE: Duration = Duration::from_millis(2);
/// How soon somebody who runs although everything is frozen is stopped again.
const HOLD: Duration = Duration::from_millis(200);
/// A process in an uninterruptible wait stops when it comes back; it is not waited for longer than this.
const BOUND: Duration = Duration::from_millis(900);

/// Why the workload is frozen; both may hold at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// The link is lost.
    Link,
    /// The supervisor ordered it.
    Order,
}

#[derive(Default)]
struct Inner {
    link: bool,
    order: bool,
    /// Processes that their own parents had stopped: they stay so.
    before: HashSet<i32>,
}

impl Inner {
    fn frozen(&self) -> bool {
        self.link || self.order
    }

    fn set(&mut self, cause: Cause, on: bool) {
        match cause {
            Cause::Link => self.link = on,
            Cause::Order => self.order = on,
        }
    }
}

/// The freezer.
#[derive(Default)]
pub(crate) struct Freezer {
    inner: Mutex<Inner>,
    begun: Notify,
}

impl Freezer {
    /// Whether anything may be started.
    pub(crate) fn is_frozen(&self) -> bool {
        locked(&self.inner).frozen()
    }

    /// Stops everything; the answer is how many still run after the last look.
    pub(crate) async fn freeze(&self, cause: Cause) -> usize {
        {
            let mut inner = locked(&self.inner);
            if !inner.frozen() {
                inner.before = stopped();
            }
            inner.set(cause, true);
        }
        self.begun.notify_one();
        let deadline = Instant::now() + BOUND;
        loop {
            // Nobody to stop is fine too.
            let _none = sys::signal_all(libc::SIGSTOP);
            let running = running();
            if running == 0 || Instant::now() >= deadline || !self.is_frozen() {
                return running;
            }
            sleep(PAUSE).await;
        }
    }

    /// Keeps it so for the life of the runtime: a timer that was set before may wake its process with a signal.
    pub(crate) async fn hold(&self) {
        loop {
            if self.is_frozen() {
                sleep(HOLD).await;
            } else {
                self.begun.notified().await;
            }
            // No await in between: a thaw comes before the look or after the signal.
            if self.is_frozen() && running() > 0 {
                let _none = sys::signal_all(libc::SIGSTOP);
            }
        }
    }

    /// Takes one cause away; if it was the last, everything goes on. True if it did.
    pub(crate) fn thaw(&self, cause: Cause) -> bool {
        let mut inner = locked(&self.inner);
        if !inner.frozen() {
            return false;
        }
        inner.set(cause, false);
        if inner.frozen() {
            return false;
        }
        let before = std::mem::take(&mut inner.before);
        drop(inner);
        // Children first: a shell that comes back must not see its job stopped.
        let mut pids: Vec<i32> = processes::list().into_iter().map(|(pid, _)| pid).collect();
        pids.sort_unstable_by(|a, b| b.cmp(a));
        for pid in pids.into_iter().filter(|p| !before.contains(p)) {
            if let Some(pid) = Pid::from_raw(pid) {
                let _gone = rustix::process::kill_process(pid, Signal::CONT);
            }
        }
        true
    }

    /// Ends every freeze for good, so that everybody can be told to end.
    pub(crate) fn release(&self) {
        let mut inner = locked(&self.inner);
        *inner = Inner::default();
        drop(inner);
        let _none = sys::signal_all(libc::SIGCONT);
    }

    /// A process has been started: if everything was frozen meanwhile it was not there to be stopped.
    pub(crate) fn catch_up(&self) {
        if self.is_frozen() {
            let _none = sys::signal_all(libc::SIGSTOP);
        }
    }
}

fn stopped() -> HashSet<i32> {
    processes::list()
        .into_iter()
        .filter(|(_, state)| *state == State::Stopped)
        .map(|(pid, _)| pid)
        .collect()
}

fn running() -> usize {
    processes::list()
        .iter()
        .filter(|(_, state)| *state == State::Runs)
        .count()
}
