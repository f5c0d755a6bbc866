//! Certificates in words: what is wrong with one, and until when it is valid.

use std::fs;
use std::path::Path;

use jiff::Timestamp;
use x509_parser::pem::parse_x509_pem;

use crate::clock;

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
