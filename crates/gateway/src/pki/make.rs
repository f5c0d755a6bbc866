//! Making a set: all of it or nothing.

use std::fs;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use base64::Engine as _;
use openshell_core::Timestamp;
use openshell_core::token::Signer;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, PKCS_ECDSA_P256_SHA256, SanType,
};

use super::files::{private_dir, sync_dir, write_private};
use super::{PkiError, SET};

/// Ten years: a local gateway has nobody who would renew.
const VALIDITY: Duration = Duration::from_secs(3650 * 24 * 3600);
/// Clocks of containers and virtual machines may be behind.
const BACKDATE: Duration = Duration::from_secs(3600);
/// Names by which a gateway is reached from its own machine and from its engine's containers.
const ALWAYS: [&str; 5] = [
    "localhost",
    "127.0.0.1",
    "::1",
    "host.docker.internal",
    "host.openshell.internal",
];

/// What [`ensure`] found or did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Made {
    /// The set was there; nothing was touched.
    Already,
    /// It was made.
    New,
}

/// Makes the set in `dir` unless it is there; refuses a part of one.
pub(crate) fn ensure(
    dir: &Path,
    sans: &[String],
    client: &str,
    now: Timestamp,
) -> Result<Made, PkiError> {
    match missing(dir)? {
        missing if missing.is_empty() => return Ok(Made::Already),
        missing if missing.len() == SET.len() => {}
        missing => {
            return Err(PkiError::Partial {
                dir: dir.display().to_string(),
                missing: missing.join(", "),
            });
        }
    }
    let set = generate(sans, client, now)?;
    write_set(dir, &set)?;
    Ok(Made::New)
}

/// Names of the set that are not in `dir`.
fn missing(dir: &Path) -> Result<Vec<&'static str>, PkiError> {
    let mut missing = Vec::new();
    for name in SET {
        let path = dir.join(name);
        match fs::symlink_metadata(&path) {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => missing.push(name),
            Err(error) => return Err(file(path, "read", &error)),
        }
    }
    Ok(missing)
}

/// Into a directory beside, which is then renamed: a crash in between leaves no part of a set. Where the
/// directory exists and holds other things, the files are moved one by one, the last being those that are read
/// first.
fn write_set(dir: &Path, set: &[(&'static str, Vec<u8>)]) -> Result<(), PkiError> {
    let parent = dir.parent().filter(|p| !p.as_os_str().is_empty());
    let parent = parent.unwrap_or(Path::new("."));
    private_dir(parent).map_err(|error| file(parent.to_owned(), "made", &error))?;
    let draft = parent.join(format!(".certificates.{}.new", std::process::id()));
    let result = (|| {
        remove_tree(&draft)?;
        for (name, contents) in set {
            let path = draft.join(name);
            let directory = path.parent().unwrap_or(&draft);
            private_dir(directory).map_err(|error| file(directory.to_owned(), "made", &error))?;
            write_private(&path, contents)
                .map_err(|error| file(path.clone(), "written", &error))?;
        }
        // Works if `dir` does not exist or is empty.
        if fs::rename(&draft, dir).is_err() {
            move_into(&draft, dir, set)?;
        }
        sync_dir(parent).map_err(|error| file(parent.to_owned(), "written", &error))
    })();
    let cleaned = remove_tree(&draft);
    result.and(cleaned)
}

fn move_into(draft: &Path, dir: &Path, set: &[(&'static str, Vec<u8>)]) -> Result<(), PkiError> {
    for (name, _) in set {
        let path = dir.join(name);
        let directory = path.parent().unwrap_or(dir).to_owned();
        private_dir(&directory)
            .and_then(|()| fs::rename(draft.join(name), &path))
            .and_then(|()| sync_dir(&directory))
            .map_err(|error| file(path, "written", &error))?;
    }
    Ok(())
}

fn remove_tree(path: &Path) -> Result<(), PkiError> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(file(path.to_owned(), "removed", &error))
        }
        _ => Ok(()),
    }
}

pub(super) fn file(path: PathBuf, doing: &'static str, error: &io::Error) -> PkiError {
    PkiError::File {
        path,
        doing,
        why: error.to_string(),
    }
}

fn failed(error: impl std::fmt::Display) -> PkiError {
    PkiError::Generate(error.to_string())
}

/// In the order in which they are moved into place.
fn generate(
    sans: &[String],
    client: &str,
    now: Timestamp,
) -> Result<Vec<(&'static str, Vec<u8>)>, PkiError> {
    let key = || KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).map_err(failed);
    let (ca_key, server_key, client_key) = (key()?, key()?, key()?);

    let ca = authority(now)?;
    let ca_pem = ca.self_signed(&ca_key).map_err(failed)?.pem();
    let issuer = Issuer::from_params(&ca, &ca_key);
    let server_pem = server(sans, now)?
        .signed_by(&server_key, &issuer)
        .map_err(failed)?
        .pem();
    let client_pem = leaf(client, ExtendedKeyUsagePurpose::ClientAuth, now)?
        .signed_by(&client_key, &issuer)
        .map_err(failed)?
        .pem();
    let signing = Signer::generate_pkcs8().map_err(failed)?;

    Ok(vec![
        ("jwt/signing.pem", pem("PRIVATE KEY", &signing).into_bytes()),
        ("client/tls.key", client_key.serialize_pem().into_bytes()),
        ("client/tls.crt", client_pem.into_bytes()),
        ("server/tls.key", server_key.serialize_pem().into_bytes()),
        ("server/tls.crt", server_pem.into_bytes()),
        ("ca.key", ca_key.serialize_pem().into_bytes()),
        ("ca.crt", ca_pem.into_bytes()),
    ])
}

fn authority(now: Timestamp) -> Result<CertificateParams, PkiError> {
    let mut params = valid(now)?;
    // A name of its own for every CA, so that two sets are told apart in error messages.
    let mark = uuid::Uuid::new_v4().simple().to_string();
    let mut name = DistinguishedName::new();
    name.push(DnType::OrganizationName, "OpenShell");
    name.push(
        DnType::CommonName,
        format!("OpenShell gateway CA {}", &mark[..8]),
    );
    params.distinguished_name = name;
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![
        KeyUsagePurpose::KeyCertSign,
        KeyUsagePurpose::CrlSign,
        KeyUsagePurpose::DigitalSignature,
    ];
    Ok(params)
}

fn server(sans: &[String], now: Timestamp) -> Result<CertificateParams, PkiError> {
    let mut params = leaf(
        "openshell-gateway",
        ExtendedKeyUsagePurpose::ServerAuth,
        now,
    )?;
    let mut names: Vec<&str> = Vec::new();
    for name in ALWAYS.into_iter().chain(sans.iter().map(String::as_str)) {
        if names.contains(&name) {
            continue;
        }
        names.push(name);
        params.subject_alt_names.push(match name.parse::<IpAddr>() {
            Ok(address) => SanType::IpAddress(address),
            Err(_) => SanType::DnsName(name.try_into().map_err(|_| {
                failed(format!("{name:?} is neither an IP address nor a host name"))
            })?),
        });
    }
    Ok(params)
}

fn leaf(
    name: &str,
    usage: ExtendedKeyUsagePurpose,
    now: Timestamp,
) -> Result<CertificateParams, PkiError> {
    let mut params = valid(now)?;
    let mut subject = DistinguishedName::new();
    subject.push(DnType::OrganizationName, "OpenShell");
    subject.push(DnType::CommonName, name);
    params.distinguished_name = subject;
    params.is_ca = IsCa::ExplicitNoCa;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![usage];
    params.use_authority_key_identifier_extension = true;
    Ok(params)
}

fn valid(now: Timestamp) -> Result<CertificateParams, PkiError> {
    let mut params = CertificateParams::default();
    // rcgen's own time type, reached by way of its epoch so that no second time crate is named here.
    let epoch = rcgen::date_time_ymd(1970, 1, 1);
    let since = Duration::from_secs(u64::try_from(now.as_second()).map_err(failed)?);
    params.not_before = epoch + since.saturating_sub(BACKDATE);
    params.not_after = epoch + since + VALIDITY;
    Ok(params)
}

/// One PEM block.
pub(super) fn pem(label: &str, der: &[u8]) -> String {
    let body = base64::engine::general_purpose::STANDARD.encode(der);
    let mut out = format!("-----BEGIN {label}-----\n");
    for line in body.as_bytes().chunks(64) {
        out.push_str(&String::from_utf8_lossy(line));
        out.push('\n');
    }
    out.push_str(&format!("-----END {label}-----\n"));
    out
}
