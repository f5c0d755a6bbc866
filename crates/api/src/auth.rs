//! Who calls, and what they may call: users by client certificate, supervisors by their run's token.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use openshell_core::Timestamp;
use openshell_core::token::{self, Audience, Claims};
use openshell_lifecycle::ports::{Environment as _, SystemEnvironment};
use tonic::{Code, Status};

use crate::status;

/// A verified client certificate's subject; set by the TLS listener as a request extension.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PeerIdentity {
    /// The common name.
    pub subject: String,
}

/// How callers are told apart.
#[derive(Clone, Debug)]
pub struct AuthConfig {
    /// Verifies supervisors' tokens: the gateway's Ed25519 public key, 32 bytes.
    pub public_key: Vec<u8>,
    /// Whether a caller without a certificate is a user (plaintext on loopback, by explicit flag).
    pub allow_unauthenticated_users: bool,
}

/// Who calls; a request extension behind [`authenticate`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Caller {
    /// A person or a program of theirs.
    User {
        /// The certificate's subject.
        subject: String,
        /// For people.
        display_name: String,
    },
    /// A supervisor, for its own sandbox and run only.
    Supervisor(Claims),
    /// Nobody in particular.
    Anonymous,
}

const HEALTH: &str = "/openshell.v1.OpenShell/Health";
const SUPERVISORS: &str = "/openshell.supervisor.v1.SupervisorGateway/";

/// The middleware in front of every RPC: finds out who calls and whether they may.
pub async fn authenticate(
    State(config): State<Arc<AuthConfig>>,
    mut request: Request,
    next: Next,
) -> Response {
    match decide(&config, &request, SystemEnvironment.now()) {
        Ok(caller) => {
            request.extensions_mut().insert(caller);
            next.run(request).await
        }
        Err(refusal) => {
            let path: String = request.uri().path().chars().take(128).collect();
            tracing::info!(path, why = refusal.message(), "call refused");
            refusal.into_http()
        }
    }
}

fn decide(config: &AuthConfig, request: &Request, now: Timestamp) -> Result<Caller, Status> {
    let path = request.uri().path();
    if path == HEALTH {
        return Ok(Caller::Anonymous);
    }
    let caller = identify(config, request, now)?;
    let for_supervisors = path.starts_with(SUPERVISORS);
    match (&caller, for_supervisors) {
        (Caller::User { .. }, false) | (Caller::Supervisor(_), true) => Ok(caller),
        (Caller::User { .. }, true) => Err(status::error(
            Code::PermissionDenied,
            "SUPERVISOR_ONLY",
            "this call is for supervisors; it takes a run's token",
        )),
        (Caller::Supervisor(_), false) => Err(status::error(
            Code::PermissionDenied,
            "USER_ONLY",
            "a supervisor's token works for its own session only, not for this call",
        )),
        (Caller::Anonymous, _) => Err(status::error(
            Code::Unauthenticated,
            "NO_CREDENTIALS",
            "no client certificate was presented; register the gateway with `openshell gateway add` \
             or use its client certificate",
        )),
    }
}

/// A token, where there is one, says who calls; else the certificate does.
fn identify(config: &AuthConfig, request: &Request, now: Timestamp) -> Result<Caller, Status> {
    if let Some(header) = request.headers().get(http::header::AUTHORIZATION) {
        let refused = |why: String| status::error(Code::Unauthenticated, "TOKEN_REFUSED", why);
        let token = header.to_str().ok().and_then(bearer).ok_or_else(|| {
            refused("the authorization header is not `Bearer <token>`".to_owned())
        })?;
        return token::verify(&config.public_key, token, Audience::Gateway, now)
            .map(Caller::Supervisor)
            .map_err(|e| refused(e.to_string()));
    }
    if let Some(PeerIdentity { subject }) = request.extensions().get() {
        return Ok(user(subject));
    }
    if config.allow_unauthenticated_users {
        return Ok(user("local"));
    }
    Ok(Caller::Anonymous)
}

fn user(subject: &str) -> Caller {
    Caller::User {
        subject: subject.to_owned(),
        display_name: subject.to_owned(),
    }
}

fn bearer(header: &str) -> Option<&str> {
    let (scheme, token) = header.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

#[cfg(test)]
mod tests;
