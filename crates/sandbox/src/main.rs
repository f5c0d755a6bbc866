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

use openshell_core::bootstrap::SANDBOX_BOOTSTRAP;
use rustix::process::{DumpableBehavior, Resource, Rlimit};

/// The exit status of a runtime that could not begin.
const CANNOT_BEGIN: u8 = 70;

fn main() -> ExitCode {
    match begin() {
        // Only the low byte of a status leaves a process.
        Ok(code) => ExitCode::from(u8::try_from(code & 0xff).unwrap_or(CANNOT_BEGIN)),
        Err(why) => {
            complain(&why);
            ExitCode::from(CANNOT_BEGIN)
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

fn begin() -> Result<i32, String> {
    if std::env::args_os().nth(1).is_some_and(|a| a == "--version") {
        return version();
    }
    if std::process::id() != 1 {
        return Err(
            "this is the runtime inside a sandbox: it runs only as PID 1 of a container".to_owned(),
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
    let bootstrap = bootstrap::take(Path::new(SANDBOX_BOOTSTRAP)).map_err(|e| e.to_string())?;
    let result = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .and_then(|tokio| tokio.block_on(run::run(bootstrap)));
    result.map_err(|e| format!("cannot run: {e}"))
}

#[expect(clippy::print_stdout, reason = "it is what was asked for")]
fn version() -> Result<i32, String> {
    println!("openshell-sandbox {}", env!("CARGO_PKG_VERSION"));
    Ok(0)
}
