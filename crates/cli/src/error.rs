//! Errors for people: what failed, why, what to do; and the exit code that goes with each.

use std::error::Error as StdError;
use std::fmt;
use std::io;

use tonic::{Code, Status};

use crate::exit::Exit;
use crate::output::printable;

/// What every command answers with.
pub(crate) type CliResult<T> = Result<T, CliError>;

/// A failure, ready to be shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CliError {
    /// The exit code.
    pub(crate) exit: Exit,
    /// What failed.
    pub(crate) what: String,
    /// Why; empty if `what` says it all.
    pub(crate) why: String,
    /// What to do; empty if there is nothing to say.
    pub(crate) hint: String,
    /// Nothing is printed: the exit code says it all (a remote command's own status, a doctor's verdict).
    pub(crate) quiet: bool,
}

impl CliError {
    /// A failure with its exit code.
    pub(crate) fn new(exit: Exit, what: impl Into<String>) -> Self {
        Self {
            exit,
            what: what.into(),
            why: String::new(),
            hint: String::new(),
            quiet: false,
        }
    }

    /// Something on this side.
    pub(crate) fn local(what: impl Into<String>) -> Self {
        Self::new(Exit::Local, what)
    }

    /// A usage error.
    pub(crate) fn usage(what: impl Into<String>) -> Self {
        Self::new(Exit::Usage, what)
    }

    /// Ends with this code, without a word.
    pub(crate) fn silent(exit: Exit) -> Self {
        Self {
            quiet: true,
            ..Self::new(exit, "")
        }
    }

    /// Why it failed.
    #[must_use]
    pub(crate) fn why(mut self, why: impl Into<String>) -> Self {
        self.why = why.into();
        self
    }

    /// What to do.
    #[must_use]
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = hint.into();
        self
    }

    /// A failed call to the gateway.
    pub(crate) fn rpc(what: impl Into<String>, status: &Status) -> Self {
        let (exit, fallback, hint) = classify(status);
        let message = status.message().trim();
        let why = if transport_cause(status).is_some() || message.is_empty() {
            fallback.to_owned()
        } else {
            message.to_owned()
        };
        Self::new(exit, what).why(why).hint(hint)
    }
}

impl fmt::Display for CliError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error: {}", printable(&self.what))?;
        let why: Vec<&str> = self.why.lines().collect();
        for (i, line) in why.iter().enumerate() {
            let lead = if i == 0 { "  why: " } else { "       " };
            write!(f, "\n{lead}{}", printable(line))?;
        }
        if !self.hint.is_empty() {
            write!(f, "\n hint: {}", self.hint)?;
        }
        Ok(())
    }
}

const REACH: &str = "run `openshell doctor`; it says what is missing and how to mend it";
const CERTS: &str = "run `openshell doctor` to check the certificates, or register the gateway again with `openshell gateway add`";

/// Exit code, a sentence for want of a better, and a hint, for each kind of answer.
fn classify(status: &Status) -> (Exit, &'static str, &'static str) {
    match transport_cause(status) {
        Some(Transport::Refused) => {
            return (
                Exit::Denied,
                "the gateway refused our client certificate",
                CERTS,
            );
        }
        Some(Transport::Broken) => {
            return (
                Exit::Unreachable,
                "the connection to the gateway was lost before it answered",
                REACH,
            );
        }
        None => {}
    }
    match status.code() {
        Code::Ok => (Exit::Done, "", ""),
        Code::NotFound => (
            Exit::NotFound,
            "it does not exist",
            "`openshell sandbox list` shows what there is",
        ),
        Code::AlreadyExists => (Exit::Conflict, "it exists already", ""),
        Code::FailedPrecondition => (Exit::Conflict, "its phase does not allow it", ""),
        Code::Aborted => (
            Exit::Conflict,
            "it was changed by somebody else meanwhile",
            "try again",
        ),
        Code::InvalidArgument | Code::OutOfRange => (Exit::Usage, "a value is not valid", ""),
        Code::Unavailable => (Exit::Unreachable, "the gateway does not answer", REACH),
        Code::Unauthenticated => (Exit::Denied, "the gateway does not know who we are", CERTS),
        Code::PermissionDenied => (
            Exit::Denied,
            "this user may not do that",
            "`openshell whoami` shows who the gateway thinks we are",
        ),
        Code::DeadlineExceeded => (Exit::TimedOut, "it took too long", ""),
        Code::Unimplemented => (
            Exit::Failed,
            "this gateway does not offer that",
            "compare the versions with `openshell version`",
        ),
        Code::ResourceExhausted => (Exit::Failed, "a limit of the gateway is reached", ""),
        Code::Cancelled | Code::Unknown | Code::Internal | Code::DataLoss => (
            Exit::Failed,
            "the gateway failed",
            "its log says more; `openshell doctor` checks it and its engine",
        ),
    }
}

/// What a connection died of, as far as it can be told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Transport {
    /// The other side sent a TLS alert.
    Refused,
    /// Anything else.
    Broken,
}

/// Only errors of the connection have a source; what the gateway itself answered has none.
fn transport_cause(status: &Status) -> Option<Transport> {
    let source = status.source()?;
    Some(match tls_error(source) {
        Some(rustls::Error::AlertReceived(_)) => Transport::Refused,
        _ => Transport::Broken,
    })
}

/// Looks for a TLS error in a chain of causes. `io::Error` hides what it wraps from `source`, so that it
/// has to be opened by hand.
pub(crate) fn tls_error<'a>(error: &'a (dyn StdError + 'static)) -> Option<&'a rustls::Error> {
    find(error, |e| e.downcast_ref())
}

/// Looks for an operating system's error in a chain of causes.
pub(crate) fn io_kind(error: &(dyn StdError + 'static)) -> Option<io::ErrorKind> {
    find(error, |e| e.downcast_ref::<io::Error>()).map(io::Error::kind)
}

fn find<'a, T>(
    error: &'a (dyn StdError + 'static),
    pick: impl Fn(&'a (dyn StdError + 'static)) -> Option<&'a T>,
) -> Option<&'a T> {
    let mut next = Some(error);
    // Chains are a handful long; the bound is against a cycle.
    for _ in 0..16 {
        let error = next?;
        if let Some(found) = pick(error) {
            return Some(found);
        }
        let inner = error
            .downcast_ref::<io::Error>()
            .and_then(|e| e.get_ref())
            .map(|e| e as &(dyn StdError + 'static));
        next = inner.or_else(|| error.source());
    }
    None
}

#[cfg(test)]
mod tests;
