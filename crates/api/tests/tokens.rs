//! A run's token is good for that run and for no other.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test helpers")]

mod support;

use openshell_core::{Generation, SandboxId, SupervisorInstance};
use openshell_proto::api::{self, SandboxPhase};
use openshell_proto::supervisor::supervisor_gateway_client::SupervisorGatewayClient;
use openshell_proto::supervisor::{FromSupervisor, Hello, from_supervisor};
use support::{Credentials, DEADLINE, Gateway};
use tonic::Code;

/// Says hello as the supervisor of one run, with a token of one run, and gives the refusal.
async fn hello(g: &Gateway, token: String, sandbox: SandboxId, generation: Generation) -> Code {
    let mut client =
        SupervisorGatewayClient::with_interceptor(g.channel(), Credentials(Some(token)));
    let hello = Hello {
        sandbox_id: sandbox.to_string(),
        generation: generation.0,
        instance_id: SupervisorInstance::random().to_string(),
        ..Hello::default()
    };
    let first = FromSupervisor {
        message: Some(from_supervisor::Message::Hello(hello)),
    };
    let session = client.session(tokio_stream::iter([first]));
    let answer = tokio::time::timeout(DEADLINE, session).await;
    answer.expect("an answer in time").unwrap_err().code()
}

#[tokio::test]
async fn a_sandboxs_token_opens_no_session_of_another_sandbox_or_another_run() {
    let g = Gateway::start().await;
    let [one, other] = [g.ready("one").await, g.ready("other").await]
        .map(|sandbox| sandbox.metadata.unwrap().id.parse::<SandboxId>().unwrap());
    let run = Generation(1);
    let token = |sandbox| g.token(sandbox, run);
    for (token, sandbox, generation) in [
        (token(one), other, run),
        (token(other), one, run),
        (token(one), one, Generation(2)),
        (token(SandboxId::random()), one, run),
    ] {
        let code = hello(&g, token, sandbox, generation).await;
        assert_eq!(code, Code::PermissionDenied, "{sandbox} {generation}");
    }
    // Nobody was disturbed: both are in the session that they had.
    for name in ["one", "other"] {
        g.phase(name, SandboxPhase::Ready).await;
        let exec = api::ExecSandboxRequest {
            sandbox: name.to_owned(),
            command: vec!["fail".to_owned(), "0".to_owned()],
            ..Default::default()
        };
        let mut events = g.user().exec_sandbox(exec).await.unwrap().into_inner();
        let first = tokio::time::timeout(DEADLINE, events.message()).await;
        assert!(first.expect("in time").unwrap().is_some(), "{name}");
    }
}
