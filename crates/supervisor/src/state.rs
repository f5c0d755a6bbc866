//! What holds about this run: written by one part, watched by others. Values, not messages.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use openshell_core::SupervisorInstance;
use openshell_core::bootstrap::SupervisorBootstrap;
use openshell_proto::link::{
    Exit, LogLine, MainState, NotStarted, Posture, Running, StartMainRequest, main_state,
};
use tokio::sync::watch;

use crate::clock;
use crate::link::Link;
use crate::logs::LogBuffer;
use crate::settings::{Settings, Timings};

/// Where the link stands.
#[derive(Clone, Debug)]
pub(crate) enum LinkView {
    /// Not attached yet.
    Awaited,
    /// Attached.
    Attached(Link),
    /// Broken; the sandbox is frozen until it is attached again.
    Lost,
}

impl LinkView {
    pub(crate) fn link(&self) -> Option<Link> {
        match self {
            Self::Attached(link) => Some(link.clone()),
            Self::Awaited | Self::Lost => None,
        }
    }
}

/// What is known of the main process.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct MainView {
    pub(crate) started: Option<Running>,
    pub(crate) exit: Option<Exit>,
    /// The gateway has the exit.
    pub(crate) acknowledged: bool,
}

impl MainView {
    /// Takes what the sandbox says. What is known is never unlearnt: an end is an end.
    pub(crate) fn learn(&mut self, state: Option<MainState>) {
        match state.and_then(|s| s.state) {
            Some(main_state::State::Running(running)) => {
                self.started.get_or_insert(running);
            }
            Some(main_state::State::Exited(exit)) => {
                self.exit.get_or_insert(exit);
            }
            Some(main_state::State::NotStarted(_)) | None => {}
        }
    }

    pub(crate) fn not_started(&self) -> bool {
        self.started.is_none() && self.exit.is_none()
    }

    /// As it goes into a hello.
    pub(crate) fn state(&self) -> MainState {
        let state = match (&self.exit, &self.started) {
            (Some(exit), _) => main_state::State::Exited(exit.clone()),
            (None, Some(running)) => main_state::State::Running(*running),
            (None, None) => main_state::State::NotStarted(NotStarted {}),
        };
        MainState { state: Some(state) }
    }
}

/// Why this run cannot be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    /// A stable word.
    pub(crate) reason: &'static str,
    pub(crate) message: String,
}

/// The credentials of the run, which may be renewed.
#[derive(Clone)]
pub(crate) struct Credentials {
    pub(crate) gateway: String,
    pub(crate) sandbox: String,
}

/// This run.
pub(crate) struct Run {
    pub(crate) bootstrap: SupervisorBootstrap,
    pub(crate) link_secret: Vec<u8>,
    pub(crate) instance: SupervisorInstance,
    pub(crate) timings: Timings,
    credentials: Mutex<Credentials>,
    /// Written by the link.
    pub(crate) link: watch::Sender<LinkView>,
    /// Measured at the last attach; written by the link.
    pub(crate) posture: watch::Sender<Option<Posture>>,
    /// Written by the link and the starter.
    pub(crate) main: watch::Sender<MainView>,
    /// Written once, by whoever finds out first.
    pub(crate) failure: watch::Sender<Option<Failure>>,
    /// What the main process is; written by the session.
    pub(crate) plan: watch::Sender<Option<StartMainRequest>>,
    /// Whether the gateway wants the workload frozen.
    pub(crate) frozen: watch::Sender<bool>,
    /// The gateway wants the run ended, with this grace.
    pub(crate) stop: watch::Sender<Option<Duration>>,
    pub(crate) logs: LogBuffer,
}

impl Run {
    pub(crate) fn new(settings: Settings) -> Self {
        let Settings {
            mut bootstrap,
            link_secret,
            timings,
            ..
        } = settings;
        let credentials = Credentials {
            gateway: std::mem::take(&mut bootstrap.gateway_token),
            sandbox: std::mem::take(&mut bootstrap.sandbox_token),
        };
        Self {
            bootstrap,
            link_secret,
            instance: SupervisorInstance::from_uuid(uuid::Uuid::new_v4()),
            timings,
            credentials: Mutex::new(credentials),
            link: watch::Sender::new(LinkView::Awaited),
            posture: watch::Sender::new(None),
            main: watch::Sender::new(MainView::default()),
            failure: watch::Sender::new(None),
            plan: watch::Sender::new(None),
            frozen: watch::Sender::new(false),
            stop: watch::Sender::new(None),
            logs: LogBuffer::default(),
        }
    }

    pub(crate) fn credentials(&self) -> Credentials {
        self.credentials
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    pub(crate) fn renew(&self, credentials: Credentials) {
        *self
            .credentials
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = credentials;
    }

    /// The first failure counts; it is logged and reported, and ends the supervisor.
    pub(crate) fn fail(&self, reason: &'static str, message: String) {
        self.failure.send_if_modified(|failure| {
            if failure.is_some() {
                return false;
            }
            tracing::error!(reason, "{message}");
            *failure = Some(Failure { reason, message });
            true
        });
    }

    /// A line for the sandbox's log, and for our own.
    pub(crate) fn say(&self, level: tracing::Level, message: String) {
        match level {
            tracing::Level::ERROR => tracing::error!("{message}"),
            tracing::Level::WARN => tracing::warn!("{message}"),
            _ => tracing::info!("{message}"),
        }
        self.logs.push(LogLine {
            time: Some(clock::now()),
            level: level.as_str().to_ascii_lowercase(),
            target: "supervisor".to_owned(),
            message,
            fields: Default::default(),
        });
    }
}
