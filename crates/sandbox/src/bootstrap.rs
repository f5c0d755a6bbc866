//! The one-use bootstrap: read, checked and unlinked before anything untrusted runs.

use std::fs::File;
use std::io::{ErrorKind, IsTerminal as _, Read as _};
use std::path::Path;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use openshell_core::bootstrap::SandboxBootstrap;
use openshell_core::{Generation, SandboxId};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use thiserror::Error;

/// A larger one is not ours.
const MAX_SIZE: u64 = 16 * 1024;
/// The gateway hands it over as soon as we have begun. Nothing comes if it has died meanwhile, or if we were started by
/// somebody else: then there is nothing to wait for, and an end is what lets it be begun anew.
const PATIENCE: Duration = Duration::from_secs(10);

/// Why there is nothing to start with.
#[derive(Debug, Error)]
pub(crate) enum BootstrapError {
    /// Not there, or not readable.
    #[error(
        "cannot read the bootstrap {path}: {error}; the gateway delivers it with each start, so start this sandbox with `openshell sandbox start`, not through the engine"
    )]
    Unreadable {
        /// Where.
        path: String,
        /// Why.
        error: std::io::Error,
    },
    /// The end of what is handed over, and nothing before it.
    #[error(
        "no bootstrap was handed over; the gateway does so with each start, so start this sandbox with `openshell sandbox start`, not through the engine"
    )]
    Nothing,
    /// Not what it should be.
    #[error("the bootstrap is not usable: {0}")]
    Malformed(String),
    /// It must not stay.
    #[error(
        "cannot remove the bootstrap after reading it: {0}; it must not stay where the workload could find it"
    )]
    Kept(std::io::Error),
}

/// What this run knows of its supervisor, decoded.
pub(crate) struct Bootstrap {
    /// Whose.
    pub(crate) sandbox: SandboxId,
    /// Which run.
    pub(crate) generation: Generation,
    /// Verifies the supervisor's token.
    pub(crate) gateway_key: Vec<u8>,
    /// Proves this runtime.
    pub(crate) link_secret: Vec<u8>,
    /// Who may be at the other end of the link.
    pub(crate) supervisor_uid: u32,
    /// Between TERM and KILL.
    pub(crate) stop_grace: Duration,
}

/// Reads it once.
pub(crate) fn take(path: &Path) -> Result<Bootstrap, BootstrapError> {
    let unreadable = |error| BootstrapError::Unreadable {
        path: path.display().to_string(),
        error,
    };
    let size = match std::fs::symlink_metadata(path) {
        Ok(metadata) => metadata.len(),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            let input = rustix::io::dup(std::io::stdin()).map_err(|e| unreadable(e.into()))?;
            let text = from_input(input.into(), PATIENCE).map_err(unreadable)?;
            if text.is_empty() {
                return Err(BootstrapError::Nothing);
            }
            return decode(&text);
        }
        Err(e) => return Err(unreadable(e)),
    };
    if size > MAX_SIZE {
        return Err(BootstrapError::Malformed(format!("it has {size} bytes")));
    }
    let text = std::fs::read(path).map_err(unreadable)?;
    std::fs::remove_file(path).map_err(BootstrapError::Kept)?;
    decode(&text)
}

/// The engine hands it over on standard input, so that it never lies anywhere.
fn from_input(mut input: File, patience: Duration) -> std::io::Result<Vec<u8>> {
    let mut text = Vec::new();
    if input.is_terminal() {
        return Err(ErrorKind::NotFound.into());
    }
    let deadline = Instant::now() + patience;
    let mut piece = [0; 4096];
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let mut ready = [PollFd::new(&input, PollFlags::IN)];
        let wait = Timespec::try_from(left).map_err(std::io::Error::other)?;
        match rustix::event::poll(&mut ready, Some(&wait)) {
            Err(Errno::INTR) => continue,
            Err(error) => return Err(error.into()),
            Ok(0) => return Err(ErrorKind::TimedOut.into()),
            Ok(_) => {}
        }
        match input.read(&mut piece)? {
            0 => return Ok(text),
            read => text.extend_from_slice(&piece[..read]),
        }
        if text.len() as u64 > MAX_SIZE {
            return Err(ErrorKind::FileTooLarge.into());
        }
    }
}

fn decode(text: &[u8]) -> Result<Bootstrap, BootstrapError> {
    // The first: the same may follow where an engine was not sure to have passed it on.
    let raw: SandboxBootstrap = serde_json::Deserializer::from_slice(text)
        .into_iter()
        .next()
        .ok_or(BootstrapError::Nothing)?
        .map_err(|e| BootstrapError::Malformed(e.to_string()))?;
    let bytes = |field: &str, value: &str| match STANDARD.decode(value) {
        Ok(bytes) if bytes.len() == 32 => Ok(bytes),
        _ => Err(BootstrapError::Malformed(format!(
            "{field} is not 32 bytes in base64"
        ))),
    };
    Ok(Bootstrap {
        sandbox: raw.sandbox_id,
        generation: raw.generation,
        gateway_key: bytes("gateway_public_key", &raw.gateway_public_key)?,
        link_secret: bytes("link_secret", &raw.link_secret)?,
        supervisor_uid: raw.supervisor_uid,
        stop_grace: Duration::from_millis(raw.stop_grace_millis),
    })
}

#[cfg(test)]
mod tests;
