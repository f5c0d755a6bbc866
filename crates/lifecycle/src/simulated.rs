//! A simulated engine, clock and issuer, good enough to drive the real fence in tests. Scripted, not random: what
//! fails, hangs or ends is said beforehand, and every call is logged.

mod board;
mod driver;
mod environment;
mod gate;
mod hands;
mod world;

pub use board::Board;
pub use driver::SimulatedDriver;
pub use environment::{SimulatedEnvironment, SimulatedIssuer, SimulatedSession};
pub use gate::Gate;
pub use world::{Call, Fault, Happening, HappeningKind, Method, Observer, Replaced};
