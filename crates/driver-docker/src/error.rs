//! What bollard and the engine report, in our kinds, with what to do where we know it.

use std::error::Error as _;
use std::io;
use std::path::Path;

use bollard::errors::Error;
use openshell_container::{EngineError, EngineErrorKind};

/// Translates a failed call on this socket.
pub(crate) fn translate(socket: &Path, error: &Error) -> EngineError {
    match error {
        Error::DockerResponseServerError {
            status_code,
            message,
        } => EngineError::new(kind_of_status(*status_code), message.trim()),
        Error::DockerStreamError { error } => {
            EngineError::new(EngineErrorKind::Other, error.trim())
        }
        Error::RequestTimeoutError => EngineError::new(
            EngineErrorKind::Unreachable,
            format!(
                "Docker at {} did not answer in time; it may be overloaded or hanging (`docker info` tells)",
                socket.display()
            ),
        ),
        Error::SocketNotFoundError(_) => unreachable(socket, io::ErrorKind::NotFound, ""),
        other => match io_error(other) {
            Some(io) => unreachable(socket, io.kind(), &io.to_string()),
            // Connections that break in the middle, and answers cut short, are no answers.
            None => EngineError::new(
                EngineErrorKind::Unreachable,
                format!(
                    "the connection to Docker at {} broke: {}",
                    socket.display(),
                    deepest(other)
                ),
            ),
        },
    }
}

const fn kind_of_status(status: u16) -> EngineErrorKind {
    match status {
        400 => EngineErrorKind::Invalid,
        404 => EngineErrorKind::NotFound,
        409 => EngineErrorKind::Conflict,
        // A proxy or a daemon on its way up or down.
        502..=504 => EngineErrorKind::Unreachable,
        _ => EngineErrorKind::Other,
    }
}

fn unreachable(socket: &Path, kind: io::ErrorKind, words: &str) -> EngineError {
    let socket = socket.display();
    let message = match kind {
        io::ErrorKind::NotFound => format!(
            "Docker cannot be reached: there is no socket at {socket}; install Docker or start it (`systemctl start docker`), or set socket_path in [openshell.drivers.docker]"
        ),
        io::ErrorKind::ConnectionRefused => format!(
            "Docker cannot be reached: nothing listens on {socket}; start it (`systemctl start docker`)"
        ),
        io::ErrorKind::PermissionDenied => format!(
            "Docker cannot be reached: no permission for {socket}; add the gateway's user to the group that owns it (`usermod -aG docker USER`, then log in again)"
        ),
        _ => format!("the connection to Docker at {socket} broke: {words}"),
    };
    EngineError::new(EngineErrorKind::Unreachable, message)
}

fn io_error(error: &Error) -> Option<&io::Error> {
    // A transparent error does not name what it wraps as its source.
    let mut found = match error {
        Error::IOError { err } => Some(err),
        _ => None,
    };
    let mut cause = error.source();
    while let Some(current) = cause {
        if let Some(io) = current.downcast_ref::<io::Error>() {
            found = Some(io);
        }
        cause = current.source();
    }
    found
}

/// The innermost words, which say what happened; the outer ones only say where.
fn deepest(error: &Error) -> String {
    let mut words = error.to_string();
    let mut cause = error.source();
    while let Some(current) = cause {
        words = current.to_string();
        cause = current.source();
    }
    words
}

#[cfg(test)]
mod tests;
