//! A relay for an engine's socket that stands between a gateway and its engine and, where a test asks for it,
//! holds, delays, cuts, doubles or answers chosen calls and events. What is not chosen passes as it is: chunked
//! streams, long polls, upgraded connections.
//!
//! ```text
//! gateway ──▶ relay.sock ──▶ Calls ─ matched by a trap? ── no ──▶ engine
//!                              │                                    │
//!                              └─ yes: Fault ──(release)──▶ …       └─ /events: line by line past the event traps
//! ```
//!
//! A trap is in force from the moment it is set until it is released or dropped, which lets go of what it holds.

mod calls;
mod events;
mod flights;
mod known;
mod serve;
mod trap;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result};
use tokio::net::UnixListener;
use tokio::runtime::Runtime;
use tokio_util::task::TaskTracker;

pub use calls::Calls;
pub use events::{EventTrap, Events};
pub use known::Half;
pub use trap::{Fault, Trap};

/// A relay that runs. Dropping it cuts every connection.
#[derive(Debug)]
pub struct Relay {
    socket: PathBuf,
    shared: Arc<Shared>,
    /// Taken when it ends.
    runtime: Option<Runtime>,
}

/// What all connections share.
#[derive(Debug)]
struct Shared {
    engine: PathBuf,
    known: Mutex<known::Known>,
    traps: trap::Traps,
    events: events::Desk,
    flights: flights::Flights,
    tasks: TaskTracker,
}

impl Relay {
    /// Listens on `socket` for an engine that listens on `engine`, which need not be up.
    ///
    /// # Errors
    /// When the socket cannot be made.
    pub fn start(engine: &Path, socket: &Path) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("relay")
            .enable_all()
            .build()
            .context("the relay's runtime could not be made")?;
        let shared = Arc::new(Shared {
            engine: engine.to_owned(),
            known: Mutex::default(),
            traps: trap::Traps::default(),
            events: events::Desk::default(),
            flights: flights::Flights::default(),
            tasks: TaskTracker::new(),
        });
        let listener = {
            let _within = runtime.enter();
            UnixListener::bind(socket)
                .with_context(|| format!("{} cannot be listened on", socket.display()))?
        };
        let accepting = serve::accept(listener, Arc::clone(&shared));
        shared.tasks.spawn_on(accepting, runtime.handle());
        Ok(Self {
            socket: socket.to_owned(),
            shared,
            runtime: Some(runtime),
        })
    }

    /// Where a gateway finds its engine.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Has a fault befall calls from now on. Of several traps that match, the one that was set first acts.
    #[must_use = "a trap that is dropped is in force no more"]
    pub fn trap(&self, calls: Calls, fault: Fault) -> Trap {
        Trap::set(Arc::clone(&self.shared), calls, fault)
    }

    /// Keeps events from the gateway from now on.
    #[must_use = "a trap that is dropped is in force no more"]
    pub fn hold_events(&self, events: Events) -> EventTrap {
        EventTrap::set(Arc::clone(&self.shared), events)
    }

    /// Breaks the connections of calls that are under way, and says how many there were.
    pub fn cut(&self, calls: &Calls) -> usize {
        self.shared.flights.cut(calls)
    }

    /// How many calls of a kind are under way.
    pub fn under_way(&self, calls: &Calls) -> usize {
        self.shared.flights.count(calls)
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_timeout(Duration::from_secs(5));
        }
        // It lies in a directory that is removed as a whole.
        let _ = std::fs::remove_file(&self.socket);
    }
}

/// What is behind these locks is changed in one go.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
