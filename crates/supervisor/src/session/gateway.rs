//! The connection to the gateway: its CA only, and the run's token on every call.

use std::time::Duration;

use openshell_proto::supervisor::supervisor_gateway_client::SupervisorGatewayClient;
use openshell_proto::supervisor::{
    FromSupervisor, RelayFrame, RenewRequest, RenewResponse, ToSupervisor,
};
use tokio_stream::wrappers::ReceiverStream;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint};
use tonic::{Request, Status, Streaming};

use crate::state::Run;

const CONNECT: Duration = Duration::from_secs(5);
const MAX_MESSAGE: usize = 1 << 20;
/// As on the link: a stalled relay leaves room for the session and the other relays.
const STREAM_WINDOW: u32 = 256 << 10;
const CONNECTION_WINDOW: u32 = 17 << 20;

/// A connected gateway.
#[derive(Clone)]
pub(crate) struct Gateway {
    client: SupervisorGatewayClient<Channel>,
    authorization: MetadataValue<Ascii>,
}

impl Gateway {
    pub(super) async fn connect(run: &Run) -> Result<Self, String> {
        let endpoint = endpoint(
            &run.bootstrap.gateway_endpoint,
            &run.bootstrap.gateway_ca_pem,
        )
        .map_err(|e| detail(&e))?;
        let mut authorization: MetadataValue<Ascii> =
            format!("Bearer {}", run.credentials().gateway)
                .parse()
                .map_err(|_| "the token is not one that can be sent".to_owned())?;
        authorization.set_sensitive(true);
        let channel = endpoint.connect().await.map_err(|e| detail(&e))?;
        Ok(Self {
            client: SupervisorGatewayClient::new(channel).max_decoding_message_size(MAX_MESSAGE),
            authorization,
        })
    }

    fn authorized<T>(&self, message: T) -> Request<T> {
        let mut request = Request::new(message);
        request
            .metadata_mut()
            .insert("authorization", self.authorization.clone());
        request
    }

    pub(super) async fn session(
        &self,
        messages: ReceiverStream<FromSupervisor>,
    ) -> Result<Streaming<ToSupervisor>, Status> {
        let request = self.authorized(messages);
        Ok(self.client.clone().session(request).await?.into_inner())
    }

    pub(crate) async fn relay(
        &self,
        frames: ReceiverStream<RelayFrame>,
    ) -> Result<Streaming<RelayFrame>, Status> {
        let request = self.authorized(frames);
        Ok(self.client.clone().relay(request).await?.into_inner())
    }

    pub(super) async fn renew(&self) -> Result<RenewResponse, Status> {
        let request = self.authorized(RenewRequest {});
        Ok(self.client.clone().renew(request).await?.into_inner())
    }
}

fn endpoint(uri: &str, ca_pem: &str) -> Result<Endpoint, tonic::transport::Error> {
    let endpoint = Endpoint::from_shared(uri.to_owned())?
        .connect_timeout(CONNECT)
        .tcp_nodelay(true)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW);
    if ca_pem.is_empty() {
        return Ok(endpoint);
    }
    endpoint.tls_config(ClientTlsConfig::new().ca_certificate(Certificate::from_pem(ca_pem)))
}

/// Transport errors say what happened only in their sources.
fn detail(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}
