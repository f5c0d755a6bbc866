//! The event stream, line by line: single events are kept from the gateway, and told later, or more than once.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context as _, Result};
use bytes::Bytes;
use http_body_util::BodyExt as _;
use hyper::body::{Frame, Incoming};
use serde_json::Value;
use tokio::sync::{mpsc, watch};

use super::flights::{Broken, broken};
use super::known::{Half, Whose};
use super::{Shared, locked};
use crate::wait;

/// So many events may wait for a stream to take them.
const WAITING: usize = 64;
/// So many are kept by one trap; those beyond pass.
const KEPT: usize = 1024;

/// A choice of events.
#[derive(Clone, Debug, Default)]
pub struct Events {
    action: Option<&'static str>,
    container: Option<String>,
    sandbox: Option<String>,
    half: Option<Half>,
}

impl Events {
    /// Of this action: `die`, `start`, `destroy`, `oom`.
    pub fn of_action(action: &'static str) -> Self {
        Self {
            action: Some(action),
            ..Self::default()
        }
    }

    /// Only of this container.
    #[must_use]
    pub fn container(mut self, id: &str) -> Self {
        self.container = Some(id.to_owned());
        self
    }

    /// Only of this sandbox.
    #[must_use]
    pub fn sandbox(mut self, name: &str) -> Self {
        self.sandbox = Some(name.to_owned());
        self
    }

    /// Only of this half.
    #[must_use]
    pub const fn of(mut self, half: Half) -> Self {
        self.half = Some(half);
        self
    }

    fn contains(&self, event: &Value) -> bool {
        let actor = &event["Actor"];
        self.action.is_none_or(|action| event["Action"] == action)
            && self
                .container
                .as_ref()
                .is_none_or(|id| actor["ID"] == id.as_str())
            && Whose::read(&actor["Attributes"]).fits(self.sandbox.as_deref(), self.half)
    }
}

/// Who listens to events, and which are kept from them.
#[derive(Debug, Default)]
pub(super) struct Desk {
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    next: u64,
    listeners: BTreeMap<u64, mpsc::Sender<Bytes>>,
    traps: Vec<Arc<State>>,
}

#[derive(Debug)]
struct State {
    events: Events,
    kept: Mutex<Vec<Bytes>>,
}

impl Desk {
    fn catches(&self, line: &[u8]) -> bool {
        let table = locked(&self.table);
        if table.traps.is_empty() {
            return false;
        }
        let event: Value = serde_json::from_slice(line).unwrap_or_default();
        let trap = table.traps.iter().find(|t| t.events.contains(&event));
        trap.is_some_and(|trap| {
            let mut kept = locked(&trap.kept);
            let room = kept.len() < KEPT;
            if room {
                kept.push(Bytes::copy_from_slice(line));
            }
            room
        })
    }

    /// Tells every stream that is open now.
    fn tell(&self, lines: &[Bytes]) -> usize {
        let listeners: Vec<_> = locked(&self.table).listeners.values().cloned().collect();
        for listener in &listeners {
            for line in lines {
                // One that has hung up meanwhile hears nothing more.
                let _ = listener.blocking_send(line.clone());
            }
        }
        listeners.len()
    }
}

/// Passes an event stream on, line by line, but for what is caught.
pub(super) async fn pump(
    shared: &Shared,
    mut from: Incoming,
    to: mpsc::Sender<Result<Frame<Bytes>, Broken>>,
    mut cut: watch::Receiver<bool>,
) {
    let (teller, mut told) = mpsc::channel(WAITING);
    let number = {
        let mut table = locked(&shared.events.table);
        table.next += 1;
        let number = table.next;
        table.listeners.insert(number, teller);
        number
    };
    let mut rest = Vec::new();
    let last = loop {
        let frame = tokio::select! {
            biased;
            () = broken(&mut cut) => break Some(Broken),
            () = to.closed() => break None,
            Some(line) = told.recv() => {
                // Whether somebody listens is asked above.
                let _ = to.send(Ok(Frame::data(line))).await;
                continue;
            }
            frame = from.frame() => frame,
        };
        match frame {
            None => break None,
            Some(Err(_)) => break Some(Broken),
            Some(Ok(frame)) => {
                rest.extend_from_slice(&frame.into_data().unwrap_or_default());
            }
        }
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = rest.drain(..=end).collect();
            if !shared.events.catches(&line) {
                let _ = to.send(Ok(Frame::data(line.into()))).await;
            }
        }
    };
    locked(&shared.events.table).listeners.remove(&number);
    if let Some(end) = last {
        let _ = to.send(Err(end)).await;
    }
}

/// Keeps events from the gateway until it is released or dropped. What it has caught is told on release.
#[derive(Debug)]
pub struct EventTrap {
    shared: Arc<Shared>,
    state: Arc<State>,
}

impl EventTrap {
    pub(super) fn set(shared: Arc<Shared>, events: Events) -> Self {
        let state = Arc::new(State {
            events,
            kept: Mutex::default(),
        });
        locked(&shared.events.table).traps.push(Arc::clone(&state));
        Self { shared, state }
    }

    /// How many it has caught.
    pub fn met(&self) -> usize {
        locked(&self.state.kept).len()
    }

    /// Waits until it has caught so many.
    ///
    /// # Errors
    /// When the deadline passes.
    pub fn wait_met(&self, events: usize, limit: Duration) -> Result<()> {
        let enough = || Ok((self.met() >= events).then_some(()));
        wait::until(&format!("{events} events to be caught"), limit, enough)
            .with_context(|| format!("{:?}", self.state))
    }

    /// Tells what it has caught, and goes on catching; the same is told again by the release. Says how many
    /// streams heard it.
    pub fn repeat(&self) -> usize {
        let lines = locked(&self.state.kept).clone();
        self.shared.events.tell(&lines)
    }

    /// Tells what it has caught; what comes after passes. Says how many streams heard it.
    pub fn release(self) -> usize {
        self.disarm();
        let lines = std::mem::take(&mut *locked(&self.state.kept));
        self.shared.events.tell(&lines)
    }

    /// Never tells what it has caught; what comes after passes.
    pub fn lose(self) {
        drop(self);
    }

    fn disarm(&self) {
        let mut table = locked(&self.shared.events.table);
        table.traps.retain(|trap| !Arc::ptr_eq(trap, &self.state));
    }
}

impl Drop for EventTrap {
    fn drop(&mut self) {
        self.disarm();
    }
}
