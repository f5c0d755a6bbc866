//! What the session service does with a caller that is not a well-behaved supervisor.

use std::time::Duration;

use openshell_api::session::SessionConfig;
use openshell_core::token::Audience;
use openshell_core::{Generation, SandboxId, posture};
use openshell_proto::link::{Posture, Property};
use openshell_proto::supervisor::supervisor_gateway_client::SupervisorGatewayClient;
use openshell_proto::supervisor::{
    FromSupervisor, Heartbeat, Hello, RelayClaim, RelayFrame, RenewRequest, from_supervisor,
    relay_frame,
};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request};

use crate::gateway::Gateway;
use crate::pair::World;

struct Caller {
    client: SupervisorGatewayClient<Channel>,
    token: String,
}

impl Caller {
    async fn new(world: &World, gateway: &Gateway) -> Self {
        let channel = Endpoint::from_shared(gateway.endpoint()).unwrap();
        Self {
            client: SupervisorGatewayClient::new(channel.connect().await.unwrap()),
            token: world.token(Audience::Gateway, world.sandbox, world.generation),
        }
    }

    fn request<T>(&self, message: T) -> Request<T> {
        let mut request = Request::new(message);
        let bearer = format!("Bearer {}", self.token).parse().unwrap();
        request.metadata_mut().insert("authorization", bearer);
        request
    }

    /// Says one thing; gives the code of the refusal, if it is refused.
    async fn begin(&mut self, first: from_supervisor::Message) -> Option<Code> {
        let (out, messages) = mpsc::channel(4);
        let message = FromSupervisor {
            message: Some(first),
        };
        out.send(message).await.unwrap();
        let request = self.request(ReceiverStream::new(messages));
        self.client.session(request).await.err().map(|s| s.code())
    }
}

fn hello(sandbox: SandboxId, generation: Generation) -> Hello {
    let properties = posture::REQUIRED.map(|name| Property {
        name: name.to_owned(),
        enforced: true,
        mechanism: String::new(),
    });
    Hello {
        sandbox_id: sandbox.to_string(),
        generation: generation.0,
        instance_id: uuid::Uuid::new_v4().to_string(),
        posture: Some(Posture {
            properties: properties.to_vec(),
            ..Posture::default()
        }),
        ..Hello::default()
    }
}

#[tokio::test]
async fn a_hello_must_match_its_token_and_make_sense() {
    use from_supervisor::Message;
    let world = World::new();
    let gateway = Gateway::start(&world).await;
    let mut caller = Caller::new(&world, &gateway).await;
    let other_sandbox = hello(SandboxId::random(), world.generation);
    let other_run = hello(world.sandbox, Generation(9));
    let no_instance = Hello {
        instance_id: "me".to_owned(),
        ..hello(world.sandbox, world.generation)
    };
    for (first, code) in [
        (Message::Hello(other_sandbox), Code::PermissionDenied),
        (Message::Hello(other_run), Code::PermissionDenied),
        (Message::Hello(no_instance), Code::InvalidArgument),
        (Message::Heartbeat(Heartbeat {}), Code::InvalidArgument),
    ] {
        assert_eq!(caller.begin(first.clone()).await, Some(code), "{first:?}");
    }
    assert!(gateway.fence.told().is_empty());
    assert_eq!(gateway.hub.sessions(), 0);
}

#[tokio::test]
async fn a_posture_that_was_not_measured_is_not_enforced() {
    let world = World::new();
    let gateway = Gateway::start(&world).await;
    let mut caller = Caller::new(&world, &gateway).await;
    let bare = Hello {
        posture: None,
        ..hello(world.sandbox, world.generation)
    };
    let refused = caller.begin(from_supervisor::Message::Hello(bare)).await;
    assert_eq!(refused, Some(Code::FailedPrecondition));
    gateway.fence.seen("Refused NotEnforced").await;
    assert_eq!(gateway.hub.sessions(), 0);
}

#[tokio::test]
async fn a_supervisor_that_falls_silent_is_out_of_session() {
    let world = World::new();
    let config = SessionConfig {
        dead_after: Duration::from_millis(300),
        ..SessionConfig::default()
    };
    let gateway = Gateway::start_with(&world, config).await;
    let mut caller = Caller::new(&world, &gateway).await;
    let (out, messages) = mpsc::channel(4);
    let hello = from_supervisor::Message::Hello(hello(world.sandbox, world.generation));
    let hello = FromSupervisor {
        message: Some(hello),
    };
    out.send(hello).await.unwrap();
    let request = caller.request(ReceiverStream::new(messages));
    let _inbound = caller.client.session(request).await.unwrap();
    gateway.fence.seen("Closed(\"silent for 300ms\")").await;
    assert!(!gateway.hub.connected(world.sandbox, world.generation));
    drop(out);
}

#[tokio::test]
async fn a_relay_that_nobody_asked_for_is_not_found() {
    let world = World::new();
    let gateway = Gateway::start(&world).await;
    let mut caller = Caller::new(&world, &gateway).await;
    for (first, code) in [
        (
            relay_frame::Frame::Claim(RelayClaim {
                relay_id: "guessed".to_owned(),
            }),
            Code::NotFound,
        ),
        (
            relay_frame::Frame::Forward(Default::default()),
            Code::InvalidArgument,
        ),
    ] {
        let frame = RelayFrame { frame: Some(first) };
        let (out, frames) = mpsc::channel(1);
        out.send(frame).await.unwrap();
        let request = caller.request(ReceiverStream::new(frames));
        let refused = caller.client.relay(request).await.unwrap_err();
        assert_eq!(refused.code(), code);
    }
}

#[tokio::test]
async fn without_a_renewal_there_is_none() {
    let world = World::new();
    let gateway = Gateway::start(&world).await;
    let mut caller = Caller::new(&world, &gateway).await;
    let request = caller.request(RenewRequest {});
    let refused = caller.client.renew(request).await.unwrap_err();
    assert_eq!(refused.code(), Code::Unimplemented);
}
