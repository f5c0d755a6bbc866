//! Errors keep their code, their reason and their field on the wire.

use openshell_core::Phase;

use super::*;

fn reason(s: &Status) -> (RpcStatus, String) {
    let rpc = RpcStatus::decode(s.details()).unwrap();
    let info = ErrorInfo::decode(rpc.details[0].value.as_slice()).unwrap();
    assert_eq!(info.domain, "openshell");
    (rpc, info.reason)
}

#[test]
fn an_invalid_argument_carries_its_field() {
    let e = invalid("spec.image", "is missing");
    assert_eq!(e.message(), "spec.image: is missing");
    let (rpc, why) = reason(&e);
    assert_eq!((rpc.code, &*why), (3, "INVALID_ARGUMENT"));
    assert_eq!(
        rpc.details[1].type_url,
        "type.googleapis.com/google.rpc.BadRequest"
    );
    let bad = BadRequest::decode(rpc.details[1].value.as_slice()).unwrap();
    assert_eq!(bad.field_violations[0].field, "spec.image");
}

#[test]
fn each_refused_command_has_a_code_that_a_program_can_act_on() {
    let refused = CommandError::Refused {
        phase: Phase::Deleting,
        message: "is being deleted".to_owned(),
    };
    let unreachable = DriverError::new(DriverErrorKind::Unreachable, "no socket");
    for (e, code) in [
        (CommandError::NotFound("a".into()), Code::NotFound),
        (CommandError::AlreadyExists("a".into()), Code::AlreadyExists),
        (refused, Code::FailedPrecondition),
        (
            CommandError::RequestIdReused("1".into()),
            Code::InvalidArgument,
        ),
        (CommandError::Store("full".into()), Code::Unavailable),
        (CommandError::ShuttingDown, Code::Unavailable),
        (CommandError::Driver(unreachable), Code::Unavailable),
    ] {
        let said = e.to_string();
        assert_eq!(command(e).code(), code, "{said}");
    }
    let (_, why) = reason(&request_id_reused("1"));
    assert_eq!(why, "REQUEST_ID_PAYLOAD_MISMATCH");
}

#[test]
fn a_message_is_fit_for_a_header_whatever_the_engine_said() {
    let e = error(
        Code::Internal,
        "X",
        format!("a\nb\0c{}", "x".repeat(100_000)),
    );
    assert!(e.message().len() <= 2000);
    assert!(!e.message().contains(char::is_control));
}
