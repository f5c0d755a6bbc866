//! A forward in the background: this program once more, waited for until it listens.

use std::net::SocketAddr;
use std::process::Stdio;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::process::Command;

use crate::error::{CliError, CliResult};
use crate::exit::Exit;
use crate::global::GlobalArgs;
use crate::output::{out, say};

use super::StartArgs;
use super::relay::READY;

/// What a failed start may say.
const MAX_ERROR: u64 = 16 << 10;

/// Starts it and returns once it listens, or with its error.
pub(super) async fn start(
    global: &GlobalArgs,
    args: &StartArgs,
    address: SocketAddr,
) -> CliResult<Exit> {
    let failed =
        |e: std::io::Error| CliError::local("the forward could not be started").why(e.to_string());
    let mut command = Command::new(std::env::current_exe().map_err(failed)?);
    if let Some(gateway) = &global.gateway {
        command.args(["--gateway", gateway]);
    }
    if let Some(endpoint) = &global.gateway_endpoint {
        command.args(["--gateway-endpoint", endpoint]);
    }
    command
        .args([
            "--workspace",
            &global.workspace,
            "forward",
            "start",
            "--child",
        ])
        .args(["--bind", &args.bind.to_string()])
        .arg(format!("{}:{}", args.ports.local, args.ports.remote))
        .arg(&args.name)
        .current_dir("/")
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().map_err(failed)?;
    let (Some(stdout), Some(stderr)) = (child.stdout.take(), child.stderr.take()) else {
        return Err(CliError::local("the forward could not be started"));
    };
    let mut line = String::new();
    BufReader::new(stdout)
        .read_line(&mut line)
        .await
        .map_err(failed)?;
    if line.trim() == READY {
        say(format_args!(
            "{address} leads to port {} of sandbox {:?}; `openshell forward stop {}` ends it",
            args.ports.remote, args.name, args.ports.local
        ));
        out(args.ports.local);
        return Ok(Exit::Done);
    }
    let mut why = String::new();
    stderr
        .take(MAX_ERROR)
        .read_to_string(&mut why)
        .await
        .map_err(failed)?;
    let status = child.wait().await.map_err(failed)?;
    // It has said what is wrong, in our own words.
    say(why.trim_end());
    let code = status.code().and_then(|c| u8::try_from(c).ok());
    Err(CliError::silent(code.map_or(Exit::Local, Exit::Command)))
}
