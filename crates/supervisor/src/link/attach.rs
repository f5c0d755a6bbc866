//! The first call on a connection: both sides prove who they are.

use openshell_core::token::verify_link_proof;
use openshell_proto::link::{AttachRequest, AttachResponse, Policy};
use ring::rand::SecureRandom as _;
use tonic::{Code, Status};

use super::connection::Link;
use crate::state::Run;

/// Why a connection was not attached.
pub(super) enum AttachError {
    /// It broke, or whoever dialled is not our sandbox: another may come.
    Broken(String),
    /// Our sandbox will not have us: this run cannot be.
    Refused(String),
    /// It does not confirm what it must enforce.
    Posture(Vec<String>),
}

/// Attaches, and checks the answer's proof.
pub(super) async fn attach(link: &mut Link, run: &Run) -> Result<AttachResponse, AttachError> {
    let mut nonce = vec![0; 32];
    ring::rand::SystemRandom::new()
        .fill(&mut nonce)
        .map_err(|_| AttachError::Broken("the system has no random bytes".to_owned()))?;
    let token = run.credentials().sandbox;
    let instance_id = run.instance.to_string();
    let request = AttachRequest {
        token: token.clone(),
        instance_id: instance_id.clone(),
        nonce: nonce.clone().into(),
        policy: None::<Policy>,
    };
    let answer = link.control().attach(request).await.map_err(refusal)?;
    let answer = answer.into_inner();
    if !verify_link_proof(
        &run.link_secret,
        &nonce,
        &instance_id,
        &token,
        &answer.proof,
    ) {
        return Err(AttachError::Broken(
            "whoever answered does not hold the link secret of this run".to_owned(),
        ));
    }
    Ok(answer)
}

fn refusal(status: Status) -> AttachError {
    match status.code() {
        Code::Unauthenticated
        | Code::PermissionDenied
        | Code::FailedPrecondition
        | Code::AlreadyExists
        | Code::InvalidArgument => AttachError::Refused(format!(
            "the sandbox refused this supervisor: {}",
            status.message()
        )),
        _ => AttachError::Broken(status.message().to_owned()),
    }
}
