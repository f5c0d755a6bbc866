//! Credentials of runs: a link secret for both halves, and two tokens for the supervisor.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use openshell_api::session::TokenRenewal;
use openshell_core::bootstrap::{
    DEFAULT_WORKLOAD_UID, SUPERVISOR_UID, SandboxBootstrap, SupervisorBootstrap,
};
use openshell_core::token::{Audience, Claims, Signer};
use openshell_core::{Generation, SandboxId, SandboxRecord, Timestamp};
use openshell_lifecycle::ports::{CredentialIssuer, Environment as _, SystemEnvironment};
use ring::rand::{SecureRandom as _, SystemRandom};

/// The gateway as an issuer of credentials.
#[derive(Debug)]
pub(crate) struct Issuer {
    pub(crate) signer: Signer,
    /// Goes into the tokens, so that those of two gateways are told apart.
    pub(crate) gateway: String,
    /// Where supervisors reach this gateway.
    pub(crate) endpoint: String,
    /// Whom they trust for it; empty = plaintext.
    pub(crate) ca_pem: String,
    pub(crate) stop_grace_millis: u64,
}

impl Issuer {
    /// A token for one audience. It ends with its run: the gateway accepts the recorded generation only, and a
    /// sandbox is one run.
    fn token(
        &self,
        sandbox: SandboxId,
        generation: Generation,
        audience: Audience,
        now: Timestamp,
    ) -> Result<String, String> {
        let claims = Claims {
            iss: format!("openshell-gateway:{}", self.gateway),
            aud: audience,
            sandbox_id: sandbox,
            generation,
            iat: now.as_second(),
            exp: 0,
            jti: uuid::Uuid::new_v4().to_string(),
        };
        self.signer
            .sign(&claims)
            .map_err(|error| format!("a token could not be signed: {error}"))
    }
}

impl CredentialIssuer for Issuer {
    fn issue(
        &self,
        record: &SandboxRecord,
        generation: Generation,
        now: Timestamp,
    ) -> Result<(SandboxBootstrap, SupervisorBootstrap), String> {
        let mut secret = [0; 32];
        SystemRandom::new()
            .fill(&mut secret)
            .map_err(|_| "the system's random source failed".to_owned())?;
        let link_secret = STANDARD.encode(secret);
        let sandbox_id = record.meta.id;
        let sandbox = SandboxBootstrap {
            sandbox_id,
            generation,
            gateway_public_key: STANDARD.encode(self.signer.public_key()),
            link_secret: link_secret.clone(),
            supervisor_uid: SUPERVISOR_UID,
            stop_grace_millis: self.stop_grace_millis,
        };
        let supervisor = SupervisorBootstrap {
            sandbox_id,
            sandbox_name: record.meta.name.to_string(),
            generation,
            gateway_endpoint: self.endpoint.clone(),
            gateway_ca_pem: self.ca_pem.clone(),
            gateway_token: self.token(sandbox_id, generation, Audience::Gateway, now)?,
            sandbox_token: self.token(sandbox_id, generation, Audience::Sandbox, now)?,
            link_secret,
            // The driver knows the image, and so the user.
            workload_uid: DEFAULT_WORKLOAD_UID,
            stop_grace_millis: self.stop_grace_millis,
        };
        Ok((sandbox, supervisor))
    }
}

impl TokenRenewal for Issuer {
    fn renew(&self, claims: &Claims) -> Result<(String, String), String> {
        let now = SystemEnvironment.now();
        let token = |audience| self.token(claims.sandbox_id, claims.generation, audience, now);
        Ok((token(Audience::Gateway)?, token(Audience::Sandbox)?))
    }
}
