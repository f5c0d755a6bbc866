//! Watches a sandbox until something is so: no polling, a deadline, and a new stream when one breaks.

use std::ops::ControlFlow;
use std::time::Duration;

use clap::Args;
use openshell_proto::api;
use openshell_proto::api::sandbox_stream_event::Payload;
use tokio::time::Instant;
use tonic::{Code, Status};

use crate::connect::Gateway;
use crate::error::{CliError, CliResult};
use crate::exit::Exit;
use crate::view::phase_name;

/// Between two tries to watch again.
const BACK_OFF: Duration = Duration::from_millis(200);
/// A gateway that restarts is back within this.
pub(crate) const GATEWAY_AWAY: Duration = Duration::from_secs(30);

/// How long a command waits for the end of what it asked for.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct WaitArgs {
    /// Return as soon as the gateway has accepted it
    #[arg(long, conflicts_with = "wait")]
    pub(crate) no_wait: bool,
    /// Wait for the end
    #[arg(long, value_name = "BOOL", default_value_t = true, num_args = 0..=1, default_missing_value = "true",
          action = clap::ArgAction::Set, hide = true)]
    pub(crate) wait: bool,
    /// How many seconds to wait; a time-out cancels nothing
    #[arg(
        long,
        value_name = "SECONDS",
        default_value_t = 300,
        env = "OPENSHELL_LIFECYCLE_TIMEOUT",
        hide_env = true
    )]
    pub(crate) timeout: u32,
}

impl WaitArgs {
    /// Whether to wait at all.
    pub(crate) const fn waits(&self) -> bool {
        self.wait && !self.no_wait
    }

    /// The bound.
    pub(crate) fn bound(&self) -> Duration {
        Duration::from_secs(self.timeout.into())
    }
}

/// What a watch shows.
#[derive(Debug)]
pub(crate) enum Seen<'a> {
    /// The record as it is now.
    Record(&'a api::Sandbox),
    /// Something that happened on the way: an image's progress.
    Event(&'a api::PlatformEvent),
    /// It does not exist (any more).
    Gone,
}

/// A watch on one sandbox.
#[derive(Debug)]
pub(crate) struct Watch<'a> {
    /// Where.
    pub(crate) gateway: &'a Gateway,
    /// Which, by name.
    pub(crate) name: &'a str,
    /// Which exactly: another one of the same name counts as gone.
    pub(crate) id: &'a str,
    /// For how long.
    pub(crate) bound: Duration,
    /// Whether events are wanted too.
    pub(crate) events: bool,
}

enum Stream {
    Decided,
    Broken(Status),
}

impl Watch<'_> {
    /// Until `decide` breaks. When the sandbox is gone and that decides nothing, it is an error.
    pub(crate) async fn until<T>(
        &self,
        mut decide: impl FnMut(Seen<'_>) -> ControlFlow<T>,
    ) -> CliResult<T> {
        let deadline = Instant::now() + self.bound;
        let mut last = String::new();
        let mut result = None;
        let mut seen = |seen: Seen<'_>, result: &mut Option<T>| {
            if let Seen::Record(sandbox) = &seen {
                last = describe(sandbox);
            }
            match decide(seen) {
                ControlFlow::Break(value) => {
                    *result = Some(value);
                    true
                }
                ControlFlow::Continue(()) => false,
            }
        };
        let work = async {
            let mut heard = Instant::now();
            let mut ended_before = false;
            loop {
                let broken = match self.follow(&mut seen, &mut result, &mut heard).await {
                    Stream::Decided => return Ok(()),
                    Stream::Broken(status) => status,
                };
                let gone = broken.code() == Code::NotFound;
                if gone && seen(Seen::Gone, &mut result) {
                    return Ok(());
                }
                let passing = matches!(
                    broken.code(),
                    Code::Unavailable | Code::Ok | Code::OutOfRange
                ) || std::error::Error::source(&broken).is_some();
                if gone || !passing || heard.elapsed() > GATEWAY_AWAY {
                    return Err(self.gateway.failed(
                        format!("sandbox {:?} cannot be watched", self.name),
                        &broken,
                    ));
                }
                // A stream that simply ends is the end of the sandbox, as the next look will tell.
                let ended = broken.code() == Code::Ok;
                if !ended || ended_before {
                    tokio::time::sleep(BACK_OFF).await;
                }
                ended_before = ended;
            }
        };
        let ended = tokio::time::timeout_at(deadline, work).await;
        match (ended, result) {
            (_, Some(value)) => Ok(value),
            (Ok(Err(error)), None) => Err(error),
            (Ok(Ok(())), None) | (Err(_), None) => Err(self.timed_out(&last)),
        }
    }

    async fn follow<T>(
        &self,
        seen: &mut impl FnMut(Seen<'_>, &mut Option<T>) -> bool,
        result: &mut Option<T>,
        heard: &mut Instant,
    ) -> Stream {
        let request = api::WatchSandboxRequest {
            workspace_scope: self.gateway.scope(),
            sandbox: self.name.to_owned(),
            follow_status: true,
            follow_events: self.events,
            ..Default::default()
        };
        let mut stream = match self.gateway.api().watch_sandbox(request).await {
            Ok(answer) => answer.into_inner(),
            Err(status) => return Stream::Broken(status),
        };
        loop {
            let event = match stream.message().await {
                Ok(Some(event)) => event,
                Ok(None) => return Stream::Broken(Status::new(Code::Ok, "the stream ended")),
                Err(status) => return Stream::Broken(status),
            };
            *heard = Instant::now();
            let decided = match &event.payload {
                Some(Payload::Sandbox(sandbox)) if !self.is_same(sandbox) => {
                    return Stream::Broken(Status::not_found("another sandbox has this name now"));
                }
                Some(Payload::Sandbox(sandbox)) => seen(Seen::Record(sandbox), result),
                Some(Payload::Event(event)) => seen(Seen::Event(event), result),
                _ => false,
            };
            if decided {
                return Stream::Decided;
            }
        }
    }

    fn is_same(&self, sandbox: &api::Sandbox) -> bool {
        let id = sandbox.metadata.as_ref().map_or("", |m| m.id.as_str());
        self.id.is_empty() || self.id == id
    }

    fn timed_out(&self, last: &str) -> CliError {
        let state = if last.is_empty() { "not known" } else { last };
        CliError::new(
            Exit::TimedOut,
            format!(
                "sandbox {:?}: still {state} after {} s",
                self.name,
                self.bound.as_secs()
            ),
        )
        .hint(format!(
            "what was asked goes on; `openshell sandbox events {}` tells how",
            self.name
        ))
    }
}

/// Phase and reason in a few words.
fn describe(sandbox: &api::Sandbox) -> String {
    let Some(status) = &sandbox.status else {
        return "Unknown".to_owned();
    };
    let phase = phase_name(status.phase());
    match status.conditions.iter().find(|c| c.r#type == "Ready") {
        Some(c) if !c.reason.is_empty() => format!("{phase} ({})", c.reason),
        _ => phase.to_owned(),
    }
}
