//! `sandbox exec`: one connection, one call, and the process's own exit status.

use std::time::Duration;

use clap::Args;
use clap_complete::ArgValueCandidates;
use openshell_proto::link::{ProcessInput, ProcessSpec, process_input};
use openshell_proto::plus::{ExecInput, ExecOpen, exec_input};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

use crate::complete;
use crate::connect::Gateway;
use crate::error::{CliError, CliResult};
use crate::exit::Exit;
use crate::global::GlobalArgs;
use crate::process::{self, Outcome, Plan, drive};
use crate::term;

use super::args::{Pair, map, parse_pair, parse_seconds};

/// `openshell sandbox exec`
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    openshell sandbox exec demo -- ls -l /sandbox\n  \
    openshell sandbox exec demo -- bash                       # a shell, when at a terminal\n  \
    tar c dir | openshell sandbox exec demo -- tar x          # stdin is passed on, and its end\n  \
    openshell sandbox exec -n demo --timeout 30 --env A=1 --workdir /tmp -- make test\n\n\
    The exit code is the command's own; 124 if it timed out, 127 if it does not exist, 125 if its\n\
    outcome is not known because the gateway or its session went away meanwhile.")]
pub(crate) struct ExecArgs {
    /// The sandbox's name
    #[arg(value_name = "NAME", required_unless_present = "name_flag", add = ArgValueCandidates::new(complete::sandboxes))]
    name: Option<String>,
    /// The sandbox's name
    #[arg(short = 'n', long = "name", id = "name_flag", value_name = "NAME", conflicts_with = "name",
          add = ArgValueCandidates::new(complete::sandboxes))]
    name_flag: Option<String>,
    /// Where to run it [default: /sandbox]
    #[arg(
        long,
        value_name = "DIR",
        default_value = "",
        hide_default_value = true
    )]
    workdir: String,
    /// A variable for it; may be given several times
    #[arg(short, long, value_name = "KEY=VALUE", value_parser = parse_pair)]
    env: Vec<Pair>,
    /// End it after so many seconds, with exit code 124
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds)]
    timeout: Option<Duration>,
    /// Give it a terminal [default: if stdin and stdout are terminals]
    #[arg(short, long, conflicts_with = "no_tty")]
    tty: bool,
    /// Give it no terminal
    #[arg(short = 'T', long)]
    no_tty: bool,
    /// Run the command as it stands, not in a login shell
    #[arg(long)]
    no_login_shell: bool,
    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<String>,
}

impl ExecArgs {
    /// Runs it.
    pub(crate) async fn run(self, global: &GlobalArgs) -> CliResult<Exit> {
        let name = self.name.or(self.name_flag).unwrap_or_default();
        let what = format!("the command could not be run in sandbox {name:?}");
        let interactive = term::is_interactive();
        let tty = self.tty || (interactive && !self.no_tty);
        let (cols, rows) = if tty { term::size() } else { (0, 0) };
        let spec = ProcessSpec {
            argv: self.command,
            workdir: self.workdir,
            environment: map(self.env),
            tty,
            cols,
            rows,
            login_shell: !self.no_login_shell,
        };
        let gateway = Gateway::connect(global).await?;
        let open = ExecOpen {
            workspace_scope: gateway.scope(),
            sandbox: name.clone(),
            process: Some(spec),
            timeout_millis: self
                .timeout
                .map_or(0, |t| u64::try_from(t.as_millis()).unwrap_or(u64::MAX)),
        };
        let (up, inputs) = mpsc::channel(process::DEPTH);
        let start = ExecInput {
            input: Some(exec_input::Input::Start(open)),
        };
        // There is room for the first one.
        drop(up.try_send(start));
        let down = gateway.plus().exec(ReceiverStream::new(inputs)).await;
        let down = down
            .map_err(|status| {
                let error = gateway.failed(what, &status);
                // It had been asked for.
                let broken = std::error::Error::source(&status).is_some();
                match error.exit {
                    Exit::Unreachable if broken => unknown(&name, error.why),
                    _ => error,
                }
            })?
            .into_inner();
        let plan = Plan {
            raw: tty && interactive,
            stdin: true,
            attached: false,
            looks_on: false,
        };
        let outcome = drive(up, wrap, down, plan).await?;
        if let Outcome::Exited(exit) = &outcome
            && !exit.error.is_empty()
        {
            crate::output::say(format_args!("openshell: {}", exit.error));
        }
        match outcome {
            Outcome::Lost(why) => Err(unknown(&name, why)),
            outcome => Ok(outcome.exit().unwrap_or(Exit::Failed)),
        }
    }
}

/// Whoever runs it has gone, and has not said how it ended.
fn unknown(name: &str, why: String) -> CliError {
    CliError::new(
        Exit::Failed,
        format!("the outcome of the command is unknown: sandbox {name:?} was lost sight of before it ended"),
    )
    .why(why)
    .hint("it may have done all of its work, or a part; look before you run it again")
}

fn wrap(input: process_input::Input) -> ExecInput {
    ExecInput {
        input: Some(exec_input::Input::Process(ProcessInput {
            input: Some(input),
        })),
    }
}
