//! `openshell-sandbox`: the sandbox runtime: PID 1 of the workload. Starts what it is told to, under rules that
//! it has measured; reaps, freezes and ends it; holds no secret that outlives its run.

mod bootstrap;
mod broker;
mod clock;
mod confine;
mod dns;
mod egress;
mod filter;
mod freeze;
mod link;
mod posture;
mod process;
mod processes;
mod run;
mod runtime;
mod sys;

use std::path::Path;
use std::process::ExitCode;

use openshell_core::bootstrap::{NO_BOOTSTRAP_EXIT, SANDBOX_BOOTSTRAP};
use rustix::process::{DumpableBehavior, Resource, Rlimit};

use crate::bootstrap::{Bootstrap, BootstrapError};

/// The exit status of a runtime that could not begin.
const CANNOT_BEGIN: u8 = 70;

/// Why it could not begin.
struct Failure {
    why: String,
    code: u8,
}

impl From<String> for Failure {
    fn from(why: String) -> Self {
        let code = CANNOT_BEGIN;
        Self { why, code }
    }
}

impl From<BootstrapError> for Failure {
    fn from(error: BootstrapError) -> Self {
        let code = match error {
            BootstrapError::Nothing => NO_BOOTSTRAP_EXIT,
            _ => CANNOT_BEGIN,
        };
        let why = error.to_string();
        Self { why, code }
    }
}

fn main() -> ExitCode {
    match begin() {
        // Only the low byte of a status leaves a process.
        Ok(code) => ExitCode::from(u8::try_from(code & 0xff).unwrap_or(CANNOT_BEGIN)),
        Err(failure) => {
            complain(&failure.why);
            ExitCode::from(failure.code)
        }
    }
}

/// To the container's log: there is nobody else to tell yet.
#[expect(
    clippy::print_stderr,
    reason = "the engine's log is the only place left"
)]
fn complain(why: &str) {
    eprintln!("openshell-sandbox: {why}");
}

/// Whoever handed the bootstrap over listens for this: it has been read, by a process that lives.
#[expect(
    clippy::print_stdout,
    reason = "the gateway reads it from the container's standard output"
)]
fn say_that_it_begins(bootstrap: &Bootstrap) {
    println!("openshell-sandbox: run {} begins", bootstrap.generation);
}

fn begin() -> Result<i32, Failure> {
    if std::env::args_os().nth(1).is_some_and(|a| a == "--version") {
        return Ok(version());
    }
    if std::process::id() != 1 {
        return Err(
            "this is the runtime inside a sandbox: it runs only as PID 1 of a container"
                .to_owned()
                .into(),
        );
    }
    sys::keep_heap_small();
    // Before anything else has a chance to look: no memory of ours is readable by our own user, nor dumped.
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)
        .map_err(|e| format!("cannot protect its own memory: {e}"))?;
    let none = Rlimit {
        current: Some(0),
        maximum: Some(0),
    };
    rustix::process::setrlimit(Resource::Core, none)
        .map_err(|e| format!("cannot forbid core dumps: {e}"))?;
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o022));
    let bootstrap = bootstrap::take(Path::new(SANDBOX_BOOTSTRAP))?;
    say_that_it_begins(&bootstrap);
    let result = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .and_then(|tokio| tokio.block_on(run::run(bootstrap)));
    Ok(result.map_err(|e| format!("cannot run: {e}"))?)
}

#[expect(clippy::print_stdout, reason = "it is what was asked for")]
fn version() -> i32 {
    println!("openshell-sandbox {}", env!("CARGO_PKG_VERSION"));
    0
}
