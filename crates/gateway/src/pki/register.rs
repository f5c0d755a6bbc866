//! The local gateway writes itself into the list of gateways that the CLI and the published clients read:
//! `$XDG_CONFIG_HOME/openshell/{active_gateway, gateways/<name>/{metadata.json, mtls/{ca.crt,tls.crt,tls.key}}}`.

use std::fs;
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::files::{private_dir, write_private};

/// What clients read. They look at `gateway_endpoint` and `auth_mode`; the rest is for people and for us.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Metadata {
    name: String,
    gateway_endpoint: String,
    /// mtls | none
    auth_mode: String,
    is_remote: bool,
    gateway_port: u16,
    /// Ours: which gateway wrote this. Absent from entries made by hand or by `gateway add`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    managed_by_state_dir: Option<String>,
}

/// What is registered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Registration<'a> {
    /// `$XDG_CONFIG_HOME/openshell`.
    pub(crate) config_dir: &'a Path,
    pub(crate) name: &'a str,
    /// `https://127.0.0.1:17670`.
    pub(crate) endpoint: &'a str,
    pub(crate) port: u16,
    pub(crate) state_dir: &'a Path,
    /// The set whose client certificate is handed out; `None` = plaintext.
    pub(crate) certificates: Option<&'a Path>,
}

/// What became of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Registered {
    /// As it is already.
    Unchanged,
    /// Written.
    Written {
        /// It is the active one, perhaps because there was none.
        active: bool,
    },
    /// There is an entry of this name that this gateway did not write.
    NotOurs,
}

/// Writes the entry if it is ours to write; makes it the active one only where there is none.
pub(crate) fn register(registration: Registration<'_>) -> io::Result<Registered> {
    let home = registration.config_dir;
    let entry = home.join("gateways").join(registration.name);
    let wanted = Metadata {
        name: registration.name.to_owned(),
        gateway_endpoint: registration.endpoint.to_owned(),
        auth_mode: match registration.certificates {
            Some(_) => "mtls".to_owned(),
            None => "none".to_owned(),
        },
        is_remote: false,
        gateway_port: registration.port,
        managed_by_state_dir: Some(registration.state_dir.display().to_string()),
    };
    let metadata = entry.join("metadata.json");
    let present = read(&metadata)?;
    if let Some(text) = &present {
        let owner = serde_json::from_str::<Metadata>(text)
            .ok()
            .and_then(|metadata| metadata.managed_by_state_dir);
        if owner != wanted.managed_by_state_dir {
            return Ok(Registered::NotOurs);
        }
    }

    private_dir(&entry)?;
    let mut changed = bundle(&entry.join("mtls"), registration.certificates)?;
    // Last: an entry is there when its metadata is.
    let text = format!("{}\n", serde_json::to_string_pretty(&wanted)?);
    if present.as_deref() != Some(text.as_str()) {
        write_private(&metadata, text.as_bytes())?;
        changed = true;
    }
    let active_file = home.join("active_gateway");
    let chosen = read(&active_file)?.unwrap_or_default();
    let chosen = chosen.trim();
    if chosen.is_empty() {
        write_private(&active_file, format!("{}\n", registration.name).as_bytes())?;
        changed = true;
    }
    let active = chosen.is_empty() || chosen == registration.name;
    Ok(match changed {
        true => Registered::Written { active },
        false => Registered::Unchanged,
    })
}

/// The client's certificate with its key, and the CA; answers whether anything changed.
fn bundle(directory: &Path, certificates: Option<&Path>) -> io::Result<bool> {
    let files = [
        ("ca.crt", "ca.crt"),
        ("client/tls.crt", "tls.crt"),
        ("client/tls.key", "tls.key"),
    ];
    let mut changed = false;
    for (from, to) in files {
        let path = directory.join(to);
        let Some(set) = certificates else {
            if path.exists() {
                fs::remove_file(&path)?;
                changed = true;
            }
            continue;
        };
        let contents = fs::read_to_string(set.join(from))?;
        if read(&path)?.as_deref() != Some(contents.as_str()) {
            private_dir(directory)?;
            write_private(&path, contents.as_bytes())?;
            changed = true;
        }
    }
    Ok(changed)
}

/// A small text file, `None` if there is none.
fn read(path: &Path) -> io::Result<Option<String>> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}
