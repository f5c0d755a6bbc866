//! Connections to the engine: made when first needed, negotiated once for each time the engine is up.

use std::path::Path;
use std::sync::{PoisonError, RwLock};
use std::time::Duration;

use bollard::models::SystemVersion;
use bollard::{API_DEFAULT_VERSION, BollardRequest, ClientVersion, Docker};
use http::HeaderValue;
use openshell_core::engine::{OLDEST_API, PODMAN_COMPONENT, Sockets};

use super::dialect::Dialect;
use super::error::{lost, translate};
use crate::engine::{EngineError, EngineErrorKind};

/// A question should be answered at once.
pub(super) const QUERY: Duration = Duration::from_secs(15);
/// Making, starting and removing take disk and kernel time on a loaded machine.
const ACTION: Duration = Duration::from_secs(120);
/// Waits, events and pulls last as long as they last; their callers bound them.
const ENDLESS: Duration = Duration::from_secs(10 * 365 * 86_400);

/// Lazily connected clients that share one transport.
pub(super) struct Client {
    sockets: Sockets,
    dialect: Box<dyn Dialect>,
    /// Negotiated in this epoch of the engine.
    docker: RwLock<Option<Docker>>,
}

impl Client {
    pub(super) const fn new(sockets: Sockets, dialect: Box<dyn Dialect>) -> Self {
        Self {
            sockets,
            dialect,
            docker: RwLock::new(None),
        }
    }

    pub(super) fn dialect(&self) -> &dyn Dialect {
        &*self.dialect
    }

    /// Where the engine is, or would be.
    pub(super) fn socket(&self) -> &Path {
        self.sockets.pick(Path::exists)
    }

    /// For questions.
    pub(super) async fn query(&self) -> Result<Docker, EngineError> {
        self.with_timeout(QUERY).await
    }

    /// For changes.
    pub(super) async fn action(&self) -> Result<Docker, EngineError> {
        self.with_timeout(ACTION).await
    }

    /// For streams.
    pub(super) async fn endless(&self) -> Result<Docker, EngineError> {
        self.with_timeout(ENDLESS).await
    }

    /// With a bound of its own.
    pub(super) async fn with_timeout(&self, timeout: Duration) -> Result<Docker, EngineError> {
        let known = self
            .docker
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        let docker = match known {
            Some(docker) => docker,
            // Several first calls may negotiate side by side; any of the answers will do.
            None => self.negotiate().await?,
        };
        Ok(docker.with_timeout(timeout))
    }

    /// One question tells who listens and which API it speaks: Podman takes half a second for the answer.
    async fn negotiate(&self) -> Result<Docker, EngineError> {
        let connect = |version: &ClientVersion| {
            let socket = self.socket().to_string_lossy();
            Docker::connect_with_unix(&socket, QUERY.as_secs(), version)
                .map_err(|e| self.failed(&e))
                .map(|docker| docker.with_request_modifier(url_safe_credentials))
        };
        let docker = connect(API_DEFAULT_VERSION)?;
        let spoken = docker.version().await.map_err(|e| self.failed(&e))?;
        let version = self.check(&spoken)?;
        let docker = if version < *API_DEFAULT_VERSION {
            connect(&version)?
        } else {
            docker
        };
        *self.docker.write().unwrap_or_else(PoisonError::into_inner) = Some(docker.clone());
        Ok(docker)
    }

    /// Whether this is the engine that is meant, and new enough; which API is spoken then.
    fn check(&self, spoken: &SystemVersion) -> Result<ClientVersion, EngineError> {
        let manner = self.dialect.manner();
        let socket = self.socket().display();
        let components = spoken.components.as_deref().unwrap_or_default();
        let is_podman = components.iter().any(|one| one.name == PODMAN_COMPONENT);
        if is_podman != self.dialect.is_podman() {
            let (other, name) = if is_podman {
                ("Podman", "podman")
            } else {
                ("Docker", "docker")
            };
            // As good as not there: nothing that it says is about what the records speak of.
            return Err(EngineError::new(
                EngineErrorKind::Unreachable,
                format!(
                    "{other} answers at {socket}, and the {} driver was to use it; set compute_driver = \"{name}\", or set socket_path in [openshell.drivers.{}] to {}'s socket",
                    manner.name, manner.name, manner.title
                ),
            ));
        }
        let text = spoken.api_version.as_deref().unwrap_or_default();
        let mut numbers = text.split('.').map(str::parse::<usize>);
        let (Some(Ok(major_version)), Some(Ok(minor_version))) = (numbers.next(), numbers.next())
        else {
            return Err(EngineError::new(
                EngineErrorKind::Other,
                format!(
                    "{} at {socket} names no API version ({text:?})",
                    manner.title
                ),
            ));
        };
        let oldest = (OLDEST_API.0 as usize, OLDEST_API.1 as usize);
        if (major_version, minor_version) < oldest {
            return Err(EngineError::new(
                EngineErrorKind::Other,
                format!(
                    "{} at {socket} speaks API {text}, and at least {}.{} ({}) is needed; update {}",
                    manner.title, oldest.0, oldest.1, manner.oldest, manner.title
                ),
            ));
        }
        Ok(ClientVersion {
            major_version,
            minor_version,
        })
    }

    /// Translates a failure.
    pub(super) fn failed(&self, error: &bollard::errors::Error) -> EngineError {
        self.noted(translate(self.socket(), &*self.dialect, error))
    }

    /// A connection that ended, or an answer that cannot be read.
    pub(super) fn lost(&self, words: &str) -> EngineError {
        self.noted(lost(self.socket(), &*self.dialect, words))
    }

    /// A failure of the connection ends the epoch: another engine, of another version, may answer next.
    fn noted(&self, error: EngineError) -> EngineError {
        if error.kind == EngineErrorKind::Unreachable {
            *self.docker.write().unwrap_or_else(PoisonError::into_inner) = None;
        }
        error
    }
}

/// The engine reads credentials in the URL-safe alphabet and takes anything else for none at all; bollard writes
/// them in the standard one.
fn url_safe_credentials(mut request: BollardRequest) -> BollardRequest {
    let Some(written) = request.headers().get("X-Registry-Auth") else {
        return request;
    };
    let bytes: Vec<u8> = written
        .as_bytes()
        .iter()
        .map(|byte| match byte {
            b'+' => b'-',
            b'/' => b'_',
            other => *other,
        })
        .collect();
    if let Ok(mut value) = HeaderValue::from_bytes(&bytes) {
        value.set_sensitive(true);
        request.headers_mut().insert("X-Registry-Auth", value);
    }
    request
}
