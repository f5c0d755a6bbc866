//! `openshell-lifecycle`: the one way the life of a sandbox changes.
//!
//! [`LifecycleFence`] takes commands from the API, observations from drivers and supervisor sessions; a pure
//! machine decides; a thin shell persists, publishes and calls the [`ComputeDriver`].

pub mod config;
pub mod driver;
pub mod fence;
pub mod machine;
pub mod ports;
pub mod restart;
#[cfg(any(test, feature = "test-util"))]
pub mod simulated;
mod time;

pub use config::{FenceConfig, RestoreMode, ShutdownMode};
pub use driver::{ComputeDriver, DriverError, Permit};
pub use fence::{CommandError, Fence, LifecycleFence};
