//! The steps of a create, each of which can be interrupted: ask, wait, attach, clean up.

use std::ops::ControlFlow;
use std::time::Duration;

use openshell_proto::api;
use tokio::time::Instant;

use crate::connect::Gateway;
use crate::error::{CliError, CliResult};
use crate::exit::Exit;
use crate::output::{Format, out, print, say};
use crate::process::{Happening, Outcome, Signals};
use crate::progress::Progress;
use crate::term;
use crate::view::SandboxView;
use crate::wait::{Seen, Watch};

use super::super::attach::{Attached, attach};
use super::super::{delete, get, id_of, life};
use super::CreateArgs;

/// How long an interrupted create waits for an answer that tells what there is to undo.
const ANSWER_PATIENCE: Duration = Duration::from_secs(10);
/// How long a lost attachment is tried again.
const REATTACH: Duration = Duration::from_secs(60);
/// Between two tries.
const BACK_OFF: Duration = Duration::from_millis(200);

/// A sandbox that this command made.
struct Made {
    name: String,
    id: String,
}

/// All steps.
pub(super) async fn run(gateway: &Gateway, args: &CreateArgs) -> CliResult<Exit> {
    let mut signals = Signals::new(false)?;
    let mut progress = Progress::new(args.quiet);
    let sandbox = ask(gateway, args, &mut signals).await?;
    let made = Made {
        name: sandbox
            .metadata
            .as_ref()
            .map(|m| m.name.clone())
            .unwrap_or_default(),
        id: id_of(&sandbox).to_owned(),
    };
    progress.line(&format!("sandbox {:?} is accepted", made.name));
    if args.no_wait {
        report(gateway, args, &sandbox, &made).await?;
        return Ok(Exit::Done);
    }
    let ready = tokio::select! {
        ready = wait(gateway, args, &made, &mut progress) => ready?,
        n = next_signal(&mut signals) => return Err(undo(gateway, &made, n).await),
    };
    if let (true, Some(ready)) = (args.detach, &ready) {
        failed_at_once(ready, &made)?;
        report(gateway, args, ready, &made).await?;
        return Ok(Exit::Done);
    }
    let result = attached(gateway, args, &made, signals).await;
    if args.no_keep && !matches!(result, Ok(None)) {
        // A signal that was meant for the process must not keep this from happening; one that comes now may.
        let mut signals = Signals::new(false)?;
        tokio::select! {
            removed = delete::remove(gateway, &made.name, &made.id, args.bound()) => removed?,
            n = next_signal(&mut signals) => return Err(CliError::silent(Exit::of_process(128 + n))),
        }
    }
    match result? {
        Some(exit) => Ok(exit),
        None => {
            say(format_args!(
                "\ndetached; `openshell sandbox connect {}` attaches again",
                made.name
            ));
            Ok(Exit::Done)
        }
    }
}

async fn next_signal(signals: &mut Signals) -> i32 {
    loop {
        if let Happening::Signal(n) = signals.next().await {
            return n;
        }
    }
}

/// Sends the request. When it is interrupted, only its answer tells whether there is something to undo.
async fn ask(
    gateway: &Gateway,
    args: &CreateArgs,
    signals: &mut Signals,
) -> CliResult<api::Sandbox> {
    let mut api = gateway.api();
    let call = api.create_sandbox(args.request(gateway));
    tokio::pin!(call);
    let answer = tokio::select! {
        answer = &mut call => answer,
        n = next_signal(signals) => {
            say("interrupted; waiting for the gateway's answer, to undo it");
            return Err(match tokio::time::timeout(ANSWER_PATIENCE, call).await {
                Ok(Ok(answer)) => {
                    let sandbox = answer.into_inner().sandbox.unwrap_or_default();
                    let name = sandbox.metadata.as_ref().map(|m| m.name.clone()).unwrap_or_default();
                    let id = id_of(&sandbox).to_owned();
                    undo(gateway, &Made { name, id }, n).await
                }
                Ok(Err(_)) => CliError::silent(Exit::of_process(128 + n)),
                Err(_) => CliError::new(Exit::of_process(128 + n), "the gateway has not answered")
                    .hint("`openshell sandbox list` shows whether a sandbox was made"),
            });
        }
    };
    let what = match &args.name {
        Some(name) => format!("sandbox {name:?} could not be created"),
        None => "the sandbox could not be created".to_owned(),
    };
    let answer = answer.map_err(|s| gateway.failed(what, &s))?;
    Ok(answer.into_inner().sandbox.unwrap_or_default())
}

/// Deletes what this command made, and says so.
async fn undo(gateway: &Gateway, made: &Made, signal: i32) -> CliError {
    let exit = Exit::of_process(128 + signal);
    say(format_args!(
        "interrupted; deleting sandbox {:?}",
        made.name
    ));
    match delete::remove(gateway, &made.name, &made.id, REATTACH).await {
        Ok(()) => {
            say(format_args!("sandbox {:?} is deleted", made.name));
            CliError::silent(exit)
        }
        Err(e) => CliError { exit, ..e },
    }
}

/// Waits until its first run is ready, has ended, or has failed. Whoever wants to attach can do so as soon as
/// the supervisor is in session (none then): a short main process is not waited for any longer than that.
async fn wait(
    gateway: &Gateway,
    args: &CreateArgs,
    made: &Made,
    progress: &mut Progress,
) -> CliResult<Option<api::Sandbox>> {
    use api::SandboxPhase as P;
    let watch = Watch {
        gateway,
        name: &made.name,
        id: &made.id,
        bound: args.bound(),
        events: true,
    };
    let ended = watch.until(|seen| {
        progress.seen(&seen);
        match seen {
            Seen::Record(sandbox) => match sandbox.status.as_ref().map(api::SandboxStatus::phase) {
                Some(P::Ready | P::Completed | P::Error | P::Stopped) => {
                    ControlFlow::Break(Ok(Some(sandbox.clone())))
                }
                Some(P::Deleting) => ControlFlow::Break(Err(deleted(made))),
                _ => ControlFlow::Continue(()),
            },
            Seen::Event(event) if !args.detach && is_of_session(event) => {
                ControlFlow::Break(Ok(None))
            }
            Seen::Event(_) => ControlFlow::Continue(()),
            Seen::Gone => ControlFlow::Break(Err(deleted(made))),
        }
    });
    ended.await?
}

/// Whether it came from the supervisor's session: there is one.
fn is_of_session(event: &api::PlatformEvent) -> bool {
    event
        .metadata
        .get("input")
        .is_some_and(|input| input.starts_with("session "))
}

fn deleted(made: &Made) -> CliError {
    CliError::new(
        Exit::Conflict,
        format!("sandbox {:?} was deleted by somebody else", made.name),
    )
}

/// A first run that never was. A main process that failed by itself is not our failure.
fn failed_at_once(sandbox: &api::Sandbox, made: &Made) -> CliResult<()> {
    let view = SandboxView::new(sandbox, None);
    if !matches!(view.phase, "Error" | "Stopped") {
        return Ok(());
    }
    let name = &made.name;
    Err(CliError::new(
        Exit::Failed,
        format!(
            "sandbox {name:?} did not become ready: {} ({})",
            view.phase, view.reason
        ),
    )
    .why(view.message)
    .hint(format!(
        "`openshell sandbox events {name}` tells how; `openshell sandbox delete {name}` removes it"
    )))
}

/// The name, or the record as asked.
async fn report(
    gateway: &Gateway,
    args: &CreateArgs,
    sandbox: &api::Sandbox,
    made: &Made,
) -> CliResult<()> {
    match args.output {
        None | Some(Format::Name) => {
            out(&made.name);
            Ok(())
        }
        Some(format) => {
            let life = life(gateway, &made.name).await;
            let view = SandboxView::new(sandbox, life.as_ref());
            print(
                &view,
                format,
                || made.name.clone(),
                || view.details(crate::clock::now()),
            )
        }
    }
}

/// Attaches until the main process ends; none if its user detached. An attachment that breaks is made again.
async fn attached(
    gateway: &Gateway,
    args: &CreateArgs,
    made: &Made,
    mut signals: Signals,
) -> CliResult<Option<Exit>> {
    let mut how = Attached {
        raw: args.wants_tty() && term::is_interactive(),
        stdin: true,
        looks_on: false,
        replay: true,
    };
    let mut since = Instant::now();
    loop {
        let begun = Instant::now();
        match attach(gateway, &made.name, how).await {
            Ok(Outcome::Detached) => return Ok(None),
            // Once some of it has been shown, it is not shown again.
            Ok(Outcome::Lost(_)) => how.replay = false,
            Ok(outcome) => return Ok(outcome.exit()),
            Err(e)
                if matches!(
                    e.exit,
                    Exit::Conflict | Exit::Unreachable | Exit::Failed | Exit::NotFound
                ) => {}
            Err(e) => return Err(e),
        }
        if begun.elapsed() > REATTACH {
            since = Instant::now();
        }
        let settled = tokio::select! {
            settled = settle(gateway, made) => settled?,
            n = next_signal(&mut signals) => return Ok(Some(Exit::of_process(128 + n))),
        };
        if settled.is_some() {
            return Ok(settled);
        }
        if since.elapsed() > REATTACH {
            return Err(CliError::new(
                Exit::Unreachable,
                format!("sandbox {:?} could not be attached to", made.name),
            )
            .why(format!("tried for {} seconds", REATTACH.as_secs()))
            .hint(format!(
                "it may be running: `openshell sandbox get {}`",
                made.name
            )));
        }
    }
}

/// It has ended meanwhile, or the way to it was lost: the record knows. None, after a pause, to try again.
async fn settle(gateway: &Gateway, made: &Made) -> CliResult<Option<Exit>> {
    match get(gateway, &made.name).await {
        Ok(sandbox) => {
            if let Some(exit) = exit_of(&sandbox, made)? {
                return Ok(Some(exit));
            }
        }
        Err(e) if e.exit != Exit::Unreachable => return Err(e),
        Err(_) => {}
    }
    tokio::time::sleep(BACK_OFF).await;
    Ok(None)
}

/// The exit that the record tells; none while it runs.
fn exit_of(sandbox: &api::Sandbox, made: &Made) -> CliResult<Option<Exit>> {
    use api::SandboxPhase as P;
    let status = sandbox.status.clone().unwrap_or_default();
    match (status.phase(), status.exit_code) {
        (P::Completed | P::Error | P::Stopped, Some(code)) => Ok(Some(Exit::of_process(code))),
        (P::Completed, None) => Ok(Some(Exit::Done)),
        (P::Error | P::Stopped, None) => failed_at_once(sandbox, made).map(|()| None),
        (P::Deleting, _) => Err(CliError::new(
            Exit::Conflict,
            format!("sandbox {:?} is being deleted", made.name),
        )),
        _ => Ok(None),
    }
}
