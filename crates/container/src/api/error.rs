//! What bollard and the engine report, in our kinds, with what to do where we know it.

use std::error::Error as _;
use std::io;
use std::path::Path;

use bollard::errors::Error;

use super::dialect::{Dialect, Manner};
use crate::engine::{EngineError, EngineErrorKind};

/// Translates a failed call on this socket.
pub(super) fn translate(socket: &Path, dialect: &dyn Dialect, error: &Error) -> EngineError {
    let manner = dialect.manner();
    match error {
        Error::DockerResponseServerError {
            status_code,
            message,
        } => {
            let own = dialect.meaning(*status_code, message);
            EngineError::new(
                own.unwrap_or_else(|| kind_of_status(*status_code)),
                message.trim(),
            )
        }
        Error::DockerStreamError { error } => {
            EngineError::new(EngineErrorKind::Other, error.trim())
        }
        Error::RequestTimeoutError => EngineError::new(
            EngineErrorKind::Unreachable,
            format!(
                "{} at {} did not answer in time; it may be overloaded or hanging (`{} info` tells)",
                manner.title,
                socket.display(),
                manner.name
            ),
        ),
        Error::SocketNotFoundError(_) => unreachable(socket, manner, io::ErrorKind::NotFound, ""),
        other => match io_error(other) {
            Some(io) => unreachable(socket, manner, io.kind(), &io.to_string()),
            // Connections that break in the middle, and answers cut short, are no answers.
            None => lost(socket, dialect, &deepest(other)),
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

/// A connection that ended, or an answer that cannot be read.
pub(super) fn lost(socket: &Path, dialect: &dyn Dialect, words: &str) -> EngineError {
    unreachable(socket, dialect.manner(), io::ErrorKind::Other, words)
}

fn unreachable(socket: &Path, manner: &Manner, kind: io::ErrorKind, words: &str) -> EngineError {
    let socket = socket.display();
    let Manner {
        name,
        title,
        start,
        permission,
        ..
    } = manner;
    let message = match kind {
        io::ErrorKind::NotFound => format!(
            "{title} cannot be reached: there is no socket at {socket}; install {title} or start it (`{start}`), or set socket_path in [openshell.drivers.{name}]"
        ),
        io::ErrorKind::ConnectionRefused => {
            format!("{title} cannot be reached: nothing listens on {socket}; start it (`{start}`)")
        }
        io::ErrorKind::PermissionDenied => {
            format!("{title} cannot be reached: no permission for {socket}; {permission}")
        }
        _ => format!("the connection to {title} at {socket} broke: {words}"),
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
