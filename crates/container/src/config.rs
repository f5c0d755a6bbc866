//! What an operator may choose about containers.

use std::path::PathBuf;

use openshell_core::ImageRef;
use openshell_lifecycle::driver::{DriverError, DriverErrorKind};
use serde::{Deserialize, Serialize};

use crate::auth::RegistryAuth;
use crate::plan::Network;

/// When an image is pulled.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ImagePullPolicy {
    /// Before every new sandbox.
    Always,
    /// If the engine does not hold it.
    #[default]
    IfNotPresent,
    /// Never: the engine has to hold it.
    Never,
}

/// Configuration of a container driver.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ContainerConfig {
    /// Tells this gateway's containers from another's on the same engine; 1–40 of `[a-z0-9-]`.
    pub namespace: String,
    /// For sandboxes that name no image.
    pub default_image: ImageRef,
    /// When images are pulled.
    pub image_pull_policy: ImagePullPolicy,
    /// Processes and threads of a workload that asks for no other limit.
    pub pids_limit: u32,
    /// How supervisors reach the gateway and the world.
    pub supervisor_network: Network,
    /// The binary `openshell-sandbox`.
    pub sandbox_binary: PathBuf,
    /// The binary `openshell-supervisor`.
    pub supervisor_binary: PathBuf,
    /// Where registry credentials are.
    pub registry_auth: RegistryAuth,
}

impl ContainerConfig {
    /// The defaults, for a namespace and two binaries.
    pub fn new(
        namespace: impl Into<String>,
        sandbox_binary: impl Into<PathBuf>,
        supervisor_binary: impl Into<PathBuf>,
    ) -> Self {
        Self {
            namespace: namespace.into(),
            default_image: ImageRef("debian:12".to_owned()),
            image_pull_policy: ImagePullPolicy::default(),
            pids_limit: 2048,
            supervisor_network: Network::Host,
            sandbox_binary: sandbox_binary.into(),
            supervisor_binary: supervisor_binary.into(),
            registry_auth: RegistryAuth::from_environment(),
        }
    }

    /// Refuses what could not work later.
    pub fn validate(&self) -> Result<(), DriverError> {
        let invalid = |message: String| DriverError::new(DriverErrorKind::Invalid, message);
        openshell_core::WorkspaceName::new(self.namespace.clone()).map_err(|e| {
            invalid(format!(
                "the sandbox namespace {:?} cannot be used: {e}",
                self.namespace
            ))
        })?;
        // The double dash ends the namespace in every name that we give.
        if self.namespace.contains("--") {
            return Err(invalid(format!(
                "the sandbox namespace {:?} cannot be used: it contains \"--\"",
                self.namespace
            )));
        }
        if self.pids_limit < 8 {
            return Err(invalid(format!(
                "a pids limit of {} is too small for a sandbox; at least 8",
                self.pids_limit
            )));
        }
        Ok(())
    }
}
