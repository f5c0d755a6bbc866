//! What a seed has in store: how many sandboxes, how long, and which troubles how often.

use std::time::Duration;

use openshell_lifecycle::{FenceConfig, RestoreMode, ShutdownMode};

use super::chance::Chance;

/// Troubles of calls and messages, each so many times in a thousand.
#[derive(Clone, Debug, Default)]
pub(crate) struct Odds {
    /// A call takes long before it reaches the engine, or its answer long to come back.
    pub(crate) slow: u64,
    /// A call never reaches the engine.
    pub(crate) unreached: u64,
    /// A call is done, and its answer lost.
    pub(crate) unheard: u64,
    /// The engine refuses.
    pub(crate) refused: u64,
    /// No answer, ever.
    pub(crate) hangs: u64,
    /// The driver panics.
    pub(crate) panics: u64,
    /// A wait breaks, sooner or later.
    pub(crate) wait_breaks: u64,
    /// A wait's outcome is told late.
    pub(crate) wait_late: u64,
    /// An event is never told.
    pub(crate) event_lost: u64,
    /// An event is told twice or three times.
    pub(crate) event_again: u64,
    /// An event is told late, after newer ones.
    pub(crate) event_late: u64,
    /// A session's connection breaks behind a word.
    pub(crate) session_breaks: u64,
    /// A store's call fails.
    pub(crate) store_fails: u64,
    /// The gateway is killed before or behind a store's call.
    pub(crate) dies_at_store: u64,
    /// A main process ends by itself.
    pub(crate) main_ends: u64,
    /// A workload ignores TERM.
    pub(crate) stubborn: u64,
    /// A sandbox does not confirm its enforcement.
    pub(crate) unenforced: u64,
}

/// How often something happens to the world in the time of trouble.
#[derive(Clone, Debug, Default)]
pub(crate) struct Blows {
    pub(crate) gateway_kills: u64,
    pub(crate) gateway_ends: u64,
    pub(crate) engine_restarts: u64,
    pub(crate) engine_empty: u64,
    pub(crate) streams_break: u64,
    pub(crate) supervisor_deaths: u64,
    pub(crate) workload_deaths: u64,
    pub(crate) link_breaks: u64,
    pub(crate) hands: u64,
    pub(crate) foreigners: u64,
    pub(crate) store_outages: u64,
    pub(crate) hung_sandboxes: u64,
}

/// A whole run.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) sandboxes: u64,
    pub(crate) clients: u64,
    /// By each client.
    pub(crate) commands: u64,
    /// The time of trouble.
    pub(crate) length: Duration,
    pub(crate) config: FenceConfig,
    /// After so long without a gateway a supervisor ends its run; none = never.
    pub(crate) gateway_outage_limit: Option<Duration>,
    pub(crate) odds: Odds,
    pub(crate) blows: Blows,
}

impl Plan {
    /// Most are small and troubled in a few ways; a few are large.
    pub(crate) fn draw(chance: &Chance) -> Self {
        let sandboxes = match chance.below(1000) {
            0..2 => chance.between(100, 300),
            2..12 => chance.between(6, 20),
            12..200 => 3,
            200..450 => 2,
            _ => 1,
        };
        let large = sandboxes > 3;
        let clients = if large { 4 } else { chance.between(1, 3) };
        let commands = if large {
            sandboxes / 2
        } else {
            chance.between(2, 6)
        };
        Self {
            sandboxes,
            clients,
            commands,
            length: chance.spread(4_000, 240_000),
            config: config(chance),
            gateway_outage_limit: chance
                .per_mille(300)
                .then(|| chance.spread(20_000, 900_000)),
            odds: odds(chance),
            blows: blows(chance, large),
        }
    }
}

fn config(chance: &Chance) -> FenceConfig {
    let restore = match chance.below(10) {
        0 => RestoreMode::None,
        1 => RestoreMode::Policy,
        _ => RestoreMode::Intent,
    };
    let on_shutdown = if chance.per_mille(200) {
        ShutdownMode::Stop
    } else {
        ShutdownMode::Keep
    };
    FenceConfig {
        restore,
        on_shutdown,
        ..FenceConfig::default()
    }
}

/// Each kind is there or not: runs with everything at once show little.
fn some(chance: &Chance, likely: u64, high: u64) -> u64 {
    if chance.per_mille(likely) {
        chance.between(1, high)
    } else {
        0
    }
}

fn odds(chance: &Chance) -> Odds {
    Odds {
        slow: some(chance, 400, 300),
        unreached: some(chance, 300, 150),
        unheard: some(chance, 300, 150),
        refused: some(chance, 200, 100),
        hangs: some(chance, 120, 60),
        panics: some(chance, 120, 60),
        wait_breaks: some(chance, 300, 400),
        wait_late: some(chance, 300, 600),
        event_lost: some(chance, 300, 500),
        event_again: some(chance, 300, 400),
        event_late: some(chance, 400, 700),
        session_breaks: some(chance, 250, 200),
        store_fails: some(chance, 120, 100),
        dies_at_store: some(chance, 250, 60),
        main_ends: some(chance, 600, 800),
        stubborn: some(chance, 200, 700),
        unenforced: some(chance, 60, 300),
    }
}

fn blows(chance: &Chance, large: bool) -> Blows {
    let few = if large { 4 } else { 2 };
    Blows {
        gateway_kills: some(chance, 450, 3),
        gateway_ends: some(chance, 200, 2),
        engine_restarts: some(chance, 300, 2),
        engine_empty: some(chance, 80, 1),
        streams_break: some(chance, 300, 3),
        supervisor_deaths: some(chance, 350, few),
        workload_deaths: some(chance, 200, few),
        link_breaks: some(chance, 200, few),
        hands: some(chance, 250, few),
        foreigners: some(chance, 150, 2),
        store_outages: some(chance, 150, 1),
        hung_sandboxes: some(chance, 80, 1),
    }
}
