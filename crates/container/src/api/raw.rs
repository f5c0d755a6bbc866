//! The two questions that are asked past bollard: it takes a state that it does not know for a broken answer, and one
//! container in such a state would hide all the others. Podman has several.

use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper_util::rt::TokioIo;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokio::net::UnixStream;

use super::client::Client;
use crate::engine::{EngineError, EngineErrorKind};

/// More than an engine says about any number of containers that it can run.
const MAX_ANSWER: usize = 64 << 20;

/// What an engine says with a status that is no success.
#[derive(Deserialize)]
struct Refusal {
    message: String,
}

/// Asks at a path, with its query.
pub(super) async fn ask<T: DeserializeOwned>(
    client: &Client,
    path: &str,
    limit: Duration,
) -> Result<T, EngineError> {
    let asked = tokio::time::timeout(limit, answer(client, path)).await;
    let (status, body) = asked.unwrap_or_else(|_| {
        let late = bollard::errors::Error::RequestTimeoutError;
        Err(client.failed(&late))
    })?;
    if !status.is_success() {
        let words = serde_json::from_slice(&body).map_or_else(
            |_| String::from_utf8_lossy(&body).into_owned(),
            |Refusal { message }| message,
        );
        let refused = bollard::errors::Error::DockerResponseServerError {
            status_code: status.as_u16(),
            message: words,
        };
        return Err(client.failed(&refused));
    }
    serde_json::from_slice(&body).map_err(|e| broken(client, &e))
}

async fn answer(client: &Client, path: &str) -> Result<(StatusCode, Bytes), EngineError> {
    let stream = UnixStream::connect(client.socket())
        .await
        .map_err(|err| client.failed(&bollard::errors::Error::IOError { err }))?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
        .await
        .map_err(|e| broken(client, &e))?;
    let request = Request::builder()
        .method(Method::GET)
        .uri(path)
        .header("Host", "engine")
        .body(Empty::<Bytes>::new())
        .map_err(|e| EngineError::new(EngineErrorKind::Invalid, e.to_string()))?;
    let exchange = async {
        let answer = sender
            .send_request(request)
            .await
            .map_err(|e| broken(client, &e))?;
        let status = answer.status();
        let body = Limited::new(answer.into_body(), MAX_ANSWER).collect().await;
        let body = body.map_err(|e| broken(client, &*e))?;
        Ok((status, body.to_bytes()))
    };
    // The connection is driven beside the exchange, and ends with it.
    let connection = async {
        let _ = connection.await;
        std::future::pending().await
    };
    tokio::select! {
        biased;
        exchanged = exchange => exchanged,
        never = connection => never,
    }
}

fn broken(client: &Client, error: &(dyn std::error::Error + 'static)) -> EngineError {
    client.lost(&error.to_string())
}

/// A piece of a path or of a query.
pub(super) fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            escaped.push(char::from(byte));
        } else {
            escaped.push_str(&format!("%{byte:02X}"));
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_end_a_piece_of_a_path_is_escaped() {
        assert_eq!(escaped("a/b?c=d&e#f"), "a%2Fb%3Fc%3Dd%26e%23f");
        assert_eq!(escaped("openshell-x--y_1.2"), "openshell-x--y_1.2");
    }
}
