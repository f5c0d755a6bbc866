//! What all parts of the runtime share: one of each, for the life of PID 1.

use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio_util::task::TaskTracker;
use tonic::Status;

use crate::bootstrap::Bootstrap;
use crate::broker::Question;
use crate::freeze::Freezer;
use crate::link::control::Control;
use crate::posture::Posture;
use crate::process::command::Base;
use crate::process::launcher::Launcher;
use crate::process::main_process::MainProcess;
use crate::processes::{Registry, locked};

/// An order to end.
pub(crate) struct StopOrder {
    /// Between TERM and KILL.
    pub(crate) grace: Duration,
    /// Told when nothing runs any more.
    pub(crate) done: oneshot::Sender<()>,
}

/// What is known of the supervisor.
#[derive(Default)]
pub(crate) struct Session {
    /// The only instance that may attach, once one has.
    pub(crate) instance: Option<String>,
    /// Nobody may any more.
    pub(crate) terminal: bool,
}

/// The whole.
pub(crate) struct Runtime {
    /// What we were given.
    pub(crate) bootstrap: Bootstrap,
    /// What was measured.
    pub(crate) posture: Mutex<Posture>,
    /// There once a supervisor has attached and everything holds.
    pub(crate) launcher: OnceLock<Launcher>,
    /// Who is waited for.
    pub(crate) registry: Arc<Registry>,
    /// What every process starts from.
    pub(crate) base: Base,
    /// The main process.
    pub(crate) main: MainProcess,
    /// Freezing.
    pub(crate) freezer: Freezer,
    /// The control stream.
    pub(crate) control: Control,
    /// The supervisor.
    pub(crate) session: Mutex<Session>,
    /// Where the broker's questions go.
    pub(crate) questions: mpsc::Sender<Question>,
    /// Where orders to end go.
    pub(crate) stops: mpsc::Sender<StopOrder>,
    /// Work that outlives the stream that caused it; each piece ends by itself within a bound.
    pub(crate) tasks: TaskTracker,
}

impl Runtime {
    /// The launcher, or what is missing for it.
    pub(crate) fn launcher(&self) -> Result<&Launcher, Status> {
        if locked(&self.session).terminal {
            return Err(Status::failed_precondition(
                "the sandbox session is terminal",
            ));
        }
        let faults = locked(&self.posture).faults();
        if !faults.is_empty() {
            return Err(Status::failed_precondition(format!(
                "nothing is started in this sandbox, because its boundary is incomplete: {faults}"
            )));
        }
        self.launcher
            .get()
            .ok_or_else(|| Status::failed_precondition("no supervisor has attached yet"))
    }
}
