//! `openshell-supervisor`: PID 1 of the supervisor's container.

use std::path::PathBuf;
use std::process::ExitCode;

use openshell_core::bootstrap::SUPERVISOR_BOOTSTRAP;
use openshell_supervisor::{Settings, run};
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::EnvFilter;

const USAGE: &str =
    "usage: openshell-supervisor [--bootstrap FILE] [--link-directory DIR] [--version]";

struct Arguments {
    bootstrap: PathBuf,
    link_directory: Option<PathBuf>,
}

fn arguments(mut given: impl Iterator<Item = String>) -> Result<Option<Arguments>, String> {
    let mut arguments = Arguments {
        bootstrap: PathBuf::from(SUPERVISOR_BOOTSTRAP),
        link_directory: None,
    };
    while let Some(argument) = given.next() {
        let mut value = || given.next().ok_or(format!("{argument} needs a value"));
        match argument.as_str() {
            "--bootstrap" => arguments.bootstrap = PathBuf::from(value()?),
            "--link-directory" => arguments.link_directory = Some(PathBuf::from(value()?)),
            "--version" | "-V" => return Ok(None),
            _ => return Err(format!("unknown argument {argument:?}\n{USAGE}")),
        }
    }
    Ok(Some(arguments))
}

#[expect(clippy::print_stdout, reason = "what --version is for")]
fn version() -> ExitCode {
    println!("openshell-supervisor {}", env!("CARGO_PKG_VERSION"));
    ExitCode::SUCCESS
}

fn main() -> ExitCode {
    let arguments = match arguments(std::env::args().skip(1)) {
        Ok(Some(arguments)) => arguments,
        Ok(None) => return version(),
        Err(e) => return usage(&e),
    };
    tracing_subscriber::fmt()
        .json()
        .with_env_filter(
            EnvFilter::try_from_env("OPENSHELL_LOG_LEVEL")
                .unwrap_or_else(|_| EnvFilter::new("info")),
        )
        .with_writer(std::io::stderr)
        .init();
    match supervise(arguments) {
        Ok(code) => ExitCode::from(code),
        Err(e) => {
            tracing::error!("{e}");
            ExitCode::FAILURE
        }
    }
}

#[expect(clippy::print_stderr, reason = "before there is a log")]
fn usage(error: &str) -> ExitCode {
    eprintln!("openshell-supervisor: {error}");
    ExitCode::from(2)
}

fn supervise(arguments: Arguments) -> Result<u8, Box<dyn std::error::Error>> {
    let mut settings = Settings::take(&arguments.bootstrap)?;
    if let Some(directory) = &arguments.link_directory {
        settings = settings.with_link_directory(directory);
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let (mut term, mut int) = (
            signal(SignalKind::terminate())?,
            signal(SignalKind::interrupt())?,
        );
        let shutdown = async move {
            tokio::select! {
                _ = term.recv() => {}
                _ = int.recv() => {}
            }
        };
        Ok(run(settings, shutdown).await?.exit_code())
    })
}
