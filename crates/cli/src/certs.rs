//! Certificates in words: what is wrong with one, and until when it is valid.

use std::fs;
use std::io::Read;
use std::net::{TcpStream, ToSocketAddrs};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use x509_parser::pem::parse_x509_pem;

use crate::clock;
use crate::error::tls_error;
use crate::registry::TlsFiles;

/// When a certificate is valid.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Validity {
    /// Not before.
    pub(crate) from: Timestamp,
    /// Not after.
    pub(crate) until: Timestamp,
}

/// Reads the validity of the first certificate of a PEM file.
pub(crate) fn validity(path: &Path) -> Result<Validity, String> {
    let bytes = fs::read(path).map_err(|e| format!("{}: {e}", path.display()))?;
    let not_one = || format!("{}: it is not a certificate in PEM form", path.display());
    let (_, pem) = parse_x509_pem(&bytes).map_err(|_| not_one())?;
    let cert = pem.parse_x509().map_err(|_| not_one())?;
    let time = |t: x509_parser::time::ASN1Time| {
        Timestamp::from_second(t.timestamp()).map_err(|_| not_one())
    };
    Ok(Validity {
        from: time(cert.validity().not_before)?,
        until: time(cert.validity().not_after)?,
    })
}

/// What is wrong with a certificate file at this moment, if anything.
pub(crate) fn invalid_now(path: &Path) -> Option<String> {
    let now = clock::now();
    match validity(path) {
        Err(why) => Some(why),
        Ok(v) if now > v.until => Some(format!(
            "the certificate {} expired on {}",
            path.display(),
            clock::rfc3339(v.until)
        )),
        Ok(v) if now < v.from => Some(format!(
            "the certificate {} is not valid before {}; is this machine's clock right?",
            path.display(),
            clock::rfc3339(v.from)
        )),
        Ok(_) => None,
    }
}

/// How long a gateway may take to say what it thinks of our certificate.
const PATIENCE: Duration = Duration::from_secs(3);

/// Whether a gateway refuses our certificate, and in which words. After the handshake it either begins to
/// speak or sends an alert; nothing is sent that an alert could be lost behind.
pub(crate) fn refused(host: &str, port: u16, files: &TlsFiles) -> Option<String> {
    let mut roots = rustls::RootCertStore::empty();
    for ca in CertificateDer::pem_file_iter(&files.ca).ok()? {
        roots.add(ca.ok()?).ok()?;
    }
    let chain: Result<Vec<_>, _> = CertificateDer::pem_file_iter(&files.cert).ok()?.collect();
    let key = PrivateKeyDer::from_pem_file(&files.key).ok()?;
    let mut config = rustls::ClientConfig::builder()
        .with_root_certificates(roots)
        .with_client_auth_cert(chain.ok()?, key)
        .ok()?;
    config.alpn_protocols = vec![b"h2".to_vec()];
    let name = ServerName::try_from(host.trim_matches(['[', ']']).to_owned()).ok()?;
    let address = (name.to_str().as_ref(), port)
        .to_socket_addrs()
        .ok()?
        .next()?;
    let socket = TcpStream::connect_timeout(&address, PATIENCE).ok()?;
    socket.set_read_timeout(Some(PATIENCE)).ok()?;
    let session = rustls::ClientConnection::new(Arc::new(config), name).ok()?;
    let answer = rustls::StreamOwned::new(session, socket).read(&mut [0]);
    let error = answer.err()?;
    match tls_error(&error)? {
        refusal @ rustls::Error::AlertReceived(_) => Some(explain_tls(refusal)),
        _ => None,
    }
}

/// What a TLS library says, for people.
pub(crate) fn explain_tls(error: &rustls::Error) -> String {
    use rustls::{AlertDescription as Alert, CertificateError as Bad, Error};
    match error {
        Error::InvalidCertificate(Bad::Expired | Bad::ExpiredContext { .. }) => {
            "the gateway's certificate has expired".to_owned()
        }
        Error::InvalidCertificate(Bad::NotValidYet | Bad::NotValidYetContext { .. }) => {
            "the gateway's certificate is not valid yet; is this machine's clock right?".to_owned()
        }
        // A new authority under the old name: the signature does not fit.
        Error::InvalidCertificate(Bad::UnknownIssuer | Bad::BadSignature) => {
            "the gateway's certificate is not signed by the authority that we trust for it (ca.crt)"
                .to_owned()
        }
        Error::InvalidCertificate(Bad::NotValidForName | Bad::NotValidForNameContext { .. }) => {
            "the gateway's certificate is for another host name or address".to_owned()
        }
        Error::InvalidCertificate(_) => "the gateway's certificate is not valid".to_owned(),
        Error::AlertReceived(Alert::CertificateRequired) => {
            "the gateway wants a client certificate".to_owned()
        }
        Error::AlertReceived(Alert::CertificateExpired) => {
            "our client certificate has expired".to_owned()
        }
        Error::AlertReceived(Alert::UnknownCA) => {
            "the gateway does not trust the authority that signed our client certificate".to_owned()
        }
        Error::AlertReceived(_) => "the gateway refused our client certificate".to_owned(),
        Error::InvalidMessage(_) => {
            "what listens there does not speak TLS; is it another program, or a plaintext gateway?"
                .to_owned()
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests;
