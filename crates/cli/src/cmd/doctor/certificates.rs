//! The client's certificates: there, readable, private, valid.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use jiff::{SignedDuration, Timestamp};

use crate::certs::{Validity, validity};
use crate::clock;
use crate::connect::Target;

use super::Check;

const NAME: &str = "certificates";
const RENEW: &str = "make new ones on the gateway's host (openshell-gateway generate-certs), then register the gateway again (openshell gateway add)";
/// From when on an end is worth a remark.
const SOON: SignedDuration = SignedDuration::from_hours(14 * 24);

/// Checks those of this gateway; none for plaintext.
pub(super) fn check(target: &Target) -> Vec<Check> {
    let Some(files) = &target.tls else {
        return vec![Check::ok(NAME, "none needed: plaintext on this machine")];
    };
    let mut checks = Vec::new();
    let now = clock::now();
    for path in [&files.ca, &files.cert] {
        match validity(path) {
            Ok(v) => checks.push(judge(&path.display().to_string(), v, now)),
            Err(why) => checks.push(Check::failed(NAME, why, RENEW)),
        }
    }
    checks.push(key(&files.key));
    checks
}

pub(super) fn judge(path: &str, v: Validity, now: Timestamp) -> Check {
    let until = clock::rfc3339(v.until);
    if now > v.until {
        Check::failed(NAME, format!("{path} expired on {until}"), RENEW)
    } else if now < v.from {
        Check::failed(
            NAME,
            format!("{path} is not valid before {}", clock::rfc3339(v.from)),
            "set this machine's clock right",
        )
    } else if v.until.duration_since(now) < SOON {
        Check::warning(NAME, format!("{path} expires soon, on {until}"), RENEW)
    } else {
        Check::ok(NAME, format!("{path} is valid until {until}"))
    }
}

fn key(path: &std::path::Path) -> Check {
    let shown = path.display();
    if let Err(e) = fs::File::open(path) {
        return Check::failed(NAME, format!("{shown} cannot be read: {e}"), RENEW);
    }
    let mode = fs::metadata(path)
        .map(|m| m.permissions().mode() & 0o777)
        .unwrap_or_default();
    if mode & 0o077 != 0 {
        return Check::warning(
            NAME,
            format!("{shown} can be read by others (mode {mode:03o})"),
            format!("chmod 600 {shown}"),
        );
    }
    Check::ok(NAME, format!("{shown} is private"))
}
