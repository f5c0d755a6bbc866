//! Processes: what is run, how it is started, where its input and output go.

pub(crate) mod command;
pub(crate) mod exec;
pub(crate) mod launcher;
pub(crate) mod main_process;
pub(crate) mod ring;
pub(crate) mod stdio;

use std::time::Duration;

use openshell_proto::link::{Exit, ProcessSpec};
use rustix::process::Signal;
use tokio::time::timeout;
use tonic::Status;

use crate::clock;
use crate::processes::Ended;
use crate::runtime::Runtime;
use command::Refusal;
use launcher::Started;
use stdio::Ours;

/// A start that takes longer has failed.
const START_BOUND: Duration = Duration::from_secs(30);

/// An end, as the link carries it.
pub(crate) fn exit(ended: Ended) -> Exit {
    Exit {
        code: ended.code,
        signal: ended.signal,
        time: Some(clock::stamp()),
        error: String::new(),
        told: false,
    }
}

/// The end of what never began.
pub(crate) fn never_began(refusal: &Refusal) -> Exit {
    Exit {
        code: refusal.code,
        signal: 0,
        time: Some(clock::stamp()),
        error: refusal.message.clone(),
        told: false,
    }
}

/// Starts a process: `Err` is the caller's or the sandbox's fault, an inner `Err` the command's.
pub(crate) async fn start(
    runtime: &Runtime,
    spec: &ProcessSpec,
) -> Result<Result<(Started, Ours), Refusal>, Status> {
    command::check(spec).map_err(|e| Status::invalid_argument(e.to_string()))?;
    let launcher = runtime.launcher()?;
    if runtime.freezer.is_frozen() {
        return Err(Status::unavailable(
            "the sandbox is frozen; try again when its supervisor lets it go on",
        ));
    }
    let plan = match command::plan(spec, &runtime.base) {
        Ok(plan) => plan,
        Err(refusal) => return Ok(Err(refusal)),
    };
    let ends = if spec.tty {
        stdio::terminal(spec.cols, spec.rows)
    } else {
        stdio::pipes()
    };
    let (ours, theirs) =
        ends.map_err(|e| Status::resource_exhausted(format!("no pipe or terminal left: {e}")))?;
    let started = timeout(START_BOUND, launcher.start(plan, theirs, spec.tty)).await;
    runtime.freezer.catch_up();
    match started {
        Ok(started) => Ok(started.map(|started| (started, ours))),
        Err(_) => Err(Status::deadline_exceeded(
            "the process was not started within 30 s; the sandbox is overloaded",
        )),
    }
}

/// A signal by its number, if it is one.
pub(crate) fn signal(number: i32) -> Option<Signal> {
    Signal::from_named_raw(number)
}
