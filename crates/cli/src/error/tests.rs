//! What people read when something fails, and the code that goes with it.

use super::*;

#[test]
fn every_answer_of_the_gateway_has_its_exit_code() {
    for (code, exit) in [
        (Code::NotFound, 3),
        (Code::AlreadyExists, 4),
        (Code::FailedPrecondition, 4),
        (Code::Aborted, 4),
        (Code::InvalidArgument, 2),
        (Code::OutOfRange, 2),
        (Code::Unavailable, 5),
        (Code::Unauthenticated, 6),
        (Code::PermissionDenied, 6),
        (Code::DeadlineExceeded, 124),
        (Code::Unimplemented, 125),
        (Code::ResourceExhausted, 125),
        (Code::Internal, 125),
        (Code::Unknown, 125),
    ] {
        let error = CliError::rpc("it failed", &Status::new(code, "because"));
        assert_eq!(error.exit.code(), exit, "{code:?}");
        assert_eq!(error.why, "because");
    }
}

#[test]
fn an_error_says_what_failed_why_and_what_to_do() {
    let error = CliError::rpc(
        "sandbox \"a\" could not be read",
        &Status::not_found("sandbox \"a\" does not exist in workspace \"default\""),
    );
    insta::assert_snapshot!(error, @r#"
    error: sandbox "a" could not be read
      why: sandbox "a" does not exist in workspace "default"
     hint: `openshell sandbox list` shows what there is
    "#);
}

#[test]
fn a_refused_client_certificate_is_a_matter_of_authentication() {
    let tls = rustls::Error::AlertReceived(rustls::AlertDescription::UnknownCA);
    let io = io::Error::new(io::ErrorKind::InvalidData, tls);
    let status = Status::from_error(Box::new(io));
    let error = CliError::rpc("x", &status);
    assert_eq!(error.exit, Exit::Denied);
    assert!(!error.to_string().contains("UnknownCA"), "{error}");
}

#[test]
fn escape_sequences_in_a_message_are_shown_harmless() {
    let error = CliError::rpc("x", &Status::internal("\u{1b}[2J"));
    assert!(!error.to_string().contains('\u{1b}'));
}
