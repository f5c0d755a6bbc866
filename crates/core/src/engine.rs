//! Where container engines listen and how they are told apart: one rule for the drivers, for the gateway's choice
//! between them, and for `openshell doctor`. It looks at values only; who asks brings the environment.

use std::path::{Path, PathBuf};

use thiserror::Error;

/// What Podman calls itself among the components of its version, where Docker says `Engine`.
pub const PODMAN_COMPONENT: &str = "Podman Engine";
/// The oldest API that both have to speak: Docker 20.10, Podman 4.
pub const OLDEST_API: (u32, u32) = (1, 41);

/// Names Docker's socket, for its own client and for us.
pub const DOCKER_VARIABLE: &str = "DOCKER_HOST";
/// Names Podman's socket.
pub const PODMAN_VARIABLE: &str = "OPENSHELL_PODMAN_SOCKET";

const DOCKER: &str = "/var/run/docker.sock";
const PODMAN: &str = "/run/podman/podman.sock";
/// Below a user's runtime directory.
const PODMAN_OF_USER: &str = "podman/podman.sock";

/// The sockets at which one engine may listen, the most likely first.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sockets {
    candidates: Vec<PathBuf>,
    /// Which of them is spoken of where none is there.
    likely: usize,
    chosen: bool,
}

/// A variable that names no Unix socket.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error(
    "{variable} is {value:?}, and only Unix sockets are supported; set it to unix:///path/to/the.sock, or set socket_path in the gateway's configuration"
)]
pub struct NotASocket {
    /// Its name.
    pub variable: &'static str,
    /// What it says.
    pub value: String,
}

impl Sockets {
    /// Just this one.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self {
            candidates: vec![path.into()],
            likely: 0,
            chosen: true,
        }
    }

    /// Docker's: where `DOCKER_HOST` says, else `/var/run/docker.sock`.
    pub fn docker(variable: impl Fn(&str) -> Option<String>) -> Result<Self, NotASocket> {
        if let Some(path) = named(DOCKER_VARIABLE, &variable)? {
            return Ok(Self::at(path));
        }
        Ok(Self {
            candidates: vec![DOCKER.into()],
            likely: 0,
            chosen: false,
        })
    }

    /// Podman's: where `OPENSHELL_PODMAN_SOCKET` says, else this user's, else the machine's.
    pub fn podman(variable: impl Fn(&str) -> Option<String>, uid: u32) -> Result<Self, NotASocket> {
        if let Some(path) = named(PODMAN_VARIABLE, &variable)? {
            return Ok(Self::at(path));
        }
        let session = variable("XDG_RUNTIME_DIR").map(PathBuf::from);
        let session = session.filter(|directory| directory.is_absolute());
        let of_user = PathBuf::from(format!("/run/user/{uid}"));
        let mut candidates: Vec<PathBuf> = session
            .into_iter()
            .chain([of_user])
            .map(|directory| directory.join(PODMAN_OF_USER))
            .collect();
        candidates.dedup();
        candidates.push(PODMAN.into());
        Ok(Self {
            // The superuser's Podman is the machine's.
            likely: if uid == 0 { candidates.len() - 1 } else { 0 },
            candidates,
            chosen: false,
        })
    }

    /// All of them.
    pub fn candidates(&self) -> &[PathBuf] {
        &self.candidates
    }

    /// Whether somebody named it, rather than the rule.
    pub const fn chosen(&self) -> bool {
        self.chosen
    }

    /// The first that is there, else the one that would be.
    pub fn pick(&self, is_there: impl Fn(&Path) -> bool) -> &Path {
        let there = self.candidates.iter().find(|path| is_there(path));
        there.unwrap_or(&self.candidates[self.likely])
    }
}

/// The socket that a variable names; empty is the same as not set.
fn named(
    name: &'static str,
    variable: impl Fn(&str) -> Option<String>,
) -> Result<Option<PathBuf>, NotASocket> {
    let Some(value) = variable(name).filter(|value| !value.is_empty()) else {
        return Ok(None);
    };
    let path = value.strip_prefix("unix://").or_else(|| {
        // Docker's own client takes no bare path.
        (name != DOCKER_VARIABLE).then_some(value.as_str())
    });
    match path.filter(|path| path.starts_with('/')) {
        Some(path) => Ok(Some(path.into())),
        None => Err(NotASocket {
            variable: name,
            value,
        }),
    }
}

#[cfg(test)]
mod tests;
