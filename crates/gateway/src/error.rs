//! Why the gateway cannot do what it was told, and the exit status that says so.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

use crate::config::ConfigError;
use crate::listen::ListenError;
use crate::pki::PkiError;
use crate::places::PlaceError;

/// Everything that ends the program.
#[derive(Debug, Error)]
pub(crate) enum GatewayError {
    /// Usage: status 2.
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Place(#[from] PlaceError),
    #[error(transparent)]
    Pki(#[from] PkiError),
    #[error(transparent)]
    Listen(#[from] ListenError),
    #[error(transparent)]
    Tls(#[from] openshell_api::serve::TlsError),
    #[error("the store cannot be used: {0}")]
    Store(#[from] openshell_store::StoreError),
    #[error("the sandboxes in the store cannot be taken up: {0}")]
    Restore(#[from] openshell_lifecycle::CommandError),
    #[error("the container driver cannot be used: {0}")]
    Driver(#[from] openshell_lifecycle::DriverError),
    #[error("the state directory {} cannot be used: {why}", path.display())]
    State {
        /// The directory.
        path: PathBuf,
        /// The system's words.
        why: io::Error,
    },
    #[error("the runtime could not be started: {0}")]
    Runtime(io::Error),
    #[error("ended at once by a second signal; what is durable is complete")]
    Interrupted,
    #[error("cannot write to standard output: {0}")]
    Output(io::Error),
}

impl GatewayError {
    /// 2 for wrong usage, 1 for everything else.
    pub(crate) const fn status(&self) -> u8 {
        match self {
            Self::Config(_) => 2,
            _ => 1,
        }
    }
}
