//! `sandbox connect`, and the attached half of `create`: the main process and our terminal.

use clap::Args;
use openshell_proto::link::{AttachMainStart, ProcessInput, process_input};
use openshell_proto::plus::{AttachMainInput, AttachMainOpen, attach_main_input};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

use crate::connect::Gateway;
use crate::error::{CliError, CliResult};
use crate::exit::Exit;
use crate::global::GlobalArgs;
use crate::output::say;
use crate::process::{self, Outcome, Plan, drive, resize};
use crate::term;

use super::args::NameArg;

/// `openshell sandbox connect`
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  openshell sandbox connect demo\n\n\
    The last output is shown first. Ctrl-P Ctrl-Q leaves the process running.\n\
    The exit code is that of the main process, if it ends meanwhile.")]
pub(crate) struct ConnectArgs {
    #[command(flatten)]
    name: NameArg,
}

impl ConnectArgs {
    /// Attaches; reads only where main has no terminal or we have none.
    pub(crate) async fn run(self, global: &GlobalArgs) -> CliResult<Exit> {
        let name = &self.name.name;
        let gateway = Gateway::connect(global).await?;
        let sandbox = super::get(&gateway, name).await?;
        let tty = sandbox.spec.as_ref().is_some_and(|s| s.tty);
        let interactive = tty && term::is_interactive();
        if interactive {
            say("attached; Ctrl-P Ctrl-Q leaves it running");
        } else {
            say("attached read-only; Ctrl-C leaves");
        }
        let attached = Attached {
            raw: interactive,
            stdin: interactive,
            looks_on: !interactive,
            replay: true,
        };
        let outcome = attach(&gateway, name, attached).await?;
        match outcome {
            Outcome::Detached => {
                say("\ndetached; it goes on");
                Ok(Exit::Done)
            }
            Outcome::Lost(why) => Err(lost(name, &why)),
            outcome => Ok(outcome.exit().unwrap_or(Exit::Failed)),
        }
    }
}

/// How to attach.
#[derive(Clone, Copy, Debug)]
pub(super) struct Attached {
    /// Our terminal is the process's.
    pub(super) raw: bool,
    /// Our stdin is the process's.
    pub(super) stdin: bool,
    /// A signal ends us, not the process: we only look on.
    pub(super) looks_on: bool,
    /// From the beginning of what is kept.
    pub(super) replay: bool,
}

/// Attaches.
pub(super) async fn attach(gateway: &Gateway, name: &str, how: Attached) -> CliResult<Outcome> {
    let (up, inputs) = mpsc::channel(process::DEPTH);
    let start = AttachMainInput {
        input: Some(attach_main_input::Input::Start(AttachMainOpen {
            workspace_scope: gateway.scope(),
            sandbox: name.to_owned(),
            attach: Some(AttachMainStart {
                want_stdin: how.stdin,
                replay: how.replay,
            }),
        })),
    };
    // There is room for the first ones.
    drop(up.try_send(start));
    if how.raw {
        drop(up.try_send(wrap(resize())));
    }
    let down = gateway
        .plus()
        .attach_main(ReceiverStream::new(inputs))
        .await;
    let down = down
        .map_err(|s| gateway.failed(format!("sandbox {name:?} could not be attached to"), &s))?
        .into_inner();
    let plan = Plan {
        raw: how.raw,
        stdin: how.stdin,
        attached: true,
        looks_on: how.looks_on,
    };
    drive(up, wrap, down, plan).await
}

/// The process may well go on.
fn lost(name: &str, why: &str) -> CliError {
    CliError::new(
        Exit::Failed,
        format!("the connection to the main process of sandbox {name:?} ended; whether the process goes on is not known"),
    )
    .why(why)
    .hint(format!(
        "`openshell sandbox get {name}` shows what became of it"
    ))
}

fn wrap(input: process_input::Input) -> AttachMainInput {
    AttachMainInput {
        input: Some(attach_main_input::Input::Process(ProcessInput {
            input: Some(input),
        })),
    }
}
