//! New credentials before the old ones expire, where they do.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use openshell_core::token::Claims;
use tokio::time::sleep;
use tonic::Code;

use super::gateway::Gateway;
use crate::clock;
use crate::state::{Credentials, Run};

const RETRY: Duration = Duration::from_secs(30);

/// Renews for as long as the session lasts; ends when there is nothing to renew.
pub(super) async fn keep(run: &Run, gateway: &Gateway) {
    loop {
        let token = run.credentials().gateway;
        let Some(wait) = claims(&token).and_then(|c| due(&c, clock::now().seconds)) else {
            return;
        };
        sleep(wait).await;
        match gateway.renew().await {
            Ok(fresh) => run.renew(Credentials {
                gateway: fresh.gateway_token,
                sandbox: fresh.sandbox_token,
            }),
            Err(status) if status.code() == Code::Unimplemented => return,
            Err(status) => {
                tracing::warn!("renewing the run's token: {}", status.message());
                sleep(RETRY).await;
            }
        }
    }
}

/// Our own token's claims; whoever it is for verifies it.
fn claims(token: &str) -> Option<Claims> {
    let body = token.split('.').nth(1)?;
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(body).ok()?).ok()
}

/// How long from `now` until two thirds of its life are over; `None` if it ends with its run.
fn due(claims: &Claims, now: i64) -> Option<Duration> {
    if claims.exp == 0 {
        return None;
    }
    let at = claims.iat + claims.exp.saturating_sub(claims.iat) / 3 * 2;
    Some(Duration::from_secs(
        u64::try_from(at.saturating_sub(now)).unwrap_or(0),
    ))
}

#[cfg(test)]
mod tests;
