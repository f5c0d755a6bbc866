//! `openshell-driver-docker`: what is Docker's own: where it listens, what it is called, and how it names itself.
//! Everything that it shares with other engines is in `openshell-container`.

use std::path::Path;

use openshell_container::api::{self, ApiDriver, ApiEngine, Dialect, Manner, SystemInfo};
use openshell_container::{ContainerConfig, ContainerDriver};
use openshell_core::engine::Sockets;
use openshell_lifecycle::DriverError;

const MANNER: Manner = Manner {
    name: "docker",
    title: "Docker",
    oldest: "Docker 20.10",
    start: "systemctl start docker",
    permission: "add the gateway's user to the group that owns it (`usermod -aG docker USER`, then log in again)",
    fills_volumes: true,
    tells_resolver: true,
    removal_is_gentle: false,
};

/// How Docker speaks.
struct Docker;

impl Dialect for Docker {
    fn manner(&self) -> &'static Manner {
        &MANNER
    }

    fn is_podman(&self) -> bool {
        false
    }

    fn identity(&self, info: &SystemInfo) -> Option<String> {
        info.id.clone()
    }
}

/// Where Docker is: at the configured path, else where `DOCKER_HOST` says, else at its usual place.
pub fn sockets(configured: Option<&Path>) -> Result<Sockets, DriverError> {
    api::sockets(configured, Sockets::docker)
}

/// Makes the driver. The engine may be down: it is first spoken to by the first call.
pub fn connect(sockets: Sockets, containers: ContainerConfig) -> Result<ApiDriver, DriverError> {
    ContainerDriver::new(ApiEngine::new(sockets, Docker), containers)
}
