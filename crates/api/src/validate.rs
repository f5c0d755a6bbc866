//! What users may write: labels, environments, commands, images. Every refusal names its field.

use std::collections::BTreeMap;

use openshell_core::{SandboxName, WorkspaceName};
use tonic::Status;

use crate::status::invalid;

const MAX_LABELS: usize = 64;
const MAX_LABEL_PART: usize = 63;
const MAX_LABEL_PREFIX: usize = 253;
const MAX_ANNOTATIONS_BYTES: usize = 256 << 10;
const MAX_VARIABLE_NAME: usize = 256;
const MAX_ARGUMENTS: usize = 1024;
const MAX_IMAGE: usize = 512;
const MAX_PATH: usize = 4096;
const MAX_REQUEST_ID: usize = 128;
const MAX_HOLD_REASON: usize = 1024;

/// How much text a process may be given. The kernel takes no single string of 128 KiB.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    value: usize,
    environment: usize,
    argument: usize,
    command: usize,
}

/// For what is kept in a record and given to every process.
pub(crate) const KEPT: Limits = Limits {
    value: 32 << 10,
    environment: 256 << 10,
    argument: 128 << 10,
    command: 128 << 10,
};
/// For one exec.
pub(crate) const ONCE: Limits = Limits {
    value: (128 << 10) - 1,
    environment: 512 << 10,
    argument: (128 << 10) - 1,
    command: 512 << 10,
};

/// A sandbox's name.
pub(crate) fn sandbox_name(field: &str, name: &str) -> Result<SandboxName, Status> {
    name.parse().map_err(|e| invalid(field, e))
}

/// A workspace's name; empty means `default`.
pub(crate) fn workspace_name(field: &str, name: &str) -> Result<WorkspaceName, Status> {
    if name.is_empty() {
        return Ok(WorkspaceName::default_workspace());
    }
    name.parse().map_err(|e| invalid(field, e))
}

/// A request id; empty means none.
pub(crate) fn request_id(id: String) -> Result<Option<String>, Status> {
    if id.is_empty() {
        return Ok(None);
    }
    if id.len() > MAX_REQUEST_ID || id.chars().any(char::is_control) {
        return Err(invalid(
            "request_id",
            format!("at most {MAX_REQUEST_ID} characters, none of them a control character"),
        ));
    }
    Ok(Some(id))
}

/// Why a sandbox is held: it is shown in tables and messages.
pub(crate) fn hold_reason(field: &str, reason: &str) -> Result<(), Status> {
    if reason.chars().count() > MAX_HOLD_REASON || reason.chars().any(char::is_control) {
        return Err(invalid(
            field,
            format!("at most {MAX_HOLD_REASON} characters, none of them a control character"),
        ));
    }
    Ok(())
}

/// `[prefix/]name` as Kubernetes has it.
pub(crate) fn label_key(key: &str) -> Result<(), String> {
    let name = match key.split_once('/') {
        None => key,
        Some((prefix, name)) => {
            let fits = (1..=MAX_LABEL_PREFIX).contains(&prefix.len())
                && prefix.split('.').all(|part| {
                    edges_alphanumeric(part)
                        && part
                            .bytes()
                            .all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'-'))
                });
            if !fits {
                return Err("the part before '/' is not a DNS name".to_owned());
            }
            name
        }
    };
    if name.is_empty() {
        return Err("the key is empty".to_owned());
    }
    label_part(name)
}

/// At most 63 of `[A-Za-z0-9._-]`, or nothing.
pub(crate) fn label_value(value: &str) -> Result<(), String> {
    if value.is_empty() {
        return Ok(());
    }
    label_part(value)
}

fn label_part(text: &str) -> Result<(), String> {
    if text.len() > MAX_LABEL_PART {
        return Err(format!(
            "has {} characters; at most {MAX_LABEL_PART} are allowed",
            text.chars().count()
        ));
    }
    let allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-');
    if !text.bytes().all(allowed) || !edges_alphanumeric(text) {
        return Err(
            "only A-Z, a-z, 0-9, '.', '_' and '-' are allowed, a letter or digit at both ends"
                .to_owned(),
        );
    }
    Ok(())
}

fn edges_alphanumeric(text: &str) -> bool {
    let edge = |b: Option<u8>| b.is_some_and(|b| b.is_ascii_alphanumeric());
    edge(text.bytes().next()) && edge(text.bytes().next_back())
}

/// A name of a map's entry in messages: short, whatever was sent.
fn entry(field: &str, key: &str) -> String {
    let short: String = key.chars().take(64).collect();
    format!("{field}[{short:?}]")
}

/// Labels.
pub(crate) fn labels(field: &str, labels: &BTreeMap<String, String>) -> Result<(), Status> {
    if labels.len() > MAX_LABELS {
        return Err(invalid(
            field,
            format!("{} pairs; at most {MAX_LABELS} are allowed", labels.len()),
        ));
    }
    for (k, v) in labels {
        label_key(k).map_err(|why| invalid(&entry(field, k), format!("key: {why}")))?;
        label_value(v).map_err(|why| invalid(&entry(field, k), format!("value: {why}")))?;
    }
    Ok(())
}

/// Annotations: keys like labels', values free.
pub(crate) fn annotations(field: &str, pairs: &BTreeMap<String, String>) -> Result<(), Status> {
    let mut total = 0;
    for (k, v) in pairs {
        label_key(k).map_err(|why| invalid(&entry(field, k), format!("key: {why}")))?;
        no_nul(&entry(field, k), v)?;
        total += k.len() + v.len();
    }
    if total > MAX_ANNOTATIONS_BYTES {
        return Err(too_long(field, total, MAX_ANNOTATIONS_BYTES));
    }
    Ok(())
}

fn too_long(field: &str, found: usize, allowed: usize) -> Status {
    invalid(
        field,
        format!("{found} bytes; at most {allowed} are allowed"),
    )
}

fn no_nul(field: &str, text: &str) -> Result<(), Status> {
    if text.contains('\0') {
        return Err(invalid(field, "contains a NUL byte"));
    }
    Ok(())
}

/// Environment variables.
pub(crate) fn environment(
    field: &str,
    variables: &BTreeMap<String, String>,
    limits: Limits,
) -> Result<(), Status> {
    let mut total = 0;
    for (k, v) in variables {
        let field = entry(field, k);
        let name = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-');
        let starts = |b: &u8| b.is_ascii_alphabetic() || *b == b'_';
        if k.len() > MAX_VARIABLE_NAME
            || !k.bytes().all(name)
            || !k.as_bytes().first().is_some_and(starts)
        {
            return Err(invalid(
                &field,
                format!(
                    "a variable's name is 1 to {MAX_VARIABLE_NAME} of A-Z, a-z, 0-9, '_', '.' and '-', \
                     and starts with a letter or '_'"
                ),
            ));
        }
        no_nul(&field, v)?;
        if v.len() > limits.value {
            return Err(too_long(&field, v.len(), limits.value));
        }
        total += k.len() + v.len() + 2;
    }
    if total > limits.environment {
        return Err(too_long(field, total, limits.environment));
    }
    Ok(())
}

/// A command; may be empty where that has a meaning.
pub(crate) fn command(field: &str, argv: &[String], limits: Limits) -> Result<(), Status> {
    if argv.len() > MAX_ARGUMENTS {
        return Err(invalid(
            field,
            format!(
                "{} arguments; at most {MAX_ARGUMENTS} are allowed",
                argv.len()
            ),
        ));
    }
    if argv.first().is_some_and(String::is_empty) {
        return Err(invalid(&format!("{field}[0]"), "the program is empty"));
    }
    let mut total = 0;
    for (i, argument) in argv.iter().enumerate() {
        let field = format!("{field}[{i}]");
        no_nul(&field, argument)?;
        if argument.len() > limits.argument {
            return Err(too_long(&field, argument.len(), limits.argument));
        }
        total += argument.len() + 1;
    }
    if total > limits.command {
        return Err(too_long(field, total, limits.command));
    }
    Ok(())
}

/// A working directory: absolute, or relative to `/sandbox`; empty stays empty.
pub(crate) fn workdir(field: &str, path: String) -> Result<String, Status> {
    no_nul(field, &path)?;
    if path.len() > MAX_PATH {
        return Err(too_long(field, path.len(), MAX_PATH));
    }
    if path.is_empty() || path.starts_with('/') {
        return Ok(path);
    }
    Ok(format!("{}/{path}", openshell_core::bootstrap::WORKSPACE))
}

/// An image reference: `[host[:port]/]path[:tag][@digest]`, or an image id.
pub(crate) fn image(field: &str, text: &str) -> Result<(), Status> {
    let refuse = |why: &str| {
        let short: String = text.chars().take(80).collect();
        Err(invalid(
            field,
            format!("{short:?} is not an image reference: {why}"),
        ))
    };
    if text.len() > MAX_IMAGE {
        return refuse("it is too long");
    }
    if text.starts_with("sha256:") {
        return if is_digest(text) {
            Ok(())
        } else {
            refuse("an image id is sha256: and 64 hexadecimal digits")
        };
    }
    let (name, digest) = text
        .split_once('@')
        .map_or((text, None), |(n, d)| (n, Some(d)));
    if digest.is_some_and(|d| !is_digest(d)) {
        return refuse("a digest is sha256: and 64 hexadecimal digits");
    }
    let (path, tag) = match name.rsplit_once(':') {
        Some((path, tag)) if !tag.contains('/') => (path, Some(tag)),
        _ => (name, None),
    };
    if tag.is_some_and(|t| !is_tag(t)) {
        return refuse("a tag is 1 to 128 of A-Z, a-z, 0-9, '_', '.' and '-'");
    }
    let mut parts = path.split('/').peekable();
    let first = path.split('/').next().unwrap_or("");
    let is_host = path.contains('/')
        && (first.contains(['.', ':']) || first == "localhost")
        && is_host(first);
    if is_host {
        parts.next();
    }
    if parts.all(is_component) {
        return Ok(());
    }
    refuse("write it as docker.io/library/debian:12, in lower case")
}

fn is_digest(text: &str) -> bool {
    text.strip_prefix("sha256:")
        .is_some_and(|hex| hex.len() == 64 && hex.bytes().all(|b| b.is_ascii_hexdigit()))
}

fn is_tag(text: &str) -> bool {
    let rest = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-');
    (1..=128).contains(&text.len()) && text.bytes().all(rest) && !text.starts_with(['.', '-'])
}

fn is_host(text: &str) -> bool {
    let (host, port) = text.split_once(':').unwrap_or((text, "1"));
    port.parse::<u16>().is_ok()
        && !host.is_empty()
        && host
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-'))
}

fn is_component(text: &str) -> bool {
    edges_alphanumeric(text)
        && text
            .bytes()
            .all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'.' | b'_' | b'-'))
}

#[cfg(test)]
mod tests;
