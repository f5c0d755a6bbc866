//! Connections to the engine: made when first needed, negotiated once for each time the engine is up.

use std::path::PathBuf;
use std::sync::{PoisonError, RwLock};
use std::time::Duration;

use bollard::{API_DEFAULT_VERSION, BollardRequest, Docker};
use http::HeaderValue;
use openshell_container::{EngineError, EngineErrorKind};

use crate::error::translate;

/// A question should be answered at once.
const QUERY: Duration = Duration::from_secs(15);
/// Making, starting and removing take disk and kernel time on a loaded machine.
const ACTION: Duration = Duration::from_secs(120);
/// Waits, events and pulls last as long as they last; their callers bound them.
const ENDLESS: Duration = Duration::from_secs(10 * 365 * 86_400);
/// Docker 20.10.
const MINIMUM_API: (usize, usize) = (1, 41);

/// Lazily connected clients that share one transport.
pub(crate) struct Client {
    socket: PathBuf,
    /// Negotiated in this epoch of the engine.
    docker: RwLock<Option<Docker>>,
}

impl Client {
    pub(crate) const fn new(socket: PathBuf) -> Self {
        Self {
            socket,
            docker: RwLock::new(None),
        }
    }

    /// For questions.
    pub(crate) async fn query(&self) -> Result<Docker, EngineError> {
        self.with_timeout(QUERY).await
    }

    /// For changes.
    pub(crate) async fn action(&self) -> Result<Docker, EngineError> {
        self.with_timeout(ACTION).await
    }

    /// For streams.
    pub(crate) async fn endless(&self) -> Result<Docker, EngineError> {
        self.with_timeout(ENDLESS).await
    }

    /// With a bound of its own.
    pub(crate) async fn with_timeout(&self, timeout: Duration) -> Result<Docker, EngineError> {
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

    async fn negotiate(&self) -> Result<Docker, EngineError> {
        let socket = self.socket.to_string_lossy();
        let docker = Docker::connect_with_unix(&socket, QUERY.as_secs(), API_DEFAULT_VERSION)
            .map_err(|e| self.failed(&e))?
            .with_request_modifier(url_safe_credentials)
            .negotiate_version()
            .await
            .map_err(|e| self.failed(&e))?;
        let version = docker.client_version();
        if (version.major_version, version.minor_version) < MINIMUM_API {
            return Err(EngineError::new(
                EngineErrorKind::Other,
                format!(
                    "Docker at {socket} speaks API {}.{}, and at least 1.41 (Docker 20.10) is needed; update Docker",
                    version.major_version, version.minor_version
                ),
            ));
        }
        *self.docker.write().unwrap_or_else(PoisonError::into_inner) = Some(docker.clone());
        Ok(docker)
    }

    /// Translates a failure. One of the connection ends the epoch: another engine, of another version, may answer next.
    pub(crate) fn failed(&self, error: &bollard::errors::Error) -> EngineError {
        let error = translate(&self.socket, error);
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
