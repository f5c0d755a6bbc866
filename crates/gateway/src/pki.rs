//! Certificates and keys: one CA, a server certificate, a client certificate for the local CLI, and the key that
//! signs run tokens. Made once, at first start or by `generate-certs`.
//!
//! ```text
//! tls/ca.crt  tls/ca.key  tls/server/tls.{crt,key}  tls/client/tls.{crt,key}  tls/jwt/signing.pem
//! ```

pub(crate) mod files;
mod load;
mod make;
pub(crate) mod register;

pub(crate) use load::{Identity, load, load_own, signer};
pub(crate) use make::{Made, ensure};

use std::path::PathBuf;

use thiserror::Error;

/// What a complete set consists of, by path below its directory.
pub(crate) const SET: [&str; 7] = [
    "ca.crt",
    "ca.key",
    "server/tls.crt",
    "server/tls.key",
    "client/tls.crt",
    "client/tls.key",
    "jwt/signing.pem",
];

/// Why there is nothing to serve with.
#[derive(Debug, Error)]
pub(crate) enum PkiError {
    /// Part of a set: to complete it would mix two authorities.
    #[error(
        "{dir} holds part of a set of certificates; missing: {missing}. Put the missing files back, or \
         move the directory away: a new set is then made, and clients have to be registered again"
    )]
    Partial {
        /// The directory.
        dir: String,
        /// The names.
        missing: String,
    },
    /// A file cannot be read or written.
    #[error("{} cannot be {doing}: {why}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// read, written, made
        doing: &'static str,
        /// The system's words.
        why: String,
    },
    /// A file does not hold what it should.
    #[error(
        "{} is not usable: {why}. Restore it from a backup, or move the set away and start again: a new \
         one is made, and clients have to be registered again", path.display()
    )]
    Unusable {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// Past its end, or before its beginning.
    #[error(
        "the certificate {} {why}; {fix}", path.display()
    )]
    NotValidNow {
        /// The certificate.
        path: PathBuf,
        /// Expired when, or valid from when.
        why: String,
        /// What to do.
        fix: String,
    },
    /// The generator failed.
    #[error("certificates could not be made: {0}")]
    Generate(String),
}

#[cfg(test)]
mod tests;
