//! All gRPC services behind one door: authentication, then the method.

use std::convert::Infallible;
use std::sync::Arc;

use axum::Router;
use axum::middleware::{from_fn, from_fn_with_state};
use axum::response::Response as Answer;
use http::HeaderValue;
use openshell_lifecycle::LifecycleFence;
use openshell_proto::api::open_shell_server::OpenShellServer;
use openshell_proto::plus::open_shell_plus_server::OpenShellPlusServer;
use tonic::body::Body;
use tonic::codegen::http::{Request, Response};
use tonic::server::NamedService;
use tonic::service::Routes;
use tower::Service;

use crate::auth::authenticate;
use crate::service::{Api, MAX_MESSAGE};

/// Combines the public API, our own beside it, and the supervisors' service. Every path that none of them
/// serves answers UNIMPLEMENTED, after authentication.
pub fn router<F, S>(api: Api<F>, supervisors: S) -> Router
where
    F: LifecycleFence,
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>
        + NamedService
        + Clone
        + Send
        + Sync
        + 'static,
    S::Future: Send + 'static,
{
    let auth = Arc::new(api.auth().clone());
    let public = OpenShellServer::new(api.clone()).max_decoding_message_size(MAX_MESSAGE);
    let plus = OpenShellPlusServer::new(api).max_decoding_message_size(MAX_MESSAGE);
    Routes::new(public)
        .add_service(plus)
        .add_service(supervisors)
        .into_axum_router()
        .layer(from_fn(async |request, next: axum::middleware::Next| {
            blame_the_sender(next.run(request).await)
        }))
        .layer(from_fn_with_state(auth, authenticate))
}

/// A message that does not decode (truncated, or text that is not UTF-8) is its sender's fault, not ours.
fn blame_the_sender(mut answer: Answer) -> Answer {
    let headers = answer.headers_mut();
    let undecodable = headers
        .get("grpc-message")
        .is_some_and(|m| m.as_bytes().starts_with(UNDECODABLE));
    if undecodable && headers.get("grpc-status").is_some_and(|s| s == INTERNAL) {
        headers.insert("grpc-status", HeaderValue::from_static(INVALID_ARGUMENT));
    }
    answer
}

const INTERNAL: &str = "13";
const INVALID_ARGUMENT: &str = "3";
/// Percent-encoded as it travels.
const UNDECODABLE: &[u8] = b"failed%20to%20decode%20Protobuf%20message";
