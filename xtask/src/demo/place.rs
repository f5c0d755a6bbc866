//! Where the demo keeps its things, and which directories above them it had to make.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use openshell_e2e::gateway::Settings;
use openshell_e2e::host;

use super::home;

/// The workload image of the demo.
pub(super) const IMAGE: &str = "openshell-demo:1";
/// The gateway's name for the CLI, and its namespace on the engine.
pub(super) const NAME: &str = "demo";
const NAMESPACE: &str = "openshell-demo";
const DEFAULT_ENGINE: &str = "unix:///var/run/docker.sock";

/// Every place that the demo touches.
pub(super) struct Place {
    /// The demo's own: state, log, engine, census.
    pub(super) base: PathBuf,
    /// The user's `XDG_CONFIG_HOME`, where the CLI looks for gateways.
    pub(super) config_home: PathBuf,
    /// `unix:///…`
    pub(super) engine_host: String,
    /// The same as a path.
    pub(super) engine_socket: PathBuf,
    /// Not where the user chose an engine himself.
    pub(super) may_start_engine: bool,
}

impl Place {
    pub(super) fn find() -> Result<Self> {
        let state = directory_of("XDG_STATE_HOME", ".local/state")?;
        let chosen = std::env::var("DOCKER_HOST")
            .ok()
            .filter(|chosen| !chosen.is_empty());
        let engine_host = chosen.clone().unwrap_or_else(|| DEFAULT_ENGINE.to_owned());
        let socket = engine_host.strip_prefix("unix://").with_context(|| {
            format!("DOCKER_HOST={engine_host}: the demo needs an engine on a Unix socket")
        })?;
        Ok(Self {
            base: state.join("openshell-demo"),
            config_home: directory_of("XDG_CONFIG_HOME", ".config")?,
            engine_socket: socket.into(),
            engine_host,
            may_start_engine: chosen.is_none(),
        })
    }

    pub(super) fn settings(&self, dist: &Path) -> Settings {
        Settings {
            dist: dist.to_owned(),
            directory: self.base.clone(),
            config_home: self.config_home.clone(),
            name: NAME.to_owned(),
            namespace: NAMESPACE.to_owned(),
            driver: "docker",
            engine: self.engine_socket.clone(),
            relay: None,
            address: ([127, 0, 0, 1], 17670).into(),
            health: ([127, 0, 0, 1], 17671).into(),
            image: IMAGE.to_owned(),
            pull_policy: "if_not_present",
            more: String::new(),
            bound_by_modes: false,
        }
    }

    pub(super) fn engine_directory(&self) -> PathBuf {
        self.base.join("engine")
    }

    pub(super) fn census_file(&self) -> PathBuf {
        self.base.join("before.json")
    }

    pub(super) fn binaries_stamp(&self) -> PathBuf {
        self.base.join("started")
    }

    pub(super) fn remember_binaries(&self) -> Result<()> {
        Ok(std::fs::write(self.binaries_stamp(), "")?)
    }

    /// What the census looks at.
    pub(super) fn watched(&self) -> Vec<&Path> {
        vec![&self.base, &self.config_home]
    }

    /// The entry of the CLI's register.
    pub(super) fn registered(&self) -> PathBuf {
        self.config_home.join("openshell/gateways").join(NAME)
    }

    fn active_gateway(&self) -> PathBuf {
        self.config_home.join("openshell/active_gateway")
    }

    fn is_active(&self) -> bool {
        std::fs::read_to_string(self.active_gateway()).is_ok_and(|name| name.trim() == NAME)
    }

    /// A line for users who have chosen another gateway before.
    pub(super) fn select_hint(&self) -> String {
        if self.is_active() {
            String::new()
        } else {
            format!("  export OPENSHELL_GATEWAY={NAME}\n")
        }
    }

    /// Makes the demo's directory, and writes down which ones above it (and above the CLI's register) are new.
    pub(super) fn make_directories(&self) -> Result<()> {
        let register = self.registered();
        let new: Vec<String> = missing(&self.base)
            .into_iter()
            .chain(missing(&register))
            .map(|path| path.display().to_string())
            .collect();
        std::fs::create_dir_all(&self.base)
            .with_context(|| format!("{} cannot be made", self.base.display()))?;
        Ok(std::fs::write(self.base.join("made"), new.join("\n"))?)
    }

    /// Takes the demo's files away, and those directories that it made and that are empty now.
    pub(super) fn remove(&self) -> Result<()> {
        let made = std::fs::read_to_string(self.base.join("made")).unwrap_or_default();
        if self.is_active() {
            host::remove_file(&self.active_gateway())?;
        }
        for directory in [&self.registered(), &self.base] {
            if directory.exists() {
                std::fs::remove_dir_all(directory)
                    .with_context(|| format!("{} cannot be removed", directory.display()))?;
            }
        }
        // The deepest come first. Others may have put something there meanwhile: then it stays.
        for directory in made.lines() {
            let _ = std::fs::remove_dir(directory);
        }
        Ok(())
    }
}

/// The directory itself and those above it that do not exist, the deepest first.
fn missing(directory: &Path) -> Vec<PathBuf> {
    let above = directory.ancestors().take_while(|path| !path.exists());
    above.map(Path::to_owned).collect()
}

fn directory_of(variable: &str, below_home: &str) -> Result<PathBuf> {
    match std::env::var_os(variable).filter(|value| !value.is_empty()) {
        Some(directory) => Ok(directory.into()),
        None => Ok(home()?.join(below_home)),
    }
}
