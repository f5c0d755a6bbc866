//! [`Engine`](crate::Engine) on the API that Docker made and Podman serves, too, spoken with bollard. What one engine
//! says otherwise than the other is its [`Dialect`], in the crate of its driver.

mod client;
mod convert;
mod dialect;
mod engine;
mod error;
mod raw;

use std::path::Path;

use openshell_core::engine::{NotASocket, Sockets};
use openshell_lifecycle::driver::{DriverError, DriverErrorKind};

use crate::ContainerDriver;

pub use bollard::models::{ContainerCreateBody, ResourcesUlimits, SystemInfo};
pub use dialect::{Dialect, Manner};
pub use engine::ApiEngine;

/// The compute driver on an engine that speaks the API.
pub type ApiDriver = ContainerDriver<ApiEngine>;

/// The socket that the configuration names, else what the rule says of the environment.
pub fn sockets(
    configured: Option<&Path>,
    rule: impl FnOnce(fn(&str) -> Option<String>) -> Result<Sockets, NotASocket>,
) -> Result<Sockets, DriverError> {
    match configured {
        Some(path) => Ok(Sockets::at(path)),
        None => rule(|name| std::env::var(name).ok())
            .map_err(|e| DriverError::new(DriverErrorKind::Invalid, e.to_string())),
    }
}
