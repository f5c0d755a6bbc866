//! `sandbox start|stop|restart`: several at once, each to its end, failures told one by one.

use std::ops::ControlFlow;

use clap::Args;
use futures_util::{StreamExt, stream};
use openshell_proto::api::SandboxPhase as P;
use openshell_proto::{api, plus};

use crate::connect::{Gateway, request_id};
use crate::error::{CliError, CliResult};
use crate::exit::Exit;
use crate::global::GlobalArgs;
use crate::output::{out, say};
use crate::view::SandboxView;
use crate::wait::{Seen, WaitArgs, Watch};

use super::args::NamesArg;
use super::id_of;

/// How many sandboxes are worked on at a time.
pub(super) const AT_A_TIME: usize = 16;

/// `openshell sandbox start`
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  openshell sandbox start demo\n  openshell sandbox start a b c --timeout 60\n\n\
    Works from every phase: Stopped, Completed and Error alike. The files stay."
)]
pub(crate) struct StartArgs {
    #[command(flatten)]
    names: NamesArg,
    #[command(flatten)]
    wait: WaitArgs,
}

/// `openshell sandbox stop`
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  openshell sandbox stop demo\n  openshell sandbox stop a b --no-wait\n  \
    openshell sandbox stop demo --hold --reason 'looks odd'\n\n\
    What is held is started by nobody, not by a restart policy either, until `openshell sandbox release`."
)]
pub(crate) struct StopArgs {
    #[command(flatten)]
    names: NamesArg,
    /// Hold them: nothing starts them before they are released
    #[arg(long)]
    hold: bool,
    /// Why they are held, for whoever wants to start them
    #[arg(
        long,
        value_name = "TEXT",
        requires = "hold",
        default_value = "",
        hide_default_value = true
    )]
    reason: String,
    #[command(flatten)]
    wait: WaitArgs,
}

/// `openshell sandbox release`
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  openshell sandbox release demo\n  openshell sandbox release demo && openshell sandbox start demo"
)]
pub(crate) struct ReleaseArgs {
    #[command(flatten)]
    names: NamesArg,
}

/// `openshell sandbox restart`
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  openshell sandbox restart demo")]
pub(crate) struct RestartArgs {
    #[command(flatten)]
    names: NamesArg,
    #[command(flatten)]
    wait: WaitArgs,
}

impl StartArgs {
    /// Starts them all.
    pub(crate) async fn run(self, global: &GlobalArgs) -> CliResult<Exit> {
        let gateway = Gateway::connect(global).await?;
        let (gateway, wait) = (&gateway, &self.wait);
        each(self.names.names, move |name| async move {
            let request = api::StartSandboxRequest {
                workspace_scope: gateway.scope(),
                name: name.clone(),
                request_id: request_id(),
            };
            let answer = gateway.api().start_sandbox(request).await;
            let answer = answer.map_err(|s| {
                gateway.failed(format!("sandbox {name:?} could not be started"), &s)
            })?;
            let sandbox = answer.into_inner().sandbox.unwrap_or_default();
            if wait.waits() {
                until_running(gateway, &name, id_of(&sandbox), wait).await?;
            }
            Ok(name)
        })
        .await
    }
}

impl StopArgs {
    /// Stops them all.
    pub(crate) async fn run(self, global: &GlobalArgs) -> CliResult<Exit> {
        let gateway = Gateway::connect(global).await?;
        let (gateway, wait) = (&gateway, &self.wait);
        let hold = self.hold.then_some(self.reason.as_str());
        each(self.names.names, move |name| async move {
            let id = match hold {
                Some(reason) => Some(ask_to_hold(gateway, &name, reason).await?),
                None => ask_to_stop(gateway, &name).await?,
            };
            if let Some(id) = id
                && wait.waits()
            {
                until_stopped(gateway, &name, &id, wait).await?;
            }
            Ok(name)
        })
        .await
    }
}

/// Answers with the id if there is something to wait for.
async fn ask_to_stop(gateway: &Gateway, name: &str) -> CliResult<Option<String>> {
    let request = api::StopSandboxRequest {
        workspace_scope: gateway.scope(),
        name: name.to_owned(),
        request_id: request_id(),
    };
    let answer = gateway.api().stop_sandbox(request).await;
    let answer =
        answer.map_err(|s| gateway.failed(format!("sandbox {name:?} could not be stopped"), &s))?;
    let sandbox = answer.into_inner().sandbox.unwrap_or_default();
    Ok((!is_in(&sandbox, P::Stopped)).then(|| id_of(&sandbox).to_owned()))
}

async fn ask_to_hold(gateway: &Gateway, name: &str, reason: &str) -> CliResult<String> {
    let request = plus::HoldSandboxRequest {
        workspace_scope: gateway.scope(),
        name: name.to_owned(),
        reason: reason.to_owned(),
        request_id: request_id(),
    };
    let answer = gateway.plus().hold_sandbox(request).await;
    let life =
        answer.map_err(|s| gateway.failed(format!("sandbox {name:?} could not be held"), &s))?;
    Ok(life.into_inner().sandbox_id)
}

impl ReleaseArgs {
    /// Releases them all.
    pub(crate) async fn run(self, global: &GlobalArgs) -> CliResult<Exit> {
        let gateway = Gateway::connect(global).await?;
        let gateway = &gateway;
        each(self.names.names, move |name| async move {
            let request = plus::ReleaseSandboxRequest {
                workspace_scope: gateway.scope(),
                name: name.clone(),
                request_id: request_id(),
            };
            let answer = gateway.plus().release_sandbox(request).await;
            answer.map_err(|s| {
                gateway.failed(format!("sandbox {name:?} could not be released"), &s)
            })?;
            Ok(name)
        })
        .await
    }
}

impl RestartArgs {
    /// Restarts them all.
    pub(crate) async fn run(self, global: &GlobalArgs) -> CliResult<Exit> {
        let gateway = Gateway::connect(global).await?;
        let (gateway, wait) = (&gateway, &self.wait);
        each(self.names.names, move |name| async move {
            let request = plus::RestartSandboxRequest {
                workspace_scope: gateway.scope(),
                name: name.clone(),
                request_id: request_id(),
            };
            let answer = gateway.plus().restart_sandbox(request).await;
            let life = answer
                .map_err(|s| {
                    gateway.failed(format!("sandbox {name:?} could not be restarted"), &s)
                })?
                .into_inner();
            if wait.waits() {
                until_running(gateway, &name, &life.sandbox_id, wait).await?;
            }
            Ok(name)
        })
        .await
    }
}

fn is_in(sandbox: &api::Sandbox, phase: P) -> bool {
    sandbox.status.as_ref().is_some_and(|s| s.phase() == phase)
}

/// Works on all of them, goes on after a failure, prints the names of those that are done in the order given.
/// The first failure decides the exit code.
pub(super) async fn each<F, Fut>(names: Vec<String>, work: F) -> CliResult<Exit>
where
    F: Fn(String) -> Fut,
    Fut: Future<Output = CliResult<String>>,
{
    let mut results = stream::iter(names.into_iter().map(work)).buffered(AT_A_TIME);
    let mut exit = Exit::Done;
    while let Some(result) = results.next().await {
        match result {
            Ok(name) => out(name),
            Err(error) => {
                say(&error);
                if exit == Exit::Done {
                    exit = error.exit;
                }
            }
        }
    }
    Ok(exit)
}

/// Until a run that was asked for is ready, or has already ended by itself.
async fn until_running(gateway: &Gateway, name: &str, id: &str, wait: &WaitArgs) -> CliResult<()> {
    let mut moved = false;
    let watch = watch(gateway, name, id, wait);
    let ended = watch.until(|seen| match seen {
        Seen::Event(_) => ControlFlow::Continue(()),
        Seen::Gone => ControlFlow::Break(Err(gone(name))),
        Seen::Record(sandbox) => {
            let status = sandbox.status.clone().unwrap_or_default();
            match status.phase() {
                P::Ready | P::Completed => ControlFlow::Break(Ok(())),
                P::Error => ControlFlow::Break(ended_badly(name, "started", sandbox)),
                // Before the first step of the start it may still be shown as it was.
                P::Stopped if moved => ControlFlow::Break(ended_badly(name, "started", sandbox)),
                P::Stopped => ControlFlow::Continue(()),
                P::Deleting => ControlFlow::Break(Err(gone(name))),
                _ => {
                    moved = true;
                    ControlFlow::Continue(())
                }
            }
        }
    });
    ended.await?
}

/// Until it is stopped.
async fn until_stopped(gateway: &Gateway, name: &str, id: &str, wait: &WaitArgs) -> CliResult<()> {
    let watch = watch(gateway, name, id, wait);
    let ended = watch.until(|seen| match seen {
        Seen::Record(sandbox) if is_in(sandbox, P::Stopped) => ControlFlow::Break(Ok(())),
        Seen::Record(sandbox) if SandboxView::new(sandbox, None).reason == "StopFailed" => {
            ControlFlow::Break(ended_badly(name, "stopped", sandbox))
        }
        Seen::Record(sandbox) if is_in(sandbox, P::Deleting) => ControlFlow::Break(Err(gone(name))),
        Seen::Record(sandbox) if is_meant_to_run(sandbox) => {
            ControlFlow::Break(Err(started_again(name)))
        }
        Seen::Gone => ControlFlow::Break(Err(gone(name))),
        _ => ControlFlow::Continue(()),
    });
    ended.await?
}

/// A stop that is taken up shows as Stopping before it is answered: whatever shows as this has been asked for since.
fn is_meant_to_run(sandbox: &api::Sandbox) -> bool {
    [P::Provisioning, P::Starting, P::Ready]
        .into_iter()
        .any(|phase| is_in(sandbox, phase))
}

fn started_again(name: &str) -> CliError {
    CliError::new(
        Exit::Conflict,
        format!("sandbox {name:?} was started by somebody else while it was being stopped"),
    )
    .hint(format!(
        "`openshell sandbox events {name}` tells who came first; `openshell sandbox stop {name} --hold` keeps it stopped"
    ))
}

fn watch<'a>(gateway: &'a Gateway, name: &'a str, id: &'a str, wait: &WaitArgs) -> Watch<'a> {
    Watch {
        gateway,
        name,
        id,
        bound: wait.bound(),
        events: false,
    }
}

fn gone(name: &str) -> CliError {
    CliError::new(
        Exit::Conflict,
        format!("sandbox {name:?} was deleted by somebody else"),
    )
}

/// In the record's own words; a main process that failed by itself has been started all the same.
fn ended_badly(name: &str, verb: &str, sandbox: &api::Sandbox) -> CliResult<()> {
    let view = SandboxView::new(sandbox, None);
    if view.reason == "MainProcessFailed" && verb == "started" {
        say(format_args!(
            "sandbox {name:?} was started; {}",
            view.message
        ));
        return Ok(());
    }
    Err(CliError::new(
        Exit::Failed,
        format!(
            "sandbox {name:?} was not {verb}: {} ({})",
            view.phase, view.reason
        ),
    )
    .why(view.message.as_str())
    .hint(format!(
        "`openshell sandbox events {name}` tells how; it can be tried again"
    )))
}
