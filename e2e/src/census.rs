//! What there is on an engine and on the machine, so that "nothing is left" can be shown and not only said.

use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};

use crate::{command, host};

/// Everything that a task could leave behind.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Census {
    /// By id and name.
    pub containers: BTreeSet<String>,
    /// By name.
    pub volumes: BTreeSet<String>,
    /// By id and tag.
    pub images: BTreeSet<String>,
    /// By name.
    pub networks: BTreeSet<String>,
    /// Programs of ours and engines, by id and command line.
    pub processes: BTreeSet<String>,
    /// Those of the watched paths that exist, with what is directly in them.
    pub files: BTreeSet<PathBuf>,
}

impl Census {
    /// Looks at an engine (none answering counts as an empty one), the processes and the given paths.
    ///
    /// # Errors
    /// When the engine answers, but not to a question of ours.
    pub fn take(engine: &str, paths: &[&Path]) -> Result<Self> {
        let mut census = Self {
            processes: processes(),
            files: paths.iter().flat_map(|path| tree(path)).collect(),
            ..Self::default()
        };
        if host::find_program("docker").is_some() && host::engine_answers(engine) {
            census.ask(engine)?;
        }
        Ok(census)
    }

    /// Looks at an engine only.
    ///
    /// # Errors
    /// When the engine does not answer.
    pub fn of_engine(engine: &str) -> Result<Self> {
        let mut census = Self::default();
        census.ask(engine)?;
        Ok(census)
    }

    fn ask(&mut self, engine: &str) -> Result<()> {
        let lines = |words: &[&str]| -> Result<BTreeSet<String>> {
            let out = command::ok(Command::new("docker").args(["-H", engine]).args(words))?;
            Ok(out.text().lines().map(str::to_owned).collect())
        };
        self.containers = lines(&["ps", "-a", "--format", "{{.ID}} {{.Names}}"])?;
        self.volumes = lines(&["volume", "ls", "--format", "{{.Name}}"])?;
        self.images = lines(&["images", "--format", "{{.ID}} {{.Repository}}:{{.Tag}}"])?;
        self.networks = lines(&["network", "ls", "--format", "{{.Name}}"])?;
        Ok(())
    }

    /// Writes it down.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn save(&self, file: &Path) -> Result<()> {
        std::fs::write(file, serde_json::to_vec_pretty(self)?)
            .with_context(|| format!("{} cannot be written", file.display()))
    }

    /// Reads one that was written down.
    ///
    /// # Errors
    /// When there is none.
    pub fn load(file: &Path) -> Result<Self> {
        let text =
            std::fs::read(file).with_context(|| format!("{} is unreadable", file.display()))?;
        Ok(serde_json::from_slice(&text)?)
    }

    /// What this census has that the earlier one had not, and the other way round.
    pub fn difference(&self, earlier: &Self) -> Vec<String> {
        let mut found = Vec::new();
        let mut compare = |kind: &str, now: &BTreeSet<String>, then: &BTreeSet<String>| {
            found.extend(now.difference(then).map(|one| format!("+ {kind} {one}")));
            found.extend(then.difference(now).map(|one| format!("- {kind} {one}")));
        };
        compare("container", &self.containers, &earlier.containers);
        compare("volume", &self.volumes, &earlier.volumes);
        compare("image", &self.images, &earlier.images);
        compare("network", &self.networks, &earlier.networks);
        compare("process", &self.processes, &earlier.processes);
        let names =
            |files: &BTreeSet<PathBuf>| files.iter().map(|p| p.display().to_string()).collect();
        compare("file", &names(&self.files), &names(&earlier.files));
        found
    }
}

impl fmt::Display for Census {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} containers, {} volumes, {} images, {} networks, {} processes, {} files",
            self.containers.len(),
            self.volumes.len(),
            self.images.len(),
            self.networks.len(),
            self.processes.len(),
            self.files.len()
        )
    }
}

/// The programs that could be ours.
fn processes() -> BTreeSet<String> {
    let watched = ["openshell", "dockerd", "containerd"];
    let Ok(directory) = std::fs::read_dir("/proc") else {
        return BTreeSet::new();
    };
    let ids = directory
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    ids.filter_map(|id| {
        let words = std::fs::read(format!("/proc/{id}/cmdline")).ok()?;
        let mut words = words.split(|byte| *byte == 0).map(String::from_utf8_lossy);
        let program = words.next()?.into_owned();
        let name = program.rsplit('/').next()?;
        watched
            .iter()
            .any(|mark| name.starts_with(mark))
            .then(|| format!("{id} {program}"))
    })
    .collect()
}

fn tree(path: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    if path.symlink_metadata().is_ok() {
        found.push(path.to_owned());
        if let Ok(directory) = path.read_dir() {
            found.extend(directory.flatten().map(|entry| entry.path()));
        }
    }
    found
}
