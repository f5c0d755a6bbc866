//! `sandbox …`: one module for each group of verbs.

use clap::{Args, Subcommand};
use openshell_proto::{api, plus};

use crate::connect::Gateway;
use crate::error::CliResult;
use crate::exit::Exit;
use crate::global::GlobalArgs;

pub(crate) mod args;
mod attach;
mod create;
mod delete;
mod events;
mod exec;
mod files;
mod lifecycle;
mod show;
mod template;
mod until;

/// `openshell sandbox`
#[derive(Debug, Args)]
#[command(subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct SandboxArgs {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Create a sandbox, attach to its main process and answer with its status
    Create(Box<create::CreateArgs>),
    /// Show a sandbox: phase, reason, what to do next
    Get(show::GetArgs),
    /// List sandboxes
    #[command(alias = "ls")]
    List(show::ListArgs),
    /// Run a command in a sandbox and answer with its status
    Exec(exec::ExecArgs),
    /// Attach to a sandbox's main process; Ctrl-P Ctrl-Q leaves it running
    #[command(alias = "attach")]
    Connect(attach::ConnectArgs),
    /// Start sandboxes: a new run with the same files
    Start(lifecycle::StartArgs),
    /// Stop sandboxes; their files stay
    Stop(lifecycle::StopArgs),
    /// Let held sandboxes be started again; they stay stopped
    Release(lifecycle::ReleaseArgs),
    /// End the present run and begin a new one
    Restart(lifecycle::RestartArgs),
    /// Delete sandboxes and everything that belongs to them
    #[command(alias = "rm")]
    Delete(delete::DeleteArgs),
    /// Wait until a sandbox is in a phase, or gone
    Wait(until::WaitForArgs),
    /// The lifecycle journal: what came in, what was made of it, why
    Events(events::EventsArgs),
    /// Copy a file or a directory into a sandbox
    Upload(files::UploadArgs),
    /// Copy a file or a directory out of a sandbox
    Download(files::DownloadArgs),
    /// Templates: images, environments and limits under a name
    Template(template::TemplateArgs),
}

impl SandboxArgs {
    /// Does what was asked.
    pub(crate) async fn run(self, global: &GlobalArgs) -> CliResult<Exit> {
        match self.verb {
            Verb::Create(args) => Box::pin(args.run(global)).await,
            Verb::Get(args) => args.run(global).await,
            Verb::List(args) => args.run(global).await,
            Verb::Exec(args) => args.run(global).await,
            Verb::Connect(args) => args.run(global).await,
            Verb::Start(args) => args.run(global).await,
            Verb::Stop(args) => args.run(global).await,
            Verb::Release(args) => args.run(global).await,
            Verb::Restart(args) => args.run(global).await,
            Verb::Delete(args) => args.run(global).await,
            Verb::Wait(args) => args.run(global).await,
            Verb::Events(args) => args.run(global).await,
            Verb::Upload(args) => args.run(global).await,
            Verb::Download(args) => args.run(global).await,
            Verb::Template(args) => args.run(global).await,
        }
    }
}

/// Reads a sandbox's record.
pub(crate) async fn get(gateway: &Gateway, name: &str) -> CliResult<api::Sandbox> {
    let request = api::GetSandboxRequest {
        workspace_scope: gateway.scope(),
        name: name.to_owned(),
    };
    let answer = gateway.api().get_sandbox(request).await;
    answer
        .map(|a| a.into_inner().sandbox.unwrap_or_default())
        .map_err(|s| gateway.failed(format!("sandbox {name:?} could not be read"), &s))
}

/// What the public record has no field for; none where the gateway does not tell.
async fn life(gateway: &Gateway, name: &str) -> Option<plus::Life> {
    let request = plus::GetLifeRequest {
        workspace_scope: gateway.scope(),
        sandbox: name.to_owned(),
    };
    gateway
        .plus()
        .get_life(request)
        .await
        .ok()
        .map(tonic::Response::into_inner)
}

/// The name of a record.
fn name_of(sandbox: &api::Sandbox) -> &str {
    sandbox.metadata.as_ref().map_or("", |m| m.name.as_str())
}

/// The id of a record.
fn id_of(sandbox: &api::Sandbox) -> &str {
    sandbox.metadata.as_ref().map_or("", |m| m.id.as_str())
}
