//! `openshell-supervisor`: the trusted half of a sandbox. It holds the session with the gateway, listens for the
//! sandbox runtime on the link, starts the main process once, relays, decides egress, and fails closed.
//!
//! ```text
//!             session/                 state                    link/
//!  gateway ◀──────────▶ conversation ──plan, freeze──▶ reconcile ─▶ sandbox runtime
//!                        ▲      │                        │
//!                        └──────┴── main, logs, failure ◀┴── control ─▶ egress/
//! ```
//!
//! Each part is a future of its own; [`run`] polls them together and nothing outlives it. They speak through
//! [`state::Run`]: every word in it is a value that holds, not a message that may be lost, so that a broken
//! connection on either side never loses what was wanted or what has happened.

mod clock;
mod egress;
mod link;
mod logs;
mod reconcile;
mod relay;
mod run;
mod session;
mod settings;
mod state;

pub use run::{Outcome, run};
pub use session::backoff;
pub use settings::{Settings, SettingsError, Timings};
