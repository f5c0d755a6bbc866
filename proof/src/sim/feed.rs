//! The engine's events on their way to one gateway: late, twice, out of order, or never.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use openshell_core::Timestamp;
use openshell_lifecycle::driver::{EngineEvent, EngineEventKind};
use openshell_lifecycle::simulated::{Board, Happening, HappeningKind};
use tokio::time::Instant;

use super::world::{World, locked};

/// More than this on the way are lost: the stream is bounded like every other.
const ON_THE_WAY: usize = 4096;

/// What is on its way to one gateway, by when it arrives.
pub(crate) struct Feed {
    events: Mutex<BTreeMap<(Instant, u64), EngineEvent>>,
    next: Mutex<u64>,
    changed: Board<()>,
    breaks: Board<()>,
}

impl Feed {
    pub(crate) fn new(world: &World) -> Arc<Self> {
        let feed = Arc::new(Self {
            events: Mutex::default(),
            next: Mutex::default(),
            changed: Board::default(),
            breaks: Board::default(),
        });
        let mut feeds = locked(&world.feeds);
        feeds.retain(|feed| feed.strong_count() > 0);
        feeds.push(Arc::downgrade(&feed));
        feed
    }

    fn put(&self, due: Instant, event: EngineEvent) {
        let mut events = locked(&self.events);
        if events.len() >= ON_THE_WAY {
            return;
        }
        let mut next = locked(&self.next);
        *next += 1;
        events.insert((due, *next), event);
        self.changed.change(|()| {});
    }

    /// The connection breaks; what was on its way is lost.
    pub(crate) fn break_off(&self) {
        locked(&self.events).clear();
        self.breaks.change(|()| {});
    }

    /// Hears of the connection's break.
    pub(crate) const fn breaks(&self) -> &Board<()> {
        &self.breaks
    }

    /// The next event, when it arrives.
    pub(crate) async fn next(&self) -> EngineEvent {
        loop {
            let seen = self.changed.version();
            let first = locked(&self.events).keys().next().copied();
            match first {
                Some(key) if key.0 <= Instant::now() => {
                    if let Some(event) = locked(&self.events).remove(&key) {
                        return event;
                    }
                }
                Some((due, _)) => {
                    tokio::select! {
                        biased;
                        () = self.changed.newer_than(seen) => {}
                        () = tokio::time::sleep_until(due) => {}
                    }
                }
                None => self.changed.newer_than(seen).await,
            }
        }
    }
}

/// Tells every gateway's stream what happened, as well as the stream is able to.
pub(crate) fn tell(world: &World, happening: &Happening) {
    let (kind, oom) = match &happening.kind {
        HappeningKind::Made => return,
        HappeningKind::Started(_) => (EngineEventKind::Started, false),
        HappeningKind::Ended(exit) => (EngineEventKind::Died { code: exit.code }, exit.oom_killed),
        HappeningKind::Removed(_) => (EngineEventKind::Removed, false),
    };
    let feeds: Vec<Arc<Feed>> = locked(&world.feeds)
        .iter()
        .filter_map(std::sync::Weak::upgrade)
        .collect();
    for feed in feeds {
        if oom {
            send(
                world,
                &feed,
                event(happening, EngineEventKind::OutOfMemory, happening.at),
            );
        }
        send(world, &feed, event(happening, kind.clone(), happening.at));
    }
}

fn event(happening: &Happening, kind: EngineEventKind, time: Timestamp) -> EngineEvent {
    EngineEvent {
        sandbox: happening.sandbox,
        role: happening.role,
        container: happening.container.clone(),
        kind,
        time,
    }
}

fn send(world: &World, feed: &Feed, event: EngineEvent) {
    let odds = &world.plan.odds;
    if world.trouble(odds.event_lost) {
        return;
    }
    let times = if world.trouble(odds.event_again) {
        world.chance.between(2, 3)
    } else {
        1
    };
    for _ in 0..times {
        let late = if world.trouble(odds.event_late) {
            world.chance.spread(50, 120_000)
        } else {
            world.chance.millis(0, 5)
        };
        feed.put(Instant::now() + late, event.clone());
    }
}

/// How long a broken stream stays away before it is tried again.
pub(crate) const AGAIN: Duration = Duration::from_millis(250);
