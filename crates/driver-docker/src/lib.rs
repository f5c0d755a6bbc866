//! `openshell-driver-docker`: the Docker engine, spoken to with bollard. What is not Docker's own way of saying
//! things is in `openshell-container`.

mod client;
mod config;
mod convert;
mod engine;
mod error;

pub use config::DockerConfig;
pub use engine::DockerEngine;

use openshell_container::{ContainerConfig, ContainerDriver};
use openshell_lifecycle::DriverError;

/// The compute driver on Docker.
pub type DockerDriver = ContainerDriver<DockerEngine>;

/// Makes the driver. The engine may be down: it is first spoken to by the first call.
pub fn connect(
    docker: &DockerConfig,
    containers: ContainerConfig,
) -> Result<DockerDriver, DriverError> {
    ContainerDriver::new(DockerEngine::new(docker)?, containers)
}
