//! Attach: both sides prove themselves, the instance is pinned, the rules are put in force and measured.

use std::sync::Arc;

use openshell_core::token::{self, Audience, Claims};
use openshell_proto::link;
use tonic::Status;

use crate::clock;
use crate::freeze::Cause;
use crate::posture::{EGRESS, Posture, Property};
use crate::process::launcher::Launcher;
use crate::processes::locked;
use crate::runtime::Runtime;

/// No id of an instance is longer.
const MAX_INSTANCE: usize = 64;
const NONCE: usize = 32;

fn wire(posture: &Posture) -> link::Posture {
    link::Posture {
        properties: posture
            .properties
            .iter()
            .map(|p| link::Property {
                name: p.name.to_owned(),
                enforced: p.enforced,
                mechanism: p.mechanism.clone(),
            })
            .collect(),
        uid: posture.uid,
        gid: posture.gid,
        landlock_abi: posture.landlock_abi,
    }
}

/// Attaches, or says why not. Nothing of this run changes before the supervisor is proven.
pub(super) async fn attach(
    runtime: &Arc<Runtime>,
    request: link::AttachRequest,
) -> Result<link::AttachResponse, Status> {
    authenticate(runtime, &request)?;
    pin(runtime, &request.instance_id)?;
    prepare(runtime, request.policy).await;
    let resumed = runtime.freezer.thaw(Cause::Link);
    if resumed {
        let text = "the supervisor is back; the workload goes on".to_owned();
        runtime.control.log("info", "sandbox", text, &[]);
    }
    let proof = token::link_proof(
        &runtime.bootstrap.link_secret,
        &request.nonce,
        &request.instance_id,
        &request.token,
    );
    let posture = wire(&locked(&runtime.posture));
    Ok(link::AttachResponse {
        proof: proof.to_vec().into(),
        posture: Some(posture),
        main: Some(runtime.main.state()),
        resumed,
    })
}

fn authenticate(runtime: &Runtime, request: &link::AttachRequest) -> Result<(), Status> {
    let refuse = |why: String| Err(Status::unauthenticated(why));
    let key = &runtime.bootstrap.gateway_key;
    let claims: Claims = match token::verify(key, &request.token, Audience::Sandbox, clock::now()) {
        Ok(claims) => claims,
        Err(e) => return refuse(format!("sandbox token: {e}")),
    };
    if claims.sandbox_id != runtime.bootstrap.sandbox {
        return refuse("the token is for another sandbox than this runtime's".to_owned());
    }
    if claims.generation != runtime.bootstrap.generation {
        return refuse(format!(
            "the token is for generation {}, this runtime is generation {}",
            claims.generation, runtime.bootstrap.generation
        ));
    }
    if request.nonce.len() != NONCE {
        return Err(Status::invalid_argument("the nonce is not 32 bytes"));
    }
    if request.instance_id.is_empty() || request.instance_id.len() > MAX_INSTANCE {
        return Err(Status::invalid_argument(
            "the supervisor's instance id is empty or too long",
        ));
    }
    Ok(())
}

fn pin(runtime: &Runtime, instance: &str) -> Result<(), Status> {
    let mut session = locked(&runtime.session);
    if session.terminal {
        return Err(Status::failed_precondition(
            "the sandbox session is terminal",
        ));
    }
    match &session.instance {
        None => session.instance = Some(instance.to_owned()),
        Some(pinned) if pinned == instance => {}
        Some(_) => {
            return Err(Status::permission_denied(
                "the sandbox runtime is already bound to another supervisor process",
            ));
        }
    }
    Ok(())
}

/// Puts the rules in force, once. What fails shows in the posture, and nothing will be started.
async fn prepare(runtime: &Arc<Runtime>, policy: Option<link::Policy>) {
    if runtime.launcher.get().is_some() || !locked(&runtime.posture).faults().is_empty() {
        return;
    }
    let registry = Arc::clone(&runtime.registry);
    match Launcher::new(policy, registry, runtime.questions.clone()).await {
        Ok((launcher, measured)) => {
            {
                let mut posture = locked(&runtime.posture);
                for property in measured.properties {
                    posture.set(property);
                }
            }
            if !measured.skipped.is_empty() {
                let text = format!(
                    "paths that the policy grants do not exist in this image: {}",
                    measured.skipped.join(", ")
                );
                runtime.control.log("warn", "sandbox", text, &[]);
            }
            let _first = runtime.launcher.set(launcher);
        }
        Err(why) => {
            let name = if why.contains("policy") || why.contains("Landlock") {
                crate::posture::FILESYSTEM
            } else {
                EGRESS
            };
            locked(&runtime.posture).set(Property::missing(name, why));
        }
    }
}
