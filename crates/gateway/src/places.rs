//! Where things are on this machine: configuration, state, the runtime's binaries.

use std::path::{Path, PathBuf};

use etcetera::BaseStrategy as _;
use thiserror::Error;

/// A place that cannot be told, or does not hold what it should.
#[derive(Debug, Error)]
pub(crate) enum PlaceError {
    /// No home directory.
    #[error("the home directory of this user is not known; set HOME, or say --state-dir")]
    NoHome,
    /// The binaries of the two halves of a sandbox.
    #[error(
        "{name} was not found in {looked}; install it there, or say --runtime-dir (OPENSHELL_RUNTIME_DIR)"
    )]
    NoRuntime {
        /// The binary.
        name: &'static str,
        /// Where it was looked for.
        looked: String,
    },
}

/// What users set as `XDG_…_HOME`; like the published clients, on every system.
fn base() -> Result<etcetera::base_strategy::Xdg, PlaceError> {
    etcetera::base_strategy::Xdg::new().map_err(|_| PlaceError::NoHome)
}

/// `$XDG_CONFIG_HOME/openshell`.
pub(crate) fn user_config() -> Result<PathBuf, PlaceError> {
    Ok(base()?.config_dir().join("openshell"))
}

/// Where configuration files are looked for, the first one first.
pub(crate) fn config_files() -> Vec<PathBuf> {
    let user = user_config().ok().map(|dir| dir.join("gateway.toml"));
    user.into_iter()
        .chain([PathBuf::from("/etc/openshell/gateway.toml")])
        .collect()
}

/// The configured state directory, else `$XDG_STATE_HOME/openshell/gateway`. Absolute, so that what is recorded
/// about it holds in every working directory.
pub(crate) fn state(configured: Option<&Path>) -> Result<PathBuf, PlaceError> {
    let path = match configured {
        Some(path) => path.to_owned(),
        None => base()?
            .state_dir()
            .ok_or(PlaceError::NoHome)?
            .join("openshell/gateway"),
    };
    Ok(std::path::absolute(&path).unwrap_or(path))
}

/// The two binaries that every sandbox runs on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Runtimes {
    pub(crate) sandbox: PathBuf,
    pub(crate) supervisor: PathBuf,
}

/// Finds both, in the configured directory or near this executable.
pub(crate) fn runtimes(configured: Option<&Path>, exe: &Path) -> Result<Runtimes, PlaceError> {
    let places: Vec<PathBuf> = match configured {
        Some(dir) => vec![dir.to_owned()],
        None => {
            let here = exe.parent().unwrap_or(Path::new("/"));
            let beside = here.parent().map(|up| up.join("libexec/openshell"));
            beside.into_iter().chain([here.to_owned()]).collect()
        }
    };
    let find = |name: &'static str| {
        places
            .iter()
            .map(|dir| dir.join(name))
            .find(|path| path.is_file())
            .ok_or_else(|| PlaceError::NoRuntime {
                name,
                looked: places
                    .iter()
                    .map(|dir| dir.display().to_string())
                    .collect::<Vec<_>>()
                    .join(" or "),
            })
    };
    Ok(Runtimes {
        sandbox: find("openshell-sandbox")?,
        supervisor: find("openshell-supervisor")?,
    })
}

#[cfg(test)]
mod tests;
