//! The gRPC service that supervisors dial.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{Stream, StreamExt as _};
use openshell_core::token::Claims;
use openshell_proto::supervisor::supervisor_gateway_server::{
    SupervisorGateway, SupervisorGatewayServer,
};
use openshell_proto::supervisor::{
    FromSupervisor, RelayFrame, RenewRequest, RenewResponse, ToSupervisor, relay_frame::Frame,
};
use tokio::sync::oneshot;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};

use super::conversation;
use super::hub::SessionHub;
use super::port::SessionPort;
use super::relay::{CLAIM_WITHIN, connect};
use crate::auth::Caller;

/// Larger messages from a supervisor end its stream.
const MAX_MESSAGE: usize = 1 << 20;

/// Makes new credentials for a run whose old ones still hold.
pub trait TokenRenewal: Send + Sync + 'static {
    /// For the gateway, and for the sandbox.
    fn renew(&self, claims: &Claims) -> Result<(String, String), String>;
}

/// How sessions are kept.
#[derive(Clone)]
pub struct SessionConfig {
    /// Sent so often, both ways.
    pub heartbeat: Duration,
    /// A session from which nothing was heard for so long is over.
    pub dead_after: Duration,
    /// A supervisor ends its run when the gateway was away for so long; zero = never.
    pub gateway_outage_limit: Duration,
    /// Without one, `Renew` is not implemented.
    pub renewal: Option<Arc<dyn TokenRenewal>>,
}

impl Default for SessionConfig {
    fn default() -> Self {
        Self {
            heartbeat: Duration::from_secs(5),
            dead_after: Duration::from_secs(15),
            gateway_outage_limit: Duration::from_secs(15 * 60),
            renewal: None,
        }
    }
}

impl std::fmt::Debug for SessionConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SessionConfig")
            .field("heartbeat", &self.heartbeat)
            .field("dead_after", &self.dead_after)
            .field("gateway_outage_limit", &self.gateway_outage_limit)
            .field("renewal", &self.renewal.is_some())
            .finish()
    }
}

/// The service behind `openshell.supervisor.v1.SupervisorGateway`.
pub struct Gateway<F> {
    hub: SessionHub,
    fence: F,
    config: SessionConfig,
}

/// The service, ready to be routed. Callers are told by the `Caller` in the request's extensions.
pub fn service<F: SessionPort + Clone>(
    hub: SessionHub,
    fence: F,
    config: SessionConfig,
) -> SupervisorGatewayServer<Gateway<F>> {
    SupervisorGatewayServer::new(Gateway { hub, fence, config })
        .max_decoding_message_size(MAX_MESSAGE)
}

fn claims<T>(request: &Request<T>) -> Result<Claims, Status> {
    match request.extensions().get::<Caller>() {
        Some(Caller::Supervisor(claims)) => Ok(claims.clone()),
        Some(Caller::User { .. }) => Err(Status::permission_denied(
            "only the supervisor of a run may do this",
        )),
        _ => Err(Status::unauthenticated("a run's token is required")),
    }
}

type Boxed<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send + 'static>>;

#[tonic::async_trait]
impl<F: SessionPort + Clone> SupervisorGateway for Gateway<F> {
    type SessionStream = ReceiverStream<Result<ToSupervisor, Status>>;
    type RelayStream = Boxed<RelayFrame>;

    async fn session(
        &self,
        request: Request<Streaming<FromSupervisor>>,
    ) -> Result<Response<Self::SessionStream>, Status> {
        let claims = claims(&request)?;
        if self.hub.closing().is_cancelled() {
            return Err(Status::unavailable("the gateway is shutting down"));
        }
        // In a task of its own: once the fence has accepted a session it must also hear of its end, even if this
        // call is cancelled meanwhile.
        let (reply, answer) = oneshot::channel();
        self.hub.tasks().spawn(conversation::run(
            self.hub.clone(),
            self.fence.clone(),
            self.config.clone(),
            claims,
            request.into_inner(),
            reply,
        ));
        let orders = answer
            .await
            .unwrap_or_else(|_| Err(Status::internal("the session ended before it began")))?;
        Ok(Response::new(ReceiverStream::new(orders)))
    }

    async fn relay(
        &self,
        request: Request<Streaming<RelayFrame>>,
    ) -> Result<Response<Self::RelayStream>, Status> {
        let claims = claims(&request)?;
        let mut inbound = request.into_inner();
        let first = tokio::time::timeout(CLAIM_WITHIN, inbound.message())
            .await
            .map_err(|_| Status::deadline_exceeded("the relay was not claimed in time"))??;
        let Some(Frame::Claim(claim)) = first.and_then(|frame| frame.frame) else {
            return Err(Status::invalid_argument(
                "the first frame of a relay is its claim",
            ));
        };
        let waiting = self.hub.pending().claim(&claims, &claim.relay_id)?;
        let (towards, over, pump) = connect(waiting)?.split(inbound);
        self.hub.tasks().spawn(pump);
        let towards = ReceiverStream::new(towards)
            .map(Ok)
            .take_until(over.cancelled_owned());
        Ok(Response::new(Box::pin(towards)))
    }

    async fn renew(
        &self,
        request: Request<RenewRequest>,
    ) -> Result<Response<RenewResponse>, Status> {
        let claims = claims(&request)?;
        let renewal = self.config.renewal.as_ref().ok_or_else(|| {
            Status::unimplemented("tokens of this gateway end with their run; none is renewed")
        })?;
        if self.fence.generation(claims.sandbox_id) != Some(claims.generation) {
            return Err(Status::failed_precondition("the run is over"));
        }
        let (gateway_token, sandbox_token) = renewal.renew(&claims).map_err(Status::internal)?;
        Ok(Response::new(RenewResponse {
            gateway_token,
            sandbox_token,
        }))
    }
}
