//! Supervisors in session, and the relays that run through them: how an exec, an attach or a forward reaches a
//! sandbox.
//!
//! ```text
//!  Api ── open ──▶ SessionHub ── RelayOpen ──▶ supervisor
//!   ▲                  ▲                          │
//!   └── Relay ◀── claim matched ◀── Relay RPC ────┘
//! ```
//!
//! `hub` holds who is in session, `conversation` is one session from hello to end, `relay` matches claims and moves
//! frames, `logs` keeps the last lines of each sandbox, `port` is the part of the fence that all of it speaks to.

mod conversation;
mod hub;
mod logs;
mod port;
mod relay;
mod service;
#[cfg(test)]
mod tests;

pub use hub::SessionHub;
pub use logs::{LOG_LINES, SourcedLine};
pub use port::SessionPort;
pub use relay::{Relay, RelayError, RelayTarget};
pub use service::{Gateway, SessionConfig, TokenRenewal, service};
