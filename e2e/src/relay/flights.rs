//! Calls that are under way, so that their connections can be broken.

use std::collections::BTreeMap;
use std::sync::Mutex;

use tokio::sync::watch;

use super::calls::{Call, Calls};
use super::locked;

/// The connection broke, or is to break.
#[derive(Clone, Copy, Debug)]
pub(super) struct Broken;

impl std::fmt::Display for Broken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the connection is broken")
    }
}

impl std::error::Error for Broken {}

#[derive(Debug, Default)]
pub(super) struct Flights {
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    next: u64,
    open: BTreeMap<u64, (Call, watch::Sender<bool>)>,
}

impl Flights {
    /// Notes that a call is under way; [`Flights::end`] takes it out again.
    pub(super) fn begin(&self, call: &Call) -> (u64, watch::Receiver<bool>) {
        let mut table = locked(&self.table);
        let (cut, broken) = watch::channel(false);
        let number = table.next;
        table.next += 1;
        table.open.insert(number, (call.clone(), cut));
        (number, broken)
    }

    pub(super) fn end(&self, number: u64) {
        locked(&self.table).open.remove(&number);
    }

    pub(super) fn cut(&self, calls: &Calls) -> usize {
        let table = locked(&self.table);
        let mut count = 0;
        for (call, cut) in table.open.values() {
            if calls.contains(call) {
                cut.send_replace(true);
                count += 1;
            }
        }
        count
    }

    pub(super) fn count(&self, calls: &Calls) -> usize {
        let table = locked(&self.table);
        let chosen = table.open.values().filter(|(call, _)| calls.contains(call));
        chosen.count()
    }
}

/// Comes back when it is to break; never, if its call has ended.
pub(super) async fn broken(signal: &mut watch::Receiver<bool>) {
    if signal.wait_for(|broken| *broken).await.is_err() {
        std::future::pending().await
    }
}
