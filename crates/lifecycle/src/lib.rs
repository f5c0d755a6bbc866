//! `openshell-lifecycle`: the one way the life of a sandbox changes.
//!
//! [`LifecycleFence`] takes commands from the API, observations from drivers and supervisor sessions; a pure
//! machine decides; a thin shell persists, publishes and calls the [`ComputeDriver`].

pub mod driver;
pub mod fence;
pub mod ports;

pub use driver::{ComputeDriver, DriverError, Permit};
pub use fence::{CommandError, LifecycleFence};
