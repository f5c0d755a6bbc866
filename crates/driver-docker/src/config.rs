//! Where the Docker engine is.

use std::path::PathBuf;

use openshell_lifecycle::driver::{DriverError, DriverErrorKind};

const DEFAULT_SOCKET: &str = "/var/run/docker.sock";

/// Configuration of the connection.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct DockerConfig {
    /// The engine's Unix socket; absent means `$DOCKER_HOST`, else `/var/run/docker.sock`.
    pub socket_path: Option<PathBuf>,
}

impl DockerConfig {
    /// The socket that is meant.
    pub fn socket(&self) -> Result<PathBuf, DriverError> {
        if let Some(path) = &self.socket_path {
            return Ok(path.clone());
        }
        socket_of(std::env::var("DOCKER_HOST").ok().as_deref())
    }
}

fn socket_of(docker_host: Option<&str>) -> Result<PathBuf, DriverError> {
    match docker_host {
        None | Some("") => Ok(PathBuf::from(DEFAULT_SOCKET)),
        Some(host) => host
            .strip_prefix("unix://")
            .filter(|path| path.starts_with('/'))
            .map(PathBuf::from)
            .ok_or_else(|| {
                DriverError::new(
                    DriverErrorKind::Invalid,
                    format!(
                        "DOCKER_HOST is {host:?}, and only Unix sockets are supported; set it to unix:///path/to/docker.sock, or set socket_path in [openshell.drivers.docker]"
                    ),
                )
            }),
    }
}

#[cfg(test)]
mod tests;
