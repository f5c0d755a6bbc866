//! Kinds of failure.

use super::super::dialect::Plain;
use super::*;

fn kind(error: &Error) -> EngineErrorKind {
    translate(Path::new("/s"), &Plain, error).kind
}

#[test]
fn the_engines_answers_keep_its_words_and_broken_connections_are_unreachable_l4() {
    for (status, expected) in [
        (400, EngineErrorKind::Invalid),
        (404, EngineErrorKind::NotFound),
        (409, EngineErrorKind::Conflict),
        (500, EngineErrorKind::Other),
        (503, EngineErrorKind::Unreachable),
    ] {
        let error = Error::DockerResponseServerError {
            status_code: status,
            message: "its words\n".to_owned(),
        };
        assert_eq!(kind(&error), expected);
        assert_eq!(
            translate(Path::new("/s"), &Plain, &error).message,
            "its words"
        );
    }
    assert_eq!(
        kind(&Error::RequestTimeoutError),
        EngineErrorKind::Unreachable
    );
    for io in [
        io::ErrorKind::ConnectionRefused,
        io::ErrorKind::PermissionDenied,
        io::ErrorKind::NotFound,
        io::ErrorKind::BrokenPipe,
        io::ErrorKind::UnexpectedEof,
    ] {
        let error = translate(Path::new("/s"), &Plain, &Error::from(io::Error::from(io)));
        assert_eq!(error.kind, EngineErrorKind::Unreachable, "{io:?}");
        assert!(error.message.contains("/s"), "{error}");
    }
}

#[test]
fn a_refused_permission_says_which_group() {
    let denied = Error::from(io::Error::from(io::ErrorKind::PermissionDenied));
    assert!(
        translate(Path::new("/s"), &Plain, &denied)
            .message
            .contains("usermod")
    );
}
