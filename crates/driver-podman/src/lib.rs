//! `openshell-driver-podman`: what is Podman's own: where it listens, what it is called, and where its way of
//! speaking the API differs. Everything that it shares with other engines is in `openshell-container`.

mod dialect;
mod limits;

use std::path::Path;

use openshell_container::api::{self, ApiDriver, ApiEngine};
use openshell_container::{ContainerConfig, ContainerDriver};
use openshell_core::engine::Sockets;
use openshell_lifecycle::DriverError;

use crate::dialect::Podman;

/// Where Podman is: at the configured path, else where `OPENSHELL_PODMAN_SOCKET` says, else this user's, else the
/// machine's.
pub fn sockets(configured: Option<&Path>) -> Result<Sockets, DriverError> {
    let uid = rustix::process::getuid().as_raw();
    api::sockets(configured, |variable| Sockets::podman(variable, uid))
}

/// Makes the driver. The engine may be down: it is first spoken to by the first call.
pub fn connect(sockets: Sockets, containers: ContainerConfig) -> Result<ApiDriver, DriverError> {
    ContainerDriver::new(ApiEngine::new(sockets, Podman), containers)
}
