//! TLS as the gateway serves it: client certificates are optional, and verified against one CA when presented.

use std::sync::Arc;

use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{NoServerSessionStorage, ServerConnection, WebPkiClientVerifier};
use thiserror::Error;

use crate::auth::PeerIdentity;

/// Why TLS cannot be served with these.
#[derive(Debug, Error)]
pub enum TlsError {
    /// PEM that holds no certificate or key.
    #[error("the {what} cannot be read: {why}")]
    Unreadable {
        /// server certificate, server key, client CA
        what: &'static str,
        /// The parser's words.
        why: String,
    },
    /// They do not belong together, or are of a kind that is not supported.
    #[error("TLS cannot be served with these certificates: {0}")]
    Unusable(String),
}

/// From PEM: the server's chain and key, and the CA that signs clients.
pub fn server_config(
    chain_pem: &str,
    key_pem: &str,
    client_ca_pem: &str,
) -> Result<Arc<rustls::ServerConfig>, TlsError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let chain = certificates("server certificate", chain_pem)?;
    let key = PrivateKeyDer::from_pem_slice(key_pem.as_bytes()).map_err(|error| {
        TlsError::Unreadable {
            what: "server key",
            why: error.to_string(),
        }
    })?;
    let unusable = |error: &dyn std::fmt::Display| TlsError::Unusable(error.to_string());
    let mut roots = RootCertStore::empty();
    for certificate in certificates("client CA", client_ca_pem)? {
        roots.add(certificate).map_err(|e| unusable(&e))?;
    }
    // Whether a call needs a certificate is decided call by call: supervisors come with a token instead.
    let verifier =
        WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider))
            .allow_unauthenticated()
            .build()
            .map_err(|e| unusable(&e))?;
    let mut config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|e| unusable(&e))?
        .with_client_cert_verifier(verifier)
        .with_single_cert(chain, key)
        .map_err(|e| unusable(&e))?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    // Connections are few and long; a resumed one would skip the look at the client's certificate.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(Arc::new(config))
}

fn certificates(what: &'static str, pem: &str) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let unreadable = |why: String| TlsError::Unreadable { what, why };
    let found = CertificateDer::pem_slice_iter(pem.as_bytes())
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| unreadable(error.to_string()))?;
    if found.is_empty() {
        return Err(unreadable("it holds no certificate".to_owned()));
    }
    Ok(found)
}

/// Who the client is, by the certificate that was verified in the handshake.
pub(super) fn peer_identity(connection: &ServerConnection) -> Option<PeerIdentity> {
    let certificate = connection.peer_certificates()?.first()?;
    let (_, certificate) = x509_parser::parse_x509_certificate(certificate).ok()?;
    let name = certificate.subject().iter_common_name().next()?;
    let subject = name.as_str().ok()?.to_owned();
    Some(PeerIdentity { subject })
}
