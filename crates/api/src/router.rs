//! All gRPC services behind one door: authentication, then the method.

use std::convert::Infallible;
use std::sync::Arc;

use axum::Router;
use axum::middleware::from_fn_with_state;
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
        .layer(from_fn_with_state(auth, authenticate))
}
