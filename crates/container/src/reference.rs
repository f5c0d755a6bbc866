//! Image references as people write them, and the registry that each speaks of.

use openshell_lifecycle::driver::{DriverError, DriverErrorKind};

/// The longest reference that is looked at.
const MAX: usize = 512;

/// A reference that is safe to hand to an engine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Reference {
    /// As written.
    pub written: String,
    /// `docker.io`, `ghcr.io`, `localhost:5000`; `None` for an image id, which no registry serves.
    pub registry: Option<String>,
    /// With a tag or a digest, as a pull needs it.
    pub complete: String,
}

impl Reference {
    /// Checks and reads one.
    pub fn parse(written: &str) -> Result<Self, DriverError> {
        let bad = |why: &str| {
            let shown: String = written.chars().take(80).collect();
            DriverError::new(
                DriverErrorKind::Invalid,
                format!(
                    "{shown:?} is not an image reference: {why}; write for example debian:12 or ghcr.io/owner/name:tag"
                ),
            )
        };
        if written.is_empty() {
            return Err(bad("it is empty"));
        }
        if written.len() > MAX {
            return Err(bad("it is longer than 512 characters"));
        }
        // Also keeps anything with a meaning of its own out of request paths.
        if let Some(c) = written
            .chars()
            .find(|c| !(c.is_ascii_alphanumeric() || "._-/:@+".contains(*c)))
        {
            return Err(bad(&format!("it contains {c:?}")));
        }
        if written
            .split('/')
            .any(|part| part.is_empty() || part == "." || part == "..")
        {
            return Err(bad("a part of its path is empty"));
        }
        let is_id = |s: &str| s.len() == 64 && s.bytes().all(|b| b.is_ascii_hexdigit());
        if is_id(written.strip_prefix("sha256:").unwrap_or(written)) {
            return Ok(Self {
                written: written.to_owned(),
                registry: None,
                complete: written.to_owned(),
            });
        }
        let registry = match written.split_once('/') {
            Some((host, _)) if host.contains(['.', ':']) || host == "localhost" => host,
            _ => "docker.io",
        };
        let last = written.rsplit('/').next().unwrap_or(written);
        let complete = if written.contains('@') || last.contains(':') {
            written.to_owned()
        } else {
            format!("{written}:latest")
        };
        Ok(Self {
            written: written.to_owned(),
            registry: Some(registry.to_owned()),
            complete,
        })
    }
}

#[cfg(test)]
mod tests;
