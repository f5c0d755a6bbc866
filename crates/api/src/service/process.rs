//! One process inside a sandbox, between its client's stream and its relay. Bounded both ways: who is slow holds
//! up the other side, nobody else. Dropping it ends the process.

use std::collections::VecDeque;
use std::future::pending;
use std::pin::pin;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{Stream, StreamExt as _, stream};
use openshell_proto::link::{self, process_input, process_output};
use openshell_proto::supervisor::{RelayFrame, relay_frame};
use tonic::{Code, Status, Streaming};

use crate::session::Relay;
use crate::status;
use crate::stream::Sink;

/// What a command that ran out of time answers, as `timeout(1)` has it.
pub(super) const TIMED_OUT: i32 = 124;
/// The largest piece of input in one frame.
const PIECE: usize = 32 << 10;
/// The longest that a last word to the sandbox may take.
const LAST_WORD: Duration = Duration::from_secs(1);
const KILL: i32 = 9;

/// Input as a sandbox takes it.
pub(super) fn input(input: process_input::Input) -> link::ProcessInput {
    link::ProcessInput { input: Some(input) }
}

/// Bytes of stdin in pieces.
pub(super) fn stdin(mut data: Bytes) -> impl Iterator<Item = link::ProcessInput> + Send {
    std::iter::from_fn(move || {
        if data.is_empty() {
            return None;
        }
        let piece = data.split_to(data.len().min(PIECE));
        Some(input(process_input::Input::Stdin(piece)))
    })
}

/// The end of stdin.
pub(super) fn stdin_closed() -> link::ProcessInput {
    input(process_input::Input::StdinClosed(link::StdinClosed {}))
}

/// A client's messages as input. `read` refuses what does not belong there; with `close`, the end of the
/// client's stream is the end of stdin.
pub(super) fn inputs<M, R>(
    messages: Streaming<M>,
    read: R,
    close: bool,
) -> impl Stream<Item = Result<link::ProcessInput, Status>> + Send
where
    M: Send + 'static,
    R: Fn(M) -> Result<process_input::Input, Status> + Send + 'static,
{
    struct State<M> {
        messages: Streaming<M>,
        ready: VecDeque<link::ProcessInput>,
        close: bool,
    }
    let state = State {
        messages,
        ready: VecDeque::new(),
        close,
    };
    stream::try_unfold((state, read), |(mut state, read)| async move {
        loop {
            if let Some(next) = state.ready.pop_front() {
                return Ok(Some((next, (state, read))));
            }
            let Some(message) = state.messages.next().await else {
                if std::mem::take(&mut state.close) {
                    return Ok(Some((stdin_closed(), (state, read))));
                }
                return Ok(None);
            };
            match read(message?)? {
                process_input::Input::Stdin(data) => state.ready.extend(stdin(data)),
                process_input::Input::StdinClosed(_) => {
                    state.close = false;
                    state.ready.push_back(stdin_closed());
                }
                other => state.ready.push_back(input(other)),
            }
        }
    })
}

/// Runs it to its end: input in, output out, until the exit, an error, the deadline, or the client's going.
pub(super) async fn run<T>(
    relay: Relay,
    inputs: impl Stream<Item = Result<link::ProcessInput, Status>> + Send,
    timeout: Option<Duration>,
    sink: Sink<T>,
    convert: impl Fn(process_output::Output) -> Vec<T> + Send,
) {
    let Relay {
        to_sandbox,
        mut from_sandbox,
    } = relay;
    let feed = async {
        let mut inputs = pin!(inputs);
        while let Some(next) = inputs.next().await {
            let frame = RelayFrame {
                frame: Some(relay_frame::Frame::Input(next?)),
            };
            if to_sandbox.send(frame).await.is_err() {
                break;
            }
        }
        // No more input is no end: the other side says how it ends.
        pending::<Result<std::convert::Infallible, Status>>().await
    };
    let drain = async {
        loop {
            let output = match from_sandbox.recv().await {
                Some(Ok(RelayFrame {
                    frame: Some(relay_frame::Frame::Output(o)),
                })) => o.output,
                Some(Ok(_)) => None,
                Some(Err(e)) => return Err(status::relay(&e)),
                None => return Err(no_exit()),
            };
            let Some(output) = output else { continue };
            let last = matches!(output, process_output::Output::Exit(_));
            for message in convert(output) {
                if sink.send(Ok(message)).await.is_err() {
                    return Ok(());
                }
            }
            if last {
                return Ok(());
            }
        }
    };
    let expiry = async {
        match timeout {
            Some(limit) => tokio::time::sleep(limit).await,
            None => pending().await,
        }
    };
    let end = tokio::select! {
        Err(e) = feed => Some(Err(e)),
        done = drain => done.err().map(Err),
        () = expiry => {
            let kill = input(process_input::Input::Signal(KILL));
            let frame = RelayFrame { frame: Some(relay_frame::Frame::Input(kill)) };
            // If this cannot be said in time, the end of the relay says it.
            let _ = to_sandbox.send_timeout(frame, LAST_WORD).await;
            Some(Ok(process_output::Output::Exit(timed_out())))
        }
    };
    // Nothing inside waits for a client that takes its last message slowly.
    drop((to_sandbox, from_sandbox));
    let last = match end {
        Some(Ok(output)) => convert(output).into_iter().map(Ok).collect(),
        Some(Err(e)) => vec![Err(e)],
        None => Vec::new(),
    };
    for message in last {
        // A client that went away hears nothing.
        let _ = sink.send(message).await;
    }
}

fn timed_out() -> link::Exit {
    link::Exit {
        code: TIMED_OUT,
        signal: KILL,
        ..link::Exit::default()
    }
}

fn no_exit() -> Status {
    status::error(
        Code::Unavailable,
        "SESSION_LOST",
        "the connection to the sandbox ended without an exit status; the outcome is unknown",
    )
}

#[cfg(test)]
mod tests;
