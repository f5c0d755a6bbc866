//! `sandbox delete`: several at once or all, until nothing of them is left.

use std::io::{BufRead, stdin};
use std::ops::ControlFlow;
use std::time::Duration;

use clap::Args;
use clap_complete::ArgValueCandidates;
use openshell_proto::api::{DeleteSandboxRequest, DeletionOutcome};

use crate::complete;
use crate::connect::{Gateway, request_id};
use crate::error::{CliError, CliResult};
use crate::exit::Exit;
use crate::global::GlobalArgs;
use crate::output::say;
use crate::term;
use crate::wait::{Seen, WaitArgs, Watch};

use super::lifecycle::each;
use super::show::list_all;

/// `openshell sandbox delete`
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  openshell sandbox delete demo\n  openshell sandbox delete a b c\n  openshell sandbox delete --all --selector team=a --yes\n\n\
    A sandbox that does not exist is deleted already: that is no failure."
)]
pub(crate) struct DeleteArgs {
    /// The sandboxes' names
    #[arg(value_name = "NAME", required_unless_present = "all", conflicts_with = "all",
          add = ArgValueCandidates::new(complete::sandboxes))]
    names: Vec<String>,
    /// All sandboxes of the workspace
    #[arg(long)]
    all: bool,
    /// With --all: only those with these labels
    #[arg(
        long,
        value_name = "K=V,…",
        requires = "all",
        default_value = "",
        hide_default_value = true
    )]
    selector: String,
    /// Do not ask
    #[arg(short, long, visible_alias = "yes", short_alias = 'y')]
    force: bool,
    #[command(flatten)]
    wait: WaitArgs,
}

impl DeleteArgs {
    /// Deletes them all.
    pub(crate) async fn run(self, global: &GlobalArgs) -> CliResult<Exit> {
        let gateway = Gateway::connect(global).await?;
        let names = if self.all {
            self.choose(&gateway).await?
        } else {
            self.names
        };
        let (gateway, wait) = (&gateway, self.wait);
        each(names, move |name| async move {
            delete(gateway, &name, &wait).await?;
            Ok(name)
        })
        .await
    }

    async fn choose(&self, gateway: &Gateway) -> CliResult<Vec<String>> {
        let all = list_all(gateway, &self.selector).await?;
        let names: Vec<String> = all
            .into_iter()
            .filter_map(|s| s.metadata)
            .map(|m| m.name)
            .collect();
        if names.is_empty() {
            say("there is nothing to delete");
            return Ok(names);
        }
        if self.force {
            return Ok(names);
        }
        if !term::can_ask() {
            return Err(
                CliError::usage(format!("{} sandboxes would be deleted", names.len()))
                    .why("nobody can be asked: stdin is not a terminal")
                    .hint("add --yes"),
            );
        }
        say(format_args!(
            "delete {} sandboxes of workspace {:?}: {}?",
            names.len(),
            gateway.workspace(),
            names.join(", ")
        ));
        say("type yes to go on:");
        let mut answer = String::new();
        let read = stdin().lock().read_line(&mut answer);
        if read.is_ok() && matches!(answer.trim(), "y" | "yes") {
            return Ok(names);
        }
        Err(CliError::local("nothing is deleted"))
    }
}

async fn delete(gateway: &Gateway, name: &str, wait: &WaitArgs) -> CliResult<()> {
    match accept(gateway, name).await? {
        Accepted::Absent => say(format_args!("sandbox {name:?} did not exist")),
        Accepted::Going(id) if wait.waits() => until_gone(gateway, name, &id, wait.bound()).await?,
        Accepted::Going(_) | Accepted::Gone => {}
    }
    Ok(())
}

/// Deletes exactly this sandbox and waits until it is gone; for whoever made it.
pub(super) async fn remove(
    gateway: &Gateway,
    name: &str,
    id: &str,
    bound: Duration,
) -> CliResult<()> {
    match accept(gateway, name).await? {
        Accepted::Going(_) => until_gone(gateway, name, id, bound).await,
        Accepted::Absent | Accepted::Gone => Ok(()),
    }
}

/// What a request to delete came to.
enum Accepted {
    /// It did not exist.
    Absent,
    /// It is gone.
    Gone,
    /// It is being deleted; its id.
    Going(String),
}

async fn accept(gateway: &Gateway, name: &str) -> CliResult<Accepted> {
    let request = DeleteSandboxRequest {
        workspace_scope: gateway.scope(),
        name: name.to_owned(),
        allow_missing: true,
        request_id: request_id(),
    };
    let answer = gateway.api().delete_sandbox(request).await;
    let answer = answer
        .map_err(|s| gateway.failed(format!("sandbox {name:?} could not be deleted"), &s))?
        .into_inner();
    Ok(match answer.outcome() {
        DeletionOutcome::AlreadyAbsent => Accepted::Absent,
        DeletionOutcome::Completed => Accepted::Gone,
        DeletionOutcome::Accepted | DeletionOutcome::Unspecified => {
            Accepted::Going(answer.sandbox_id)
        }
    })
}

/// Until nothing is left of it.
pub(super) async fn until_gone(
    gateway: &Gateway,
    name: &str,
    id: &str,
    bound: Duration,
) -> CliResult<()> {
    let watch = Watch {
        gateway,
        name,
        id,
        bound,
        events: false,
    };
    watch
        .until(|seen| match seen {
            Seen::Gone => ControlFlow::Break(()),
            Seen::Record(_) | Seen::Event(_) => ControlFlow::Continue(()),
        })
        .await
}
