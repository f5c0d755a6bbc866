//! `openshell-container`: what any OCI engine is told: plans, labels, volumes, images, byte delivery.
//!
//! A thin adapter implements the small [`Engine`] trait; [`ContainerDriver`] turns it into the compute driver of
//! the lifecycle, once for all engines.

pub mod api;
pub mod archive;
pub mod auth;
pub mod binary;
mod cleanup;
pub mod config;
mod delivered;
pub mod delivery;
pub mod driver;
pub mod engine;
pub mod identity;
mod images;
mod inputs;
pub mod labels;
mod launch;
pub mod ownership;
pub mod plan;
mod prepare;
pub mod pull;
pub mod reference;
mod saved_image;
mod sighting;
pub mod supervisor_image;
mod watch;
pub mod workspace_image;

pub use auth::{Credentials, RegistryAuth};
pub use config::{ContainerConfig, ImagePullPolicy};
pub use driver::ContainerDriver;
pub use engine::{Engine, EngineError, EngineErrorKind};
pub use plan::Network;
