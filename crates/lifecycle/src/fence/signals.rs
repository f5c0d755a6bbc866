//! What the engine tells by itself, dispatched to the cells. A cell that is busy delays no other (L15).

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::FutureExt as _;
use openshell_core::SandboxId;
use tokio::sync::mpsc;
use tracing::{debug, info, warn};

use super::cell::Message;
use super::effects::bounded;
use super::index::Entry;
use super::service::Shared;
use crate::driver::{ComputeDriver, EngineSignal, Role};
use crate::machine::Input;

/// So many signals may wait to be dispatched.
const SIGNALS: usize = 256;
/// A watch that ended by itself is begun again after this.
const AGAIN: Duration = Duration::from_secs(1);

/// Begins to watch the engine, until the gateway ends.
pub(super) fn begin<D: ComputeDriver>(shared: &Arc<Shared<D>>) {
    let (told, signals) = mpsc::channel(SIGNALS);
    let watching = Arc::clone(shared);
    shared.spawn(async move {
        let closing = watching.closing.clone();
        closing.run_until_cancelled(watch(&watching, told)).await;
    });
    let dispatching = Arc::clone(shared);
    shared.spawn(async move {
        let closing = dispatching.closing.clone();
        closing
            .run_until_cancelled(dispatch(&dispatching, signals))
            .await;
    });
}

async fn watch<D: ComputeDriver>(shared: &Shared<D>, told: mpsc::Sender<EngineSignal>) {
    loop {
        let watch = AssertUnwindSafe(shared.driver.watch(told.clone())).catch_unwind();
        if watch.await.is_err() {
            warn!("the driver's watch failed in an unforeseen way; it is begun again");
        }
        tokio::time::sleep(AGAIN).await;
    }
}

async fn dispatch<D: ComputeDriver>(
    shared: &Arc<Shared<D>>,
    mut signals: mpsc::Receiver<EngineSignal>,
) {
    let mut swept = false;
    while let Some(signal) = signals.recv().await {
        match signal {
            EngineSignal::Connected(engine) => {
                info!(engine = %engine.0, "the engine is in sight");
                for entry in shared.index.entries() {
                    tell(&entry, Input::EngineConnected(engine.clone()));
                }
                if !swept {
                    swept = sweep(shared).await;
                }
            }
            EngineSignal::MonitorLost(why) => {
                warn!("the engine is out of sight: {why}");
                for entry in shared.index.entries() {
                    tell(&entry, Input::EngineLost(why.clone()));
                }
            }
            EngineSignal::Event(event) => match shared.index.entry(event.sandbox) {
                Some(entry) => tell(&entry, Input::Event(event)),
                None => debug!(sandbox = %event.sandbox, "an event of no sandbox of ours"),
            },
        }
    }
}

/// Never waits: a cell that cannot take it now looks for itself when it can.
fn tell(entry: &Entry, input: Input) {
    if entry.mailbox.try_send(Message::Input(input)).is_err() {
        entry.missed.store(true, Ordering::Relaxed);
    }
}

/// Once, when the engine is first in sight: what interrupted starts have left, and what no record knows.
async fn sweep<D: ComputeDriver>(shared: &Arc<Shared<D>>) -> bool {
    // A driver that fails or says nothing must not end the dispatch of its signals.
    let owned = match bounded(shared.config.engine_call, shared.driver.list_owned()).await {
        Ok(owned) => owned,
        Err(error) => {
            warn!("what the engine holds cannot be listed: {error}");
            return false;
        }
    };
    for found in owned {
        if shared.index.is_unreadable(found.sandbox) {
            continue;
        }
        let Some(entry) = known(shared, found.sandbox) else {
            warn!(
                container = %found.container, name = %found.name,
                "a container with our labels belongs to no sandbox; it is left alone (`openshell doctor` tells more)"
            );
            continue;
        };
        if let (Role::Supervisor, Some(generation), false) =
            (found.role, found.generation, found.running)
        {
            tell(&entry, Input::Stray(found.container, generation));
        }
    }
    true
}

fn known<D: ComputeDriver>(shared: &Shared<D>, id: SandboxId) -> Option<Entry> {
    shared.index.entry(id)
}
