//! The command tree: nouns, then verbs.

use clap::{Parser, Subcommand};

use crate::cmd;
use crate::error::CliResult;
use crate::exit::{self, Exit};
use crate::global::GlobalArgs;

/// Runs agents in policy-governed sandboxes.
#[derive(Debug, Parser)]
#[command(
    name = "openshell",
    version,
    about = "Runs AI agents in policy-governed sandboxes",
    long_about = "Runs AI agents in policy-governed sandboxes.\n\n\
        Results go to stdout, progress and hints to stderr; nothing asks when stdin is not a terminal.",
    after_help = "Examples:\n  \
        openshell status\n  \
        openshell sandbox create --name demo --from IMAGE --detach -- sleep infinity\n  \
        openshell sandbox exec demo -- ls -l\n  \
        openshell doctor\n\n\
        `openshell help exit-codes` lists the exit codes.",
    disable_help_subcommand = false,
    propagate_version = false,
    subcommand_required = true,
    arg_required_else_help = true
)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: GlobalArgs,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Whether the gateway is there, and whether it knows us
    Status(cmd::status::StatusArgs),
    /// Who the gateway thinks we are
    Whoami(cmd::status::WhoamiArgs),
    /// Versions of this program and of the gateway
    Version(cmd::status::VersionArgs),
    /// Register, choose and look at gateways
    #[command(alias = "gw")]
    Gateway(cmd::gateway::GatewayArgs),
    /// Create, run, look at and delete sandboxes
    #[command(alias = "sb")]
    Sandbox(Box<cmd::sandbox::SandboxArgs>),
    /// Workspaces: separate sets of names
    #[command(alias = "ws")]
    Workspace(cmd::workspace::WorkspaceArgs),
    /// A sandbox's log
    #[command(alias = "lg")]
    Logs(cmd::logs::LogsArgs),
    /// Check policy files
    #[command(alias = "pol")]
    Policy(cmd::policy::PolicyArgs),
    /// Bring a port of a sandbox to this machine
    #[command(alias = "fwd")]
    Forward(cmd::forward::ForwardArgs),
    /// Check the engine, the kernel, certificates, ports and leftovers; say how to mend each
    Doctor(cmd::doctor::DoctorArgs),
    /// Print the completion script of a shell
    Completions(cmd::shell::CompletionsArgs),
    /// Write the man pages into a directory
    #[command(hide = true)]
    Man(cmd::shell::ManArgs),
    /// The exit codes of this program
    #[command(hide = true, long_about = exit::TABLE)]
    ExitCodes,
}

impl Cli {
    /// Does what was asked.
    pub(crate) async fn run(self) -> CliResult<Exit> {
        let global = &self.global;
        match self.command {
            Command::Status(args) => args.run(global).await,
            Command::Whoami(args) => args.run(global).await,
            Command::Version(args) => args.run(global).await,
            Command::Gateway(args) => args.run(global).await,
            Command::Sandbox(args) => args.run(global).await,
            Command::Workspace(args) => args.run(global).await,
            Command::Logs(args) => args.run(global).await,
            Command::Policy(args) => args.run(),
            Command::Forward(args) => args.run(global).await,
            Command::Doctor(args) => args.run(global).await,
            Command::Completions(args) => args.run(),
            Command::Man(args) => args.run(),
            Command::ExitCodes => {
                crate::output::out(exit::TABLE);
                Ok(Exit::Done)
            }
        }
    }
}

#[cfg(test)]
mod tests;
