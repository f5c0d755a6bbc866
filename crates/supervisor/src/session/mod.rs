//! The session with the gateway: dials while the link is still being made, speaks as soon as there is something to
//! say, comes back after every break, and ends the run when the gateway stays away for too long.

pub mod backoff;
mod conversation;
mod gateway;
mod renewal;

use std::time::Duration;

use openshell_proto::supervisor::{FromSupervisor, Hello, RunFailed, from_supervisor};
use tokio::time::{Instant, sleep, sleep_until};

use self::conversation::Conversation;
pub(crate) use self::gateway::Gateway;
use crate::link::Link;
use crate::reconcile;
use crate::run::Outcome;
use crate::state::{Failure, MainView, Run};

/// Keeps the session until the run is over.
pub(crate) async fn run(run: &Run) -> Outcome {
    let spread = run.instance.as_uuid().as_bytes()[15];
    let mut since = Instant::now();
    let mut limit = run.timings.outage;
    // The very first try waits for nothing.
    let mut wait = Duration::ZERO;
    let mut attempt: u32 = 0;
    loop {
        let opened = tokio::select! {
            biased;
            opened = open(run, wait) => opened,
            () = away_too_long(since, limit) => return give_up(run, limit).await,
            () = unreported(run) => return Outcome::Failed,
        };
        match opened {
            Ok(conversation) => {
                let ended = conversation.keep().await;
                if ended.reported {
                    return Outcome::Failed;
                }
                tracing::warn!(accepted = ended.accepted, "session ended: {}", ended.why);
                if let Some(outage) = ended.outage_limit {
                    limit = outage;
                }
                if ended.accepted {
                    (since, attempt) = (Instant::now(), 0);
                }
            }
            Err(OpenError::Reported) => return Outcome::Failed,
            // Ever more rarely: an outage may last for days.
            Err(OpenError::Failed(why)) if attempt == 0 || attempt.is_power_of_two() => {
                tracing::warn!(attempt, "no session: {why}");
            }
            Err(OpenError::Failed(_)) => {}
        }
        wait = backoff::delay(attempt, since.elapsed(), spread);
        attempt += 1;
    }
}

enum OpenError {
    /// Try again.
    Failed(String),
    /// The gateway was told that the run has failed.
    Reported,
}

async fn open(run: &Run, wait: Duration) -> Result<Conversation<'_>, OpenError> {
    sleep(wait).await;
    let gateway = Gateway::connect(run).await.map_err(OpenError::Failed)?;
    let first = first_word(run).await;
    let failed = matches!(first, First::Failed(_));
    let (message, said) = match first {
        First::Hello(hello, main) => (from_supervisor::Message::Hello(*hello), main),
        First::Failed(failure) => {
            let main = MainView::default();
            (from_supervisor::Message::Failed(failure), main)
        }
    };
    let message = FromSupervisor {
        message: Some(message),
    };
    match Conversation::open(run, gateway, message, said).await {
        Ok(conversation) => Ok(conversation),
        // The gateway answers a failure with a refusal: it has heard.
        Err(status) if failed && status.code() == tonic::Code::FailedPrecondition => {
            Err(OpenError::Reported)
        }
        Err(status) => Err(OpenError::Failed(status.message().to_owned())),
    }
}

enum First {
    Hello(Box<Hello>, MainView),
    Failed(RunFailed),
}

/// Waits until the sandbox has been attached once, or the run has failed before that.
async fn first_word(run: &Run) -> First {
    let (mut posture, mut failure) = (run.posture.subscribe(), run.failure.subscribe());
    loop {
        if let Some(failure) = failure.borrow_and_update().clone() {
            return First::Failed(failed(run, failure));
        }
        if let Some(measured) = posture.borrow_and_update().clone() {
            let main = run.main.borrow().clone();
            let hello = Hello {
                sandbox_id: run.bootstrap.sandbox_id.to_string(),
                generation: run.bootstrap.generation.0,
                instance_id: run.instance.to_string(),
                version: env!("CARGO_PKG_VERSION").to_owned(),
                posture: Some(measured),
                main: Some(main.state()),
            };
            return First::Hello(Box::new(hello), main);
        }
        tokio::select! {
            _ = posture.changed() => {}
            _ = failure.changed() => {}
        }
    }
}

fn failed(run: &Run, failure: Failure) -> RunFailed {
    RunFailed {
        reason: failure.reason.to_owned(),
        message: failure.message,
        instance_id: run.instance.to_string(),
    }
}

fn link_now(run: &Run) -> Option<Link> {
    run.link.borrow().link()
}

async fn away_too_long(since: Instant, limit: Duration) {
    if limit.is_zero() {
        std::future::pending().await
    } else {
        sleep_until(since + limit).await;
    }
}

/// The run has failed, and the gateway could not be told in time.
async fn unreported(run: &Run) {
    let mut failure = run.failure.subscribe();
    // The sender lives in `run`.
    drop(failure.wait_for(Option::is_some).await);
    sleep(run.timings.report).await;
}

/// Fail closed: without a gateway nobody governs this run.
async fn give_up(run: &Run, limit: Duration) -> Outcome {
    tracing::error!("the gateway has been away for {limit:?}: ending the run");
    let over = run.main.borrow().exit.is_some();
    let grace = Duration::from_millis(run.bootstrap.stop_grace_millis);
    reconcile::stop_workload(run, grace).await;
    if over {
        Outcome::Unreported
    } else {
        Outcome::GatewayUnreachable
    }
}
