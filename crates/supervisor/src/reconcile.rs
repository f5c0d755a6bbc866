//! Brings the sandbox to what the gateway wants of it: main started, frozen or not, stopped. Each watches what is
//! wanted and what the link is, and acts whenever the two differ; so a broken link or session only delays it.

use std::convert::Infallible;
use std::time::Duration;

use openshell_proto::link::{FreezeRequest, StartMainRequest, StopRequest};
use tokio::time::timeout;
use tonic::Code;

use crate::link::Link;
use crate::run::Outcome;
use crate::state::Run;

/// The sandbox answers calls within this.
const CALL: Duration = Duration::from_secs(30);

/// Starts main once the gateway has said what it is (L10: the sandbox starts it at most once, however often it is
/// asked).
pub(crate) async fn start_main(run: &Run) -> Infallible {
    loop {
        let (request, link) = main_wanted(run).await;
        let answer = timeout(CALL, link.control().start_main(request)).await;
        match answer {
            Ok(Ok(answer)) => {
                let main = answer.into_inner().main;
                run.main.send_modify(|view| view.learn(main));
                if run.main.borrow().not_started() {
                    let message =
                        "the sandbox did not start the main process, and does not say why";
                    run.fail("StartFailed", message.to_owned());
                }
            }
            // What became of it is seen at the next attach.
            Ok(Err(status)) if transient(status.code()) => {
                tracing::warn!("starting main: {}", status.message());
            }
            Ok(Err(status)) => {
                let why = status.message();
                run.fail(
                    "StartFailed",
                    format!("the sandbox refused to start the main process: {why}"),
                );
            }
            Err(_) => run.fail(
                "StartFailed",
                format!("the sandbox did not start the main process within {CALL:?}"),
            ),
        }
        replaced(run, link.epoch).await;
    }
}

fn transient(code: Code) -> bool {
    matches!(code, Code::Unavailable | Code::Cancelled | Code::Unknown)
}

async fn main_wanted(run: &Run) -> (StartMainRequest, Link) {
    let (mut plan, mut link) = (run.plan.subscribe(), run.link.subscribe());
    let mut main = run.main.subscribe();
    loop {
        let request = plan.borrow_and_update().clone();
        let attached = link.borrow_and_update().link();
        let not_started = main.borrow_and_update().not_started();
        if let (Some(request), Some(link), true) = (request, attached, not_started) {
            return (request, link);
        }
        tokio::select! {
            _ = plan.changed() => {}
            _ = link.changed() => {}
            _ = main.changed() => {}
        }
    }
}

/// Waits for another connection than this one.
async fn replaced(run: &Run, epoch: u64) {
    let mut link = run.link.subscribe();
    // The sender lives in `run`.
    drop(
        link.wait_for(|view| view.link().is_some_and(|l| l.epoch != epoch))
            .await,
    );
}

/// Keeps the workload frozen while the gateway wants it so.
pub(crate) async fn freeze(run: &Run) -> Infallible {
    let (mut wanted, mut link) = (run.frozen.subscribe(), run.link.subscribe());
    // A fresh attach thaws.
    let mut applied = (0, false);
    loop {
        let frozen = *wanted.borrow_and_update();
        let attached = link.borrow_and_update().link();
        if let Some(link) = attached {
            if applied.0 != link.epoch {
                applied = (link.epoch, false);
            }
            if applied.1 != frozen {
                let call = timeout(CALL, link.control().freeze(FreezeRequest { frozen })).await;
                match call {
                    Ok(Ok(_)) => applied.1 = frozen,
                    Ok(Err(status)) => tracing::error!(frozen, "freeze: {}", status.message()),
                    Err(_) => tracing::error!(frozen, "freeze: no answer within {CALL:?}"),
                }
            }
        }
        tokio::select! {
            _ = wanted.changed() => {}
            _ = link.changed() => {}
        }
    }
}

/// Ends the run when the gateway says so.
pub(crate) async fn stop(run: &Run) -> Outcome {
    let mut wanted = run.stop.subscribe();
    let grace = match wanted.wait_for(Option::is_some).await {
        Ok(grace) => grace.unwrap_or_default(),
        // The sender lives in `run`.
        Err(_) => Duration::ZERO,
    };
    stop_workload(run, grace).await;
    Outcome::Stopped
}

/// Ends the workload over the link, if there is one; without one it is frozen, and ends by itself.
pub(crate) async fn stop_workload(run: &Run, grace: Duration) {
    let Some(link) = run.link.borrow().link() else {
        tracing::warn!("no link: the sandbox stays frozen and ends by itself");
        return;
    };
    let request = StopRequest {
        grace_millis: u32::try_from(grace.as_millis()).unwrap_or(u32::MAX),
    };
    match timeout(grace + CALL, link.control().stop(request)).await {
        Ok(Ok(answer)) => run
            .main
            .send_modify(|main| main.learn(answer.into_inner().main)),
        Ok(Err(status)) => tracing::warn!("stopping the workload: {}", status.message()),
        Err(_) => tracing::warn!("stopping the workload: no answer"),
    }
}
