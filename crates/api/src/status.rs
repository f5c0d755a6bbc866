//! Errors on the wire: a code that programs act on, a sentence for people, `google.rpc` details.

use openshell_lifecycle::driver::DriverErrorKind;
use openshell_lifecycle::{CommandError, DriverError};
use openshell_store::StoreError;
use prost::Message;
use tonic::{Code, Status};

use crate::session::RelayError;

const DOMAIN: &str = "openshell";

/// `google.rpc.Status`.
#[derive(Clone, PartialEq, Message)]
struct RpcStatus {
    #[prost(int32, tag = "1")]
    code: i32,
    #[prost(string, tag = "2")]
    message: String,
    #[prost(message, repeated, tag = "3")]
    details: Vec<prost_types::Any>,
}

/// `google.rpc.ErrorInfo`.
#[derive(Clone, PartialEq, Message)]
struct ErrorInfo {
    #[prost(string, tag = "1")]
    reason: String,
    #[prost(string, tag = "2")]
    domain: String,
}

/// `google.rpc.BadRequest`.
#[derive(Clone, PartialEq, Message)]
struct BadRequest {
    #[prost(message, repeated, tag = "1")]
    field_violations: Vec<FieldViolation>,
}

/// `google.rpc.BadRequest.FieldViolation`.
#[derive(Clone, PartialEq, Message)]
struct FieldViolation {
    #[prost(string, tag = "1")]
    field: String,
    #[prost(string, tag = "2")]
    description: String,
}

fn any(name: &str, message: &impl Message) -> prost_types::Any {
    prost_types::Any {
        type_url: format!("type.googleapis.com/google.rpc.{name}"),
        value: message.encode_to_vec(),
    }
}

/// gRPC messages travel in a header: no control characters, and not without end.
fn presentable(message: String) -> String {
    const MAX: usize = 2000;
    let clean: String = message
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .take(MAX)
        .collect();
    if clean.is_empty() {
        "no message".to_owned()
    } else {
        clean
    }
}

fn build(code: Code, reason: &str, message: String, more: Option<prost_types::Any>) -> Status {
    let message = presentable(message);
    let info = ErrorInfo {
        reason: reason.to_owned(),
        domain: DOMAIN.to_owned(),
    };
    let mut details = vec![any("ErrorInfo", &info)];
    details.extend(more);
    let status = RpcStatus {
        code: code.into(),
        message: message.clone(),
        details,
    };
    Status::with_details(code, message, status.encode_to_vec().into())
}

/// An error with a stable reason.
pub(crate) fn error(code: Code, reason: &str, message: impl Into<String>) -> Status {
    build(code, reason, message.into(), None)
}

/// INVALID_ARGUMENT that names the field.
pub(crate) fn invalid(field: &str, why: impl std::fmt::Display) -> Status {
    let message = presentable(format!("{field}: {why}"));
    let violation = FieldViolation {
        field: field.to_owned(),
        description: presentable(why.to_string()),
    };
    let bad = BadRequest {
        field_violations: vec![violation],
    };
    build(
        Code::InvalidArgument,
        "INVALID_ARGUMENT",
        message,
        Some(any("BadRequest", &bad)),
    )
}

/// NOT_FOUND.
pub(crate) fn not_found(kind: &str, name: &str) -> Status {
    error(
        Code::NotFound,
        "NOT_FOUND",
        format!("{kind} {name:?} does not exist"),
    )
}

/// ALREADY_EXISTS.
pub(crate) fn exists(kind: &str, name: &str) -> Status {
    error(
        Code::AlreadyExists,
        "ALREADY_EXISTS",
        format!("{kind} {name:?} already exists"),
    )
}

/// The phase or the state forbids it.
pub(crate) fn precondition(message: impl Into<String>) -> Status {
    error(Code::FailedPrecondition, "FAILED_PRECONDITION", message)
}

/// The same `request_id` came with other contents.
pub(crate) fn request_id_reused(id: &str) -> Status {
    error(
        Code::InvalidArgument,
        "REQUEST_ID_PAYLOAD_MISMATCH",
        format!("request_id: {id:?} was used before with other contents"),
    )
}

/// A refused command.
pub(crate) fn command(e: CommandError) -> Status {
    let message = e.to_string();
    match e {
        CommandError::NotFound(name) => not_found("sandbox", &name),
        CommandError::AlreadyExists(name) => exists("sandbox", &name),
        CommandError::Refused { .. } => precondition(message),
        CommandError::RequestIdReused(id) => request_id_reused(&id),
        CommandError::Unreadable(_) => error(Code::DataLoss, "RECORD_UNREADABLE", message),
        CommandError::Store(_) => error(Code::Unavailable, "STORE_FAILED", message),
        CommandError::ShuttingDown => error(Code::Unavailable, "SHUTTING_DOWN", message),
        CommandError::Driver(e) => driver(&e),
    }
}

/// A failed engine call.
pub(crate) fn driver(e: &DriverError) -> Status {
    let (code, reason) = match e.kind {
        DriverErrorKind::Unreachable => (Code::Unavailable, "ENGINE_UNREACHABLE"),
        DriverErrorKind::Invalid => (Code::InvalidArgument, "INVALID_ARGUMENT"),
        DriverErrorKind::PathMissing => (Code::NotFound, "PATH_MISSING"),
        DriverErrorKind::ImagePull => (Code::FailedPrecondition, "IMAGE_PULL_FAILED"),
        DriverErrorKind::ImageUnusable => (Code::FailedPrecondition, "IMAGE_UNUSABLE"),
        DriverErrorKind::NameTaken => (Code::FailedPrecondition, "NAME_TAKEN"),
        DriverErrorKind::RuntimeMissing => (Code::FailedPrecondition, "RUNTIME_MISSING"),
        DriverErrorKind::Engine => (Code::Internal, "ENGINE_FAILED"),
    };
    error(code, reason, e.message.clone())
}

/// A failed store call.
pub(crate) fn store(e: &StoreError) -> Status {
    let message = e.to_string();
    match e {
        StoreError::Exists { kind, name } => exists(kind, name),
        StoreError::Conflict { .. } => error(Code::Aborted, "RESOURCE_VERSION_CONFLICT", message),
        StoreError::Corrupt { .. } | StoreError::Unreadable { .. } => {
            error(Code::DataLoss, "RECORD_UNREADABLE", message)
        }
        _ => error(Code::Unavailable, "STORE_FAILED", message),
    }
}

/// A relay that could not be had, or broke.
pub(crate) fn relay(e: &RelayError) -> Status {
    let (code, reason) = match e {
        RelayError::NoSession => (Code::Unavailable, "NO_SESSION"),
        RelayError::TooMany => (Code::ResourceExhausted, "TOO_MANY_RELAYS"),
        RelayError::Refused(_) => (Code::FailedPrecondition, "RELAY_REFUSED"),
        RelayError::TimedOut(_) => (Code::Unavailable, "RELAY_TIMED_OUT"),
        RelayError::SessionLost => (Code::Unavailable, "SESSION_LOST"),
    };
    error(code, reason, e.to_string())
}

#[cfg(test)]
mod tests;
