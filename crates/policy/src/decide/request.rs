//! Whether a request on an admitted connection passes.

use std::fmt;

use super::CompiledEndpoint;
use super::connection::Admitted;
use crate::http::{RequestPath, Unclear, parameters};
use crate::model::{Enforcement, RequestPattern};

/// A request that a program makes; of a WebSocket also a message, as `WEBSOCKET_TEXT`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Request<'a> {
    /// The method as it was sent.
    pub method: &'a str,
    /// The path as it was sent, without its query.
    pub path: &'a str,
    /// What follows the `?`, without it.
    pub query: &'a str,
}

/// What was decided about a request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Verdict<'e> {
    /// Why.
    pub cause: Cause<'e>,
    /// Whether it passes: it was allowed, or nobody enforces.
    pub passes: bool,
}

/// Why a request passes or does not.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Cause<'e> {
    /// A rule allows it.
    Allowed {
        /// The rule's key.
        rule: &'e str,
    },
    /// A rule denies it, whatever allows it.
    Denied {
        /// The rule's key.
        rule: &'e str,
    },
    /// No rule allows it.
    NoRule {
        /// The rule to which one could be added.
        rule: &'e str,
    },
    /// It cannot be held against rules.
    Unclear(Unclear),
}

impl Verdict<'_> {
    /// Whether a rule allows it and none denies it: what passes only because nobody enforces does not count.
    pub const fn allowed(&self) -> bool {
        matches!(self.cause, Cause::Allowed { .. })
    }
}

impl fmt::Display for Cause<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Allowed { rule } => write!(f, "allowed by rule `{rule}`"),
            Self::Denied { rule } => write!(f, "denied by a deny rule of `{rule}`"),
            Self::NoRule { rule } => {
                write!(f, "rule `{rule}` allows the host, but not this request")
            }
            Self::Unclear(why) => write!(f, "{why}"),
        }
    }
}

/// A request in the form that patterns are held against.
struct Read<'a> {
    method: &'a str,
    path: &'a str,
    query: &'a str,
}

pub(super) fn decide<'e>(on: &Admitted<'e>, request: Request<'_>) -> Verdict<'e> {
    // Nothing here is held against rules: however the path is written, it passes.
    if on.endpoints().all(|(_, compiled)| unruled(compiled)) {
        let rule = on.rules().first().copied().unwrap_or_default();
        return Verdict {
            cause: Cause::Allowed { rule },
            passes: true,
        };
    }
    let path = match RequestPath::parse(request.path) {
        Ok(path) => path,
        Err(why) => return unclear(why),
    };
    let slash = |e: &CompiledEndpoint| e.endpoint.allow_encoded_slash || unruled(e);
    if path.has_encoded_slash() && !on.endpoints().any(|(_, e)| slash(e)) {
        return unclear(Unclear::EncodedSlash);
    }
    let read = Read {
        method: request.method,
        path: path.as_str(),
        query: request.query,
    };
    let about = |compiled: &CompiledEndpoint| {
        let scope = compiled.endpoint.path.as_ref();
        scope.is_none_or(|scope| scope.matches(read.path))
    };
    let mut allowed: Option<&'e str> = None;
    let mut denied: Option<&'e str> = None;
    let mut nearest: Option<&'e str> = None;
    let mut audit = false;
    let mut enforce = false;
    for (key, compiled) in on.endpoints() {
        nearest = least(nearest, key);
        if !about(compiled) {
            continue;
        }
        if compiled.endpoint.protocol.has_rules() {
            match compiled.endpoint.enforcement {
                Enforcement::Audit => audit = true,
                Enforcement::Enforce => enforce = true,
            }
        }
        let patterns = compiled.allow.as_deref();
        let readable = !path.has_encoded_slash() || slash(compiled);
        if readable && patterns.is_none_or(|patterns| patterns.iter().any(|p| allows(p, &read))) {
            allowed = least(allowed, key);
        }
        if compiled.endpoint.deny.iter().any(|p| denies(p, &read)) {
            denied = least(denied, key);
        }
    }
    // A request that no endpoint is about is refused, whatever others only watch.
    let watched_only = audit && !enforce;
    match (denied, allowed, nearest) {
        (Some(rule), _, _) => Verdict {
            cause: Cause::Denied { rule },
            passes: watched_only,
        },
        (None, Some(rule), _) => Verdict {
            cause: Cause::Allowed { rule },
            passes: true,
        },
        (None, None, nearest) => Verdict {
            cause: Cause::NoRule {
                rule: nearest.unwrap_or_default(),
            },
            passes: watched_only,
        },
    }
}

/// Whether an endpoint lets every request pass.
fn unruled(compiled: &CompiledEndpoint) -> bool {
    let endpoint = &compiled.endpoint;
    compiled.allow.is_none() && endpoint.deny.is_empty() && endpoint.path.is_none()
}

/// What two readers would read differently is refused even where requests are only watched: no log could say what
/// it was.
const fn unclear<'e>(why: Unclear) -> Verdict<'e> {
    Verdict {
        cause: Cause::Unclear(why),
        passes: false,
    }
}

/// The first in the alphabet, so that the order of endpoints says nothing.
fn least<'e>(one: Option<&'e str>, two: &'e str) -> Option<&'e str> {
    Some(one.map_or(two, |one| one.min(two)))
}

fn path_fits(pattern: &RequestPattern, request: &Read<'_>) -> bool {
    let path = pattern.path.as_ref();
    path.is_none_or(|glob| glob.matches(request.path))
}

/// Every parameter that the rule names must be there, and each of its values must fit.
fn allows(pattern: &RequestPattern, request: &Read<'_>) -> bool {
    pattern.method.allows(request.method)
        && path_fits(pattern, request)
        && pattern.query.iter().all(|(key, globs)| {
            let mut there = false;
            let all = parameters(request.query)
                .filter(|(name, _)| name == key)
                .all(|(_, value)| {
                    there = true;
                    globs.iter().any(|glob| glob.matches(&value))
                });
            there && all
        })
}

/// Each parameter that the rule names has a value that fits. Some servers divide parameters at `;` too: a request
/// that is refused in either reading is refused.
fn denies(pattern: &RequestPattern, request: &Read<'_>) -> bool {
    if !pattern.method.denies(request.method) || !path_fits(pattern, request) {
        return false;
    }
    let query = |query: &str| {
        pattern.query.iter().all(|(key, globs)| {
            parameters(query)
                .any(|(name, value)| name == *key && globs.iter().any(|glob| glob.matches(&value)))
        })
    };
    query(request.query) || (request.query.contains(';') && query(&request.query.replace(';', "&")))
}
