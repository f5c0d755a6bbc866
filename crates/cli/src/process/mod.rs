//! Drives a process at the other end of a stream: stdin with back-pressure and a real end, output in
//! order, signals, window changes, the detach keys, and its exit.

use std::time::Duration;

use openshell_proto::link::{
    Exit as ProcessExit, ProcessOutput, ProcessStarted, WindowSize, process_input, process_output,
};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tonic::Streaming;

mod keys;
mod signals;
mod stdin;
mod stdout;

use crate::error::{CliError, CliResult};
use crate::exit::Exit;
use crate::output::say;
use crate::term::{self, RawMode};
pub(crate) use signals::{Happening, Signals};
use stdin::Uplink;
use stdout::{Downlink, Stream as Out};

/// Messages under way to the gateway: what keeps a fast writer from filling our memory.
pub(crate) const DEPTH: usize = 4;
/// After a signal was passed on, how long the process may take to end.
const SIGNAL_GRACE: Duration = Duration::from_secs(10);

/// How to be connected to it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    /// Raw mode, resizes; signals travel as the bytes of their keys.
    pub(crate) raw: bool,
    /// Send stdin.
    pub(crate) stdin: bool,
    /// Ctrl-P Ctrl-Q leaves without ending it; and say so if stdin belongs to somebody else.
    pub(crate) attached: bool,
    /// We only look on: a signal ends us and not the process.
    pub(crate) looks_on: bool,
}

/// How it ended, as far as we saw.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Outcome {
    /// It ended.
    Exited(ProcessExit),
    /// Its user left it running.
    Detached,
    /// We were told to end by this signal, and it did not end.
    Signalled(i32),
    /// Nobody reads our output any more.
    NoReader,
    /// The stream ended without an exit: why.
    Lost(String),
}

impl Outcome {
    /// The exit code that goes with it; none if the stream was lost.
    pub(crate) fn exit(&self) -> Option<Exit> {
        match self {
            Self::Exited(exit) => Some(Exit::of_process(exit.code)),
            Self::Detached => Some(Exit::Done),
            Self::Signalled(signal) => Some(Exit::of_process(128 + signal)),
            // As a shell reports SIGPIPE.
            Self::NoReader => Some(Exit::Command(141)),
            Self::Lost(_) => None,
        }
    }
}

/// The way up: messages of whatever call it is.
pub(crate) type Wrap<T> = fn(process_input::Input) -> T;

/// Runs until the process ends, or we do.
pub(crate) async fn drive<T: Send + 'static>(
    up: mpsc::Sender<T>,
    wrap: Wrap<T>,
    mut down: Streaming<ProcessOutput>,
    plan: Plan,
) -> CliResult<Outcome> {
    let raw = if plan.raw { RawMode::enter() } else { None };
    let mut signals = Signals::new(raw.is_some())?;
    let mut uplink = Uplink::start(up, wrap, plan);
    let mut writer = Downlink::default();
    let mut waiting: Option<(Out, bytes::Bytes)> = None;
    let mut give_up: Option<(Instant, i32)> = None;
    let outcome = loop {
        let limit = give_up.map_or_else(far_away, |(at, _)| at);
        tokio::select! {
            biased;
            happening = signals.next() => match happening {
                Happening::Resized => uplink.control(resize()),
                Happening::Signal(_) if plan.looks_on => break Outcome::Detached,
                // A second one, or one that takes the terminal away, does not wait.
                Happening::Signal(n) if give_up.is_some() || raw.is_some() => break Outcome::Signalled(n),
                Happening::Signal(n) => {
                    uplink.control(process_input::Input::Signal(n));
                    give_up = Some((Instant::now() + SIGNAL_GRACE, n));
                }
            },
            () = tokio::time::sleep_until(limit), if give_up.is_some() => {
                break Outcome::Signalled(give_up.map_or(0, |(_, n)| n));
            }
            () = uplink.detached(), if plan.attached => break Outcome::Detached,
            room = writer.room(), if waiting.is_some() => match (room, waiting.take()) {
                (Some(permit), Some(chunk)) => permit.send(chunk),
                _ => break Outcome::NoReader,
            },
            message = down.message(), if waiting.is_none() => match received(message)? {
                Received::Output(chunk) => waiting = Some(chunk),
                Received::Started(started) => greet(&started, plan),
                Received::Exited(exit) => break Outcome::Exited(exit),
                Received::Lost(why) => break Outcome::Lost(why),
            },
        }
    };
    if matches!(outcome, Outcome::Exited(_) | Outcome::Lost(_)) {
        // A signal while the rest is written ends us at once.
        tokio::select! {
            () = writer.finish() => {}
            Happening::Signal(n) = signals.next() => return Ok(Outcome::Signalled(n)),
        }
    }
    drop(raw);
    Ok(outcome)
}

enum Received {
    Output((Out, bytes::Bytes)),
    Started(ProcessStarted),
    Exited(ProcessExit),
    Lost(String),
}

fn received(message: Result<Option<ProcessOutput>, tonic::Status>) -> CliResult<Received> {
    let message = match message {
        Ok(message) => message,
        Err(status) => {
            let error = CliError::rpc("the process could not be followed to its end", &status);
            // The gateway or the session has gone; the process has said nothing.
            return match error.exit {
                Exit::Unreachable => Ok(Received::Lost(error.why)),
                _ => Err(error),
            };
        }
    };
    Ok(match message.map(|m| m.output) {
        Some(Some(process_output::Output::Stdout(bytes))) => Received::Output((Out::Stdout, bytes)),
        Some(Some(process_output::Output::Stderr(bytes))) => Received::Output((Out::Stderr, bytes)),
        Some(Some(process_output::Output::Started(started))) => Received::Started(started),
        Some(Some(process_output::Output::Exit(exit))) => Received::Exited(exit),
        Some(None) => Received::Output((Out::Stdout, bytes::Bytes::new())),
        None => Received::Lost("the stream ended without an exit status".to_owned()),
    })
}

fn greet(started: &ProcessStarted, plan: Plan) {
    if plan.attached && plan.stdin && !started.stdin_owner {
        say("attached read-only: somebody else holds its input\r");
    }
}

/// The size of our terminal, as a message.
pub(crate) fn resize() -> process_input::Input {
    let (cols, rows) = term::size();
    process_input::Input::Resize(WindowSize { cols, rows })
}

fn far_away() -> Instant {
    Instant::now() + Duration::from_secs(86_400)
}

#[cfg(test)]
mod tests;
