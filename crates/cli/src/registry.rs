//! The gateways that this user knows, in the files where published clients look for them:
//! `openshell/active_gateway` and `openshell/gateways/<name>/{metadata.json, mtls/…}` under
//! `$XDG_CONFIG_HOME` (or `~/.config`), and the same under `/etc`, which is only read.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::{CliError, CliResult};
use crate::exit::Exit;

/// `metadata.json`; fields of other clients are kept.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct Metadata {
    /// The gateway's name.
    #[serde(default)]
    pub(crate) name: String,
    /// `https://host:port`, or `http://` on loopback.
    pub(crate) gateway_endpoint: String,
    /// `mtls` or `none`; what other clients wrote is kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) auth_mode: Option<String>,
    /// Everything else.
    #[serde(flatten)]
    pub(crate) other: BTreeMap<String, Value>,
}

/// The three files of a client's identity.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct TlsFiles {
    /// Whom we trust.
    pub(crate) ca: PathBuf,
    /// Who we are.
    pub(crate) cert: PathBuf,
    /// Its key.
    pub(crate) key: PathBuf,
}

impl TlsFiles {
    /// As they lie in a gateway's directory.
    pub(crate) fn in_dir(dir: &Path) -> Self {
        let mtls = dir.join("mtls");
        Self {
            ca: mtls.join("ca.crt"),
            cert: mtls.join("tls.crt"),
            key: mtls.join("tls.key"),
        }
    }
}

/// A registered gateway.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Entry {
    /// Its name: that of its directory.
    pub(crate) name: String,
    /// Its directory.
    pub(crate) dir: PathBuf,
    /// What is known of it.
    pub(crate) metadata: Metadata,
}

/// Where gateways are registered.
#[derive(Clone, Debug)]
pub(crate) struct Registry {
    /// Ours, written to.
    user: PathBuf,
    /// The machine's, read only.
    system: PathBuf,
}

impl Registry {
    /// Of this user on this machine.
    pub(crate) fn of_user() -> CliResult<Self> {
        let set = |name: &str| {
            std::env::var_os(name)
                .filter(|v| !v.is_empty())
                .map(PathBuf::from)
        };
        let config = set("XDG_CONFIG_HOME")
            .or_else(|| set("HOME").map(|home| home.join(".config")))
            .ok_or_else(|| {
                CliError::local("there is no place to look for gateways")
                    .why("neither XDG_CONFIG_HOME nor HOME is set")
            })?;
        Ok(Self::at(
            config.join("openshell"),
            PathBuf::from("/etc/openshell"),
        ))
    }

    /// In these directories.
    pub(crate) fn at(user: PathBuf, system: PathBuf) -> Self {
        Self { user, system }
    }

    /// The name of the gateway that is used when none is named.
    pub(crate) fn active(&self) -> Option<String> {
        [&self.user, &self.system].into_iter().find_map(|root| {
            let text = fs::read_to_string(root.join("active_gateway")).ok()?;
            Some(text.trim().to_owned()).filter(|name| !name.is_empty())
        })
    }

    /// A gateway by name: the user's before the machine's.
    pub(crate) fn load(&self, name: &str) -> CliResult<Entry> {
        check_name(name)?;
        for root in [&self.user, &self.system] {
            let dir = root.join("gateways").join(name);
            match fs::read(dir.join("metadata.json")) {
                Ok(bytes) => return entry(name, dir, &bytes),
                Err(e) if e.kind() == io::ErrorKind::NotFound => {}
                Err(e) => return Err(unreadable(&dir.join("metadata.json"), &e)),
            }
        }
        Err(CliError::new(
            Exit::NotFound,
            format!("gateway {name:?} is not registered"),
        )
        .hint(
            "`openshell gateway list` shows those that are; `openshell gateway add URL` adds one",
        ))
    }

    /// All of them, by name; those that cannot be read are left out of the list and told by name.
    pub(crate) fn list(&self) -> (Vec<Entry>, Vec<CliError>) {
        let mut found: BTreeMap<String, Result<Entry, CliError>> = BTreeMap::new();
        for root in [&self.user, &self.system] {
            let Ok(dirs) = fs::read_dir(root.join("gateways")) else {
                continue;
            };
            for dir in dirs.flatten() {
                let Ok(name) = dir.file_name().into_string() else {
                    continue;
                };
                if check_name(&name).is_ok() && dir.path().join("metadata.json").exists() {
                    found
                        .entry(name.clone())
                        .or_insert_with(|| self.load(&name));
                }
            }
        }
        let (mut entries, mut errors) = (Vec::new(), Vec::new());
        for result in found.into_values() {
            match result {
                Ok(entry) => entries.push(entry),
                Err(error) => errors.push(error),
            }
        }
        (entries, errors)
    }

    /// Registers a gateway; its files are copied, readable by their owner alone.
    pub(crate) fn add(
        &self,
        name: &str,
        metadata: &Metadata,
        tls: Option<&TlsFiles>,
    ) -> CliResult<Entry> {
        check_name(name)?;
        let dir = self.user.join("gateways").join(name);
        if dir.join("metadata.json").exists() {
            return Err(CliError::new(
                Exit::Conflict,
                format!("gateway {name:?} is registered already"),
            )
            .hint(format!(
                "remove it first (`openshell gateway remove {name}`), or give another --name"
            )));
        }
        make_dir(&dir)?;
        let result = self.fill(name, &dir, metadata, tls);
        if result.is_err() {
            // Nothing half-made stays behind; that it cannot be removed would only hide the first error.
            drop(fs::remove_dir_all(&dir));
        }
        result
    }

    fn fill(
        &self,
        name: &str,
        dir: &Path,
        metadata: &Metadata,
        tls: Option<&TlsFiles>,
    ) -> CliResult<Entry> {
        if let Some(from) = tls {
            let to = TlsFiles::in_dir(dir);
            make_dir(&dir.join("mtls"))?;
            for (from, to) in [
                (&from.ca, &to.ca),
                (&from.cert, &to.cert),
                (&from.key, &to.key),
            ] {
                let bytes = fs::read(from).map_err(|e| unreadable(from, &e))?;
                write_private(to, &bytes)?;
            }
        }
        let text = serde_json::to_vec_pretty(metadata).map_err(|e| {
            CliError::local("the registration could not be written").why(e.to_string())
        })?;
        // Last: a gateway is registered once this file is there.
        write_private(&dir.join("metadata.json"), &text)?;
        Ok(Entry {
            name: name.to_owned(),
            dir: dir.to_owned(),
            metadata: metadata.clone(),
        })
    }

    /// Makes a gateway the one that is used when none is named.
    pub(crate) fn select(&self, name: &str) -> CliResult<()> {
        self.load(name)?;
        make_dir(&self.user)?;
        write_private(&self.user.join("active_gateway"), name.as_bytes())
    }

    /// Forgets a gateway of this user; the gateway itself is not touched.
    pub(crate) fn remove(&self, name: &str) -> CliResult<()> {
        let entry = self.load(name)?;
        if !entry.dir.starts_with(&self.user) {
            return Err(CliError::new(
                Exit::Denied,
                format!("gateway {name:?} is registered for the whole machine"),
            )
            .hint(format!(
                "an administrator can remove {}",
                entry.dir.display()
            )));
        }
        fs::remove_dir_all(&entry.dir).map_err(|e| {
            CliError::local(format!("gateway {name:?} could not be removed"))
                .why(format!("{}: {e}", entry.dir.display()))
        })?;
        let active = self.user.join("active_gateway");
        if fs::read_to_string(&active).is_ok_and(|text| text.trim() == name) {
            fs::remove_file(&active).map_err(|e| unreadable(&active, &e))?;
        }
        Ok(())
    }
}

fn entry(name: &str, dir: PathBuf, bytes: &[u8]) -> CliResult<Entry> {
    let metadata = serde_json::from_slice(bytes).map_err(|e| {
        CliError::local(format!("gateway {name:?} cannot be used"))
            .why(format!("{}: {e}", dir.join("metadata.json").display()))
            .hint("register it again with `openshell gateway add`")
    })?;
    Ok(Entry {
        name: name.to_owned(),
        dir,
        metadata,
    })
}

/// A name becomes a directory: nothing that could lead elsewhere.
pub(crate) fn check_name(name: &str) -> CliResult<()> {
    let good = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    if name.is_empty() || name.len() > 64 || name.starts_with('.') || !name.chars().all(good) {
        return Err(
            CliError::usage(format!("{name:?} is not a gateway name")).why(
                "use 1 to 64 characters of a-z, A-Z, 0-9, '.', '_' and '-', not beginning with '.'",
            ),
        );
    }
    Ok(())
}

fn unreadable(path: &Path, error: &io::Error) -> CliError {
    CliError::local(format!("{} could not be read", path.display())).why(error.to_string())
}

fn unwritable(path: &Path, error: &io::Error) -> CliError {
    CliError::local(format!("{} could not be written", path.display())).why(error.to_string())
}

fn make_dir(path: &Path) -> CliResult<()> {
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .map_err(|e| unwritable(path, &e))
}

/// Written beside and moved into place: a reader sees the old file or the new one, never half of it.
fn write_private(path: &Path, bytes: &[u8]) -> CliResult<()> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(format!(".{}.new", std::process::id()));
    let beside = PathBuf::from(beside);
    let write = || -> io::Result<()> {
        let mut file = fs::OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&beside)?;
        file.set_permissions(fs::Permissions::from_mode(0o600))?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&beside, path)
    };
    write().map_err(|e| {
        drop(fs::remove_file(&beside));
        unwritable(path, &e)
    })
}

#[cfg(test)]
mod tests;
