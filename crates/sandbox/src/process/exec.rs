//! One exec: its output goes into a bounded stream, its input comes from the caller, and it ends with its caller.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use openshell_proto::link::process_input::Input;
use openshell_proto::link::process_output::Output;
use openshell_proto::link::{ProcessInput, ProcessOutput, ProcessSpec, ProcessStarted};
use rustix::process::Signal;
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tonic::{Status, Streaming};

use super::launcher::Started;
use super::stdio::{CHUNK, End, Ours};
use crate::process;
use crate::runtime::Runtime;

/// Where a stream's messages go; few, so that a slow reader holds the process up and not our memory.
pub(crate) type Sender = mpsc::Sender<Result<ProcessOutput, Status>>;
/// Messages on their way.
pub(crate) const QUEUE: usize = 2;
/// What a terminal still has to say when its process has gone; a background process may hold it open for ever.
const TERMINAL_REST: Duration = Duration::from_millis(250);
/// Between TERM and KILL when the caller has gone.
const ABANDONED: Duration = Duration::from_secs(2);
/// What a terminal takes for the end of input.
const END_OF_INPUT: &[u8] = &[4];

/// A message of a stream.
pub(crate) fn output(output: Output) -> ProcessOutput {
    ProcessOutput {
        output: Some(output),
    }
}

/// Ends a process whose caller has gone, unless it has ended before.
struct Leash {
    runtime: Arc<Runtime>,
    pid: i32,
    done: bool,
}

impl Drop for Leash {
    fn drop(&mut self) {
        if self.done {
            return;
        }
        let (runtime, pid) = (Arc::clone(&self.runtime), self.pid);
        self.runtime.tasks.spawn(async move {
            runtime.registry.signal(pid, Signal::HUP, true);
            runtime.registry.signal(pid, Signal::TERM, true);
            sleep(ABANDONED).await;
            runtime.registry.signal(pid, Signal::KILL, true);
        });
    }
}

/// Runs it to its end, whoever wins: the process or its caller.
pub(crate) async fn run(
    runtime: Arc<Runtime>,
    spec: ProcessSpec,
    input: Streaming<ProcessInput>,
    to: Sender,
) {
    let (started, ours) = match process::start(&runtime, &spec).await {
        Err(status) => {
            let _gone = to.send(Err(status)).await;
            return;
        }
        Ok(Err(refusal)) => {
            let exit = process::never_began(&refusal);
            let _gone = to.send(Ok(output(Output::Exit(exit)))).await;
            return;
        }
        Ok(Ok(started)) => started,
    };
    let Started { pid, ended } = started;
    let mut leash = Leash {
        runtime: Arc::clone(&runtime),
        pid,
        done: false,
    };
    let begun = ProcessStarted {
        pid,
        stdin_owner: true,
    };
    if to.send(Ok(output(Output::Started(begun)))).await.is_err() {
        return;
    }
    let Ours {
        stdin,
        stdout,
        stderr,
    } = ours;
    let gone = CancellationToken::new();
    let feed = feed(&runtime, pid, spec.tty, stdin, input);
    let both = async {
        let out = pump(&stdout, Output::Stdout, &to, &gone, spec.tty);
        match &stderr {
            Some(stderr) => {
                let err = pump(stderr, Output::Stderr, &to, &gone, false);
                tokio::join!(out, err);
            }
            None => out.await,
        }
    };
    let end = async {
        let result = ended.await;
        gone.cancel();
        result
    };
    let work = async { tokio::join!(end, both).0 };
    let result = tokio::select! {
        result = work => result,
        // Never ends before the process has, unless the caller has gone.
        () = async { feed.await; std::future::pending().await } => return,
        () = to.closed() => return,
    };
    if let Ok(ended) = result {
        leash.done = true;
        let exit = process::exit(ended);
        let _gone = to.send(Ok(output(Output::Exit(exit)))).await;
    }
}

/// Copies output until its end; when the process has gone, what it left in the pipe.
async fn pump(
    from: &End,
    wrap: fn(Bytes) -> Output,
    to: &Sender,
    gone: &CancellationToken,
    terminal: bool,
) {
    let mut buffer = vec![0; CHUNK];
    loop {
        let chunk = tokio::select! {
            biased;
            chunk = from.read(&mut buffer) => chunk,
            () = gone.cancelled() => break,
        };
        match chunk {
            Ok(Some(bytes)) => {
                if to.send(Ok(output(wrap(bytes)))).await.is_err() {
                    return;
                }
            }
            Ok(None) | Err(_) => return,
        }
    }
    while let Some(bytes) = rest(from, &mut buffer, terminal).await {
        if to.send(Ok(output(wrap(bytes)))).await.is_err() {
            return;
        }
    }
}

/// What is left of the output of a process that has gone. A pipe has it at once; a terminal delivers it a little later.
pub(crate) async fn rest(from: &End, buffer: &mut [u8], terminal: bool) -> Option<Bytes> {
    match from.try_read(buffer) {
        Ok(chunk) => chunk,
        Err(e) if terminal && e.kind() == io::ErrorKind::WouldBlock => {
            timeout(TERMINAL_REST, from.read(buffer)).await.ok()?.ok()?
        }
        Err(_) => None,
    }
}

/// Hands the caller's input on, until the caller has no more.
async fn feed(
    runtime: &Runtime,
    pid: i32,
    terminal: bool,
    stdin: End,
    mut input: Streaming<ProcessInput>,
) {
    let mut stdin = Some(stdin);
    while let Ok(Some(message)) = input.message().await {
        apply(runtime, pid, terminal, &mut stdin, message).await;
    }
    // The caller has closed its half: so is the input, as `StdinClosed` would.
    close(terminal, &mut stdin).await;
}

async fn close(terminal: bool, stdin: &mut Option<End>) {
    if !terminal {
        *stdin = None;
    } else if let Some(end) = stdin {
        // A terminal stays open: it is also where the output comes from.
        let _gone = end.write(END_OF_INPUT).await;
    }
}

/// Does what one message of input says. A process that reads no more only loses what it would not have read.
pub(crate) async fn apply(
    runtime: &Runtime,
    pid: i32,
    terminal: bool,
    stdin: &mut Option<End>,
    message: ProcessInput,
) {
    match message.input {
        Some(Input::Stdin(bytes)) => {
            let broken = match stdin {
                Some(end) => end.write(&bytes).await.is_err(),
                None => false,
            };
            if broken {
                *stdin = None;
            }
        }
        Some(Input::StdinClosed(_)) => close(terminal, stdin).await,
        Some(Input::Resize(size)) => {
            if let Some(end) = stdin.as_ref().filter(|_| terminal) {
                end.resize(size.cols, size.rows);
            }
        }
        Some(Input::Signal(number)) => {
            if let Some(signal) = process::signal(number) {
                runtime.registry.signal(pid, signal, true);
            }
        }
        Some(Input::Exec(_) | Input::AttachMain(_)) | None => {}
    }
}
