//! Registry credentials, from where the user's own `docker login` left them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use openshell_lifecycle::driver::{DriverError, DriverErrorKind};
use serde::Deserialize;
use tokio::io::AsyncWriteExt;
use tokio::process::Command;

/// How long a credential helper may think.
const HELPER_TIMEOUT: Duration = Duration::from_secs(10);
/// The key under which the Docker Hub is kept.
const HUB: &str = "https://index.docker.io/v1/";

/// What a registry is shown.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Credentials {
    /// The registry they are for.
    pub registry: String,
    /// User name, empty with a token.
    pub username: String,
    /// Password, empty with a token.
    pub password: String,
    /// An identity token instead of both.
    pub identity_token: Option<String>,
}

// A password must not end up in logs.
impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Credentials")
            .field("registry", &self.registry)
            .field("username", &self.username)
            .finish_non_exhaustive()
    }
}

/// The file in which `docker login` keeps credentials.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RegistryAuth {
    /// Usually `~/.docker/config.json`; absent means that every pull is anonymous.
    pub config_file: Option<PathBuf>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct ConfigFile {
    auths: BTreeMap<String, AuthEntry>,
    #[serde(rename = "credsStore")]
    creds_store: Option<String>,
    #[serde(rename = "credHelpers")]
    cred_helpers: BTreeMap<String, String>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct AuthEntry {
    auth: String,
    username: String,
    password: String,
    identitytoken: Option<String>,
}

#[derive(Deserialize)]
struct HelperAnswer {
    #[serde(rename = "Username")]
    username: String,
    #[serde(rename = "Secret")]
    secret: String,
}

impl RegistryAuth {
    /// Looks where the `docker` client looks: `$DOCKER_CONFIG`, else `~/.docker`.
    pub fn from_environment() -> Self {
        let directory = std::env::var_os("DOCKER_CONFIG")
            .map(PathBuf::from)
            .or_else(|| std::env::var_os("HOME").map(|home| Path::new(&home).join(".docker")));
        Self {
            config_file: directory.map(|d| d.join("config.json")),
        }
    }

    /// Credentials for a registry (`docker.io`, `ghcr.io`, `localhost:5000`), if there are any.
    pub async fn find(&self, registry: &str) -> Result<Option<Credentials>, DriverError> {
        let Some(path) = &self.config_file else {
            return Ok(None);
        };
        let fail = |why: String| {
            DriverError::new(
                DriverErrorKind::ImagePull,
                format!(
                    "registry credentials in {} cannot be used: {why}",
                    path.display()
                ),
            )
        };
        let text = match tokio::fs::read_to_string(path).await {
            Ok(text) => text,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(fail(e.to_string())),
        };
        let file: ConfigFile = serde_json::from_str(&text).map_err(|e| fail(e.to_string()))?;
        let key = if registry == "docker.io" {
            HUB
        } else {
            registry
        };
        let helper = file
            .cred_helpers
            .get(registry)
            .or_else(|| file.cred_helpers.get(key))
            .or(file.creds_store.as_ref());
        if let Some(helper) = helper
            && let Some(found) = ask_helper(helper, key, registry).await.map_err(fail)?
        {
            return Ok(Some(found));
        }
        let entry = file
            .auths
            .iter()
            .find(|(name, _)| name.as_str() == key || host(name) == registry);
        match entry {
            Some((_, entry)) => entry.credentials(registry).map_err(fail),
            None => Ok(None),
        }
    }
}

impl AuthEntry {
    fn credentials(&self, registry: &str) -> Result<Option<Credentials>, String> {
        let mut found = Credentials {
            registry: registry.to_owned(),
            username: self.username.clone(),
            password: self.password.clone(),
            identity_token: self.identitytoken.clone(),
        };
        if !self.auth.is_empty() {
            let bad = || format!("the entry for {registry} is not base64 of name:password");
            let plain = STANDARD.decode(self.auth.trim()).map_err(|_| bad())?;
            let plain = String::from_utf8(plain).map_err(|_| bad())?;
            let (name, password) = plain.split_once(':').ok_or_else(bad)?;
            found.username = name.to_owned();
            found.password = password.trim_end_matches('\0').to_owned();
        }
        let empty = found.username.is_empty() && found.identity_token.is_none();
        Ok((!empty).then_some(found))
    }
}

/// `https://host/v1/` and `host/` as `host`.
fn host(key: &str) -> &str {
    let key = key
        .strip_prefix("https://")
        .or_else(|| key.strip_prefix("http://"))
        .unwrap_or(key);
    let host = key.split('/').next().unwrap_or(key);
    if host == "index.docker.io" {
        "docker.io"
    } else {
        host
    }
}

/// Asks `docker-credential-<helper>`. One that is not installed or does not know the registry has none.
async fn ask_helper(
    helper: &str,
    key: &str,
    registry: &str,
) -> Result<Option<Credentials>, String> {
    if helper.is_empty()
        || !helper
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b))
    {
        return Err(format!("{helper:?} is not the name of a credential helper"));
    }
    let program = format!("docker-credential-{helper}");
    let mut child = match Command::new(&program)
        .arg("get")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
    {
        Ok(child) => child,
        Err(e) => {
            tracing::warn!(%program, error = %e, "a configured credential helper cannot be run; pulling without it");
            return Ok(None);
        }
    };
    let answer = async {
        if let Some(mut stdin) = child.stdin.take() {
            // A helper that does not read its input says so by its exit status.
            let _ = stdin.write_all(key.as_bytes()).await;
        }
        child.wait_with_output().await
    };
    let output = tokio::time::timeout(HELPER_TIMEOUT, answer)
        .await
        .map_err(|_| format!("{program} did not answer within {HELPER_TIMEOUT:?}"))?
        .map_err(|e| format!("{program}: {e}"))?;
    if !output.status.success() {
        return Ok(None);
    }
    let answer: HelperAnswer = serde_json::from_slice(&output.stdout)
        .map_err(|e| format!("{program} answered what is not JSON: {e}"))?;
    let token = answer.username == "<token>";
    Ok(Some(Credentials {
        registry: registry.to_owned(),
        username: if token {
            String::new()
        } else {
            answer.username
        },
        password: if token {
            String::new()
        } else {
            answer.secret.clone()
        },
        identity_token: token.then_some(answer.secret),
    }))
}

#[cfg(test)]
mod tests;
