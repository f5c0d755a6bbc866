//! Run tokens: compact JWS, Ed25519 only. Bound to one sandbox, one generation and one audience.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as B64;
use jiff::Timestamp;
use ring::signature::{self, Ed25519KeyPair, KeyPair as _, UnparsedPublicKey};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::id::{Generation, SandboxId};

/// Clocks may differ by this much.
const SKEW_SECONDS: i64 = 30;
/// Longer tokens are not looked at.
const MAX_TOKEN: usize = 4096;

/// Whom a token is for; it works nowhere else.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Audience {
    /// Supervisor to gateway.
    #[serde(rename = "openshell-gateway")]
    Gateway,
    /// Supervisor to sandbox runtime.
    #[serde(rename = "openshell-sandbox")]
    Sandbox,
}

/// What a token says.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claims {
    /// `openshell-gateway:<gateway name>`.
    pub iss: String,
    /// Whom it is for.
    pub aud: Audience,
    /// The sandbox.
    pub sandbox_id: SandboxId,
    /// The run.
    pub generation: Generation,
    /// Issued at, seconds since 1970.
    pub iat: i64,
    /// Expires at, seconds since 1970; 0 = with its run.
    pub exp: i64,
    /// Unique.
    pub jti: String,
}

/// Why a token was refused. Says nothing that helps to forge one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum TokenError {
    /// Not three base64 parts, or claims that do not parse.
    #[error("the token is malformed")]
    Malformed,
    /// Not signed by this gateway.
    #[error("the token was not signed by this gateway")]
    BadSignature,
    /// Past its end.
    #[error("the token has expired")]
    Expired,
    /// Issued in the future.
    #[error("the token is not valid yet; compare the clocks")]
    NotYetValid,
    /// For somebody else.
    #[error("the token is for another audience")]
    WrongAudience,
    /// The signing key could not be read.
    #[error("the signing key is not a PKCS#8 Ed25519 key")]
    BadKey,
}

const HEADER: &str = r#"{"alg":"EdDSA","typ":"openshell-run+jwt"}"#;

/// The gateway's signing key.
pub struct Signer(Ed25519KeyPair);

impl std::fmt::Debug for Signer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Signer(..)")
    }
}

impl Signer {
    /// A new key as PKCS#8 DER, from the system's random source.
    pub fn generate_pkcs8() -> Result<Vec<u8>, TokenError> {
        let rng = ring::rand::SystemRandom::new();
        let doc = Ed25519KeyPair::generate_pkcs8(&rng).map_err(|_| TokenError::BadKey)?;
        Ok(doc.as_ref().to_vec())
    }

    /// From PKCS#8 DER.
    pub fn from_pkcs8(der: &[u8]) -> Result<Self, TokenError> {
        Ed25519KeyPair::from_pkcs8_maybe_unchecked(der)
            .map(Self)
            .map_err(|_| TokenError::BadKey)
    }

    /// The 32 bytes that verify what this key signs.
    pub fn public_key(&self) -> &[u8] {
        self.0.public_key().as_ref()
    }

    /// Signs.
    pub fn sign(&self, claims: &Claims) -> Result<String, TokenError> {
        let body = serde_json::to_vec(claims).map_err(|_| TokenError::Malformed)?;
        let mut token = format!("{}.{}", B64.encode(HEADER), B64.encode(body));
        let sig = self.0.sign(token.as_bytes());
        token.push('.');
        token.push_str(&B64.encode(sig.as_ref()));
        Ok(token)
    }
}

/// Verifies with a 32-byte public key, for one audience, at a given time.
pub fn verify(
    public_key: &[u8],
    token: &str,
    audience: Audience,
    now: Timestamp,
) -> Result<Claims, TokenError> {
    if token.len() > MAX_TOKEN {
        return Err(TokenError::Malformed);
    }
    let (signed, sig) = token.rsplit_once('.').ok_or(TokenError::Malformed)?;
    let (header, body) = signed.split_once('.').ok_or(TokenError::Malformed)?;
    let sig = B64.decode(sig).map_err(|_| TokenError::Malformed)?;
    // One algorithm, pinned: a header that says anything else is not ours.
    if B64.decode(header).ok().as_deref() != Some(HEADER.as_bytes()) {
        return Err(TokenError::Malformed);
    }
    UnparsedPublicKey::new(&signature::ED25519, public_key)
        .verify(signed.as_bytes(), &sig)
        .map_err(|_| TokenError::BadSignature)?;
    let body = B64.decode(body).map_err(|_| TokenError::Malformed)?;
    let claims: Claims = serde_json::from_slice(&body).map_err(|_| TokenError::Malformed)?;
    let now = now.as_second();
    if claims.exp != 0 && now > claims.exp.saturating_add(SKEW_SECONDS) {
        return Err(TokenError::Expired);
    }
    if claims.iat > now.saturating_add(SKEW_SECONDS) {
        return Err(TokenError::NotYetValid);
    }
    if claims.aud != audience {
        return Err(TokenError::WrongAudience);
    }
    Ok(claims)
}

/// The sandbox runtime's proof to its supervisor: HMAC-SHA256(link secret, nonce || instance || token).
pub fn link_proof(secret: &[u8], nonce: &[u8], instance: &str, token: &str) -> [u8; 32] {
    let mut ctx = ring::hmac::Context::with_key(&link_key(secret));
    for part in [nonce, instance.as_bytes(), token.as_bytes()] {
        ctx.update(part);
    }
    let mut out = [0; 32];
    out.copy_from_slice(ctx.sign().as_ref());
    out
}

/// Checks [`link_proof`] in constant time.
pub fn verify_link_proof(
    secret: &[u8],
    nonce: &[u8],
    instance: &str,
    token: &str,
    proof: &[u8],
) -> bool {
    let message = [nonce, instance.as_bytes(), token.as_bytes()].concat();
    ring::hmac::verify(&link_key(secret), &message, proof).is_ok()
}

fn link_key(secret: &[u8]) -> ring::hmac::Key {
    ring::hmac::Key::new(ring::hmac::HMAC_SHA256, secret)
}

#[cfg(test)]
mod tests;
