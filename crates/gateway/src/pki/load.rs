//! Reading a set: what the gateway serves with, checked before it is used.

use std::fs;
use std::path::{Path, PathBuf};

use openshell_core::Timestamp;
use openshell_core::token::Signer;
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject as _;

use super::PkiError;
use super::make::file;

/// What the gateway serves TLS with.
#[derive(Clone)]
pub(crate) struct Identity {
    /// The CA of clients, and of the server's certificate.
    pub(crate) ca_pem: String,
    /// The server's certificate, with what lies between it and the CA.
    pub(crate) chain_pem: String,
    /// Its key.
    pub(crate) key_pem: String,
}

impl std::fmt::Debug for Identity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Identity(..)")
    }
}

/// From the set that the gateway made.
pub(crate) fn load_own(dir: &Path, now: Timestamp) -> Result<Identity, PkiError> {
    let fix = format!(
        "move {} away and start again: a new set is made, and clients have to be registered again",
        dir.display()
    );
    load(
        &dir.join("ca.crt"),
        &dir.join("server/tls.crt"),
        &dir.join("server/tls.key"),
        &fix,
        now,
    )
}

/// From wherever they are.
pub(crate) fn load(
    ca: &Path,
    chain: &Path,
    key: &Path,
    fix: &str,
    now: Timestamp,
) -> Result<Identity, PkiError> {
    let identity = Identity {
        ca_pem: read(ca)?,
        chain_pem: read(chain)?,
        key_pem: read(key)?,
    };
    check_certificate(ca, &identity.ca_pem, fix, now)?;
    check_certificate(chain, &identity.chain_pem, fix, now)?;
    PrivateKeyDer::from_pem_slice(identity.key_pem.as_bytes())
        .map_err(|error| unusable(key, format!("no private key in PEM form ({error})")))?;
    Ok(identity)
}

/// The key that signs run tokens.
pub(crate) fn signer(dir: &Path) -> Result<Signer, PkiError> {
    let path = dir.join("jwt/signing.pem");
    let text = read(&path)?;
    let key = PrivateKeyDer::from_pem_slice(text.as_bytes())
        .map_err(|error| unusable(&path, format!("no private key in PEM form ({error})")))?;
    Signer::from_pkcs8(key.secret_der()).map_err(|error| unusable(&path, error.to_string()))
}

fn read(path: &Path) -> Result<String, PkiError> {
    fs::read_to_string(path).map_err(|error| file(path.to_owned(), "read", &error))
}

fn unusable(path: &Path, why: String) -> PkiError {
    PkiError::Unusable {
        path: path.to_owned(),
        why,
    }
}

/// The first certificate of a PEM file must be readable, and valid now.
fn check_certificate(path: &Path, pem: &str, fix: &str, now: Timestamp) -> Result<(), PkiError> {
    let broken = |why: String| unusable(path, format!("no certificate in PEM form ({why})"));
    let (_, block) =
        x509_parser::pem::parse_x509_pem(pem.as_bytes()).map_err(|e| broken(e.to_string()))?;
    let certificate = block.parse_x509().map_err(|e| broken(e.to_string()))?;
    let validity = certificate.validity();
    let outside = |why: String| PkiError::NotValidNow {
        path: PathBuf::from(path),
        why,
        fix: fix.to_owned(),
    };
    let date = |seconds: i64| {
        Timestamp::from_second(seconds).map_or_else(|_| "?".to_owned(), |t| t.to_string())
    };
    let (from, until) = (
        validity.not_before.timestamp(),
        validity.not_after.timestamp(),
    );
    if now.as_second() > until {
        return Err(outside(format!("expired at {}", date(until))));
    }
    if now.as_second() < from {
        return Err(outside(format!(
            "is not valid before {} (the clock says {now})",
            date(from)
        )));
    }
    Ok(())
}
