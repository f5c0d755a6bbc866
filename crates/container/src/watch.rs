//! Watching an engine: one stream of facts, re-established for as long as somebody listens. A stream that breaks is
//! never taken for an exit (L4).

use std::time::Duration;

use futures_util::StreamExt;
use openshell_lifecycle::driver::{EngineEvent, EngineSignal};
use tokio::sync::mpsc;

use crate::engine::{Engine, EngineError, EngineErrorKind, EventStream, RawEvent};
use crate::labels::{Claim, Part, of_namespace};

const BACKOFF_FIRST: Duration = Duration::from_millis(250);
const BACKOFF_LAST: Duration = Duration::from_secs(5);
/// A quiet stream is trusted only while the engine answers.
const QUIET: Duration = Duration::from_secs(15);

/// How one connection to the stream ended.
enum Ended {
    /// Nobody listens any more.
    Unwanted,
    /// It broke, after having been up or not.
    Broken(EngineError, bool),
}

pub(crate) async fn watch<E: Engine>(
    engine: &E,
    namespace: &str,
    signals: &mpsc::Sender<EngineSignal>,
) {
    let mut backoff = BACKOFF_FIRST;
    let mut told = false;
    loop {
        let ended = tokio::select! {
            biased;
            () = signals.closed() => return,
            ended = connection(engine, namespace, signals) => ended,
        };
        let Ended::Broken(error, was_up) = ended else {
            return;
        };
        if was_up {
            backoff = BACKOFF_FIRST;
            told = false;
        }
        // Once for each loss: what is known does not change while it lasts.
        if !told {
            told = true;
            if signals
                .send(EngineSignal::MonitorLost(error.message))
                .await
                .is_err()
            {
                return;
            }
        }
        tokio::select! {
            () = signals.closed() => return,
            () = tokio::time::sleep(backoff) => {}
        }
        backoff = (backoff * 2).min(BACKOFF_LAST);
    }
}

async fn connection<E: Engine>(
    engine: &E,
    namespace: &str,
    signals: &mpsc::Sender<EngineSignal>,
) -> Ended {
    let facts = match engine.facts().await {
        Ok(facts) => facts,
        Err(e) => return Ended::Broken(e, false),
    };
    // From the moment of that answer on, so that nothing falls between it and the stream.
    let mut events = match engine.events(&of_namespace(namespace), facts.time).await {
        Ok(events) => events,
        Err(e) => return Ended::Broken(e, false),
    };
    if signals
        .send(EngineSignal::Connected(facts.id))
        .await
        .is_err()
    {
        return Ended::Unwanted;
    }
    loop {
        match next(engine, &mut events).await {
            Ok(raw) => {
                let Some(event) = interpret(namespace, raw) else {
                    continue;
                };
                if signals.send(EngineSignal::Event(event)).await.is_err() {
                    return Ended::Unwanted;
                }
            }
            Err(error) => return Ended::Broken(error, true),
        }
    }
}

/// The next event, however long it takes, as long as the engine answers meanwhile.
async fn next<E: Engine>(engine: &E, events: &mut EventStream) -> Result<RawEvent, EngineError> {
    loop {
        match tokio::time::timeout(QUIET, events.next()).await {
            Ok(Some(event)) => return event,
            Ok(None) => {
                return Err(EngineError::new(
                    EngineErrorKind::Unreachable,
                    format!("{} ended its event stream", engine.name()),
                ));
            }
            Err(_) => engine.ping().await?,
        }
    }
}

fn interpret(namespace: &str, raw: RawEvent) -> Option<EngineEvent> {
    let claim = Claim::read(namespace, &raw.labels)?;
    let Part::Half(role) = claim.part else {
        return None;
    };
    Some(EngineEvent {
        sandbox: claim.sandbox,
        role,
        container: raw.container,
        kind: raw.kind,
        time: raw.time,
    })
}
