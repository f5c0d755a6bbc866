//! What a supervisor is told before it starts: its bootstrap, and the bounds it keeps.

use std::path::{Path, PathBuf};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use openshell_core::bootstrap::{LINK_DIRECTORY, SupervisorBootstrap, link_socket};
use thiserror::Error;

/// Why a supervisor cannot start.
#[derive(Debug, Error)]
pub enum SettingsError {
    /// The bootstrap is not there or cannot be read or unlinked.
    #[error(
        "cannot take the bootstrap {path}: {source}; a supervisor is started by its gateway, with a bootstrap delivered first"
    )]
    Bootstrap {
        /// Where.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The bootstrap does not say what it should.
    #[error(
        "the bootstrap {path} is not of this version: {detail}; gateway and supervisor must match"
    )]
    Malformed {
        /// Where.
        path: PathBuf,
        /// What.
        detail: String,
    },
    /// The link socket cannot be made.
    #[error(
        "cannot listen on {path}: {source}; the link volume must belong to the supervisor's user"
    )]
    Listen {
        /// Where.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
}

/// The bounds of a supervisor. Not configurable by users; tests shorten them.
#[derive(Clone, Copy, Debug)]
pub struct Timings {
    /// The sandbox must dial and attach within this after the start.
    pub link_first: Duration,
    /// And again within this after the link broke.
    pub link_again: Duration,
    /// An attach must be answered within this.
    pub attach: Duration,
    /// A failure is reported within this, or the supervisor exits without.
    pub report: Duration,
    /// Until the gateway has said otherwise: how long it may be away.
    pub outage: Duration,
}

impl Default for Timings {
    fn default() -> Self {
        Self {
            link_first: Duration::from_secs(60),
            link_again: Duration::from_secs(30),
            attach: Duration::from_secs(10),
            report: Duration::from_secs(10),
            outage: Duration::from_secs(15 * 60),
        }
    }
}

/// A larger bootstrap is not ours.
const MAX_BOOTSTRAP: u64 = 256 * 1024;

/// Everything a supervisor starts with.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Identity and credentials.
    pub bootstrap: SupervisorBootstrap,
    /// The bootstrap's link secret, decoded.
    pub link_secret: Vec<u8>,
    /// Where to listen for the sandbox.
    pub link_socket: PathBuf,
    /// Bounds.
    pub timings: Timings,
}

/// The engine hands the bootstrap over on standard input, so that it never lies anywhere.
fn from_input(input: impl std::io::Read + std::io::IsTerminal) -> std::io::Result<Vec<u8>> {
    use std::io::Read as _;
    let mut bytes = Vec::new();
    if !input.is_terminal() {
        input.take(MAX_BOOTSTRAP).read_to_end(&mut bytes)?;
    }
    if bytes.is_empty() {
        return Err(std::io::ErrorKind::NotFound.into());
    }
    Ok(bytes)
}

impl Settings {
    /// Reads the bootstrap and unlinks it: from here on its secrets are in this process only.
    pub fn take(path: &Path) -> Result<Self, SettingsError> {
        let failed = |source| SettingsError::Bootstrap {
            path: path.to_owned(),
            source,
        };
        let bytes = match std::fs::read(path) {
            Ok(bytes) => {
                std::fs::remove_file(path).map_err(failed)?;
                bytes
            }
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
                from_input(std::io::stdin().lock()).map_err(failed)?
            }
            Err(e) => return Err(failed(e)),
        };
        let malformed = |detail: String| SettingsError::Malformed {
            path: path.to_owned(),
            detail,
        };
        let bootstrap = serde_json::from_slice(&bytes).map_err(|e| malformed(e.to_string()))?;
        Self::new(bootstrap).map_err(malformed)
    }

    /// From a bootstrap at hand.
    pub fn new(bootstrap: SupervisorBootstrap) -> Result<Self, String> {
        let link_secret = STANDARD
            .decode(&bootstrap.link_secret)
            .map_err(|e| format!("link_secret is not base64: {e}"))?;
        if link_secret.len() != 32 {
            return Err("link_secret is not 32 bytes".to_owned());
        }
        let plaintext = bootstrap.gateway_endpoint.starts_with("http://");
        match (plaintext, bootstrap.gateway_ca_pem.is_empty()) {
            (true, false) => {
                return Err("a CA is given, but the gateway's endpoint is plaintext".to_owned());
            }
            (false, true) => {
                return Err("the gateway's endpoint is TLS, but no CA is given".to_owned());
            }
            _ => {}
        }
        Ok(Self {
            link_secret,
            link_socket: PathBuf::from(link_socket(bootstrap.generation)),
            timings: Timings::default(),
            bootstrap,
        })
    }

    /// With the link socket in another directory, for tests outside a container.
    #[must_use]
    pub fn with_link_directory(mut self, directory: &Path) -> Self {
        self.link_socket = match self.link_socket.strip_prefix(LINK_DIRECTORY) {
            Ok(name) => directory.join(name),
            Err(_) => directory.join("link.sock"),
        };
        self
    }
}
