//! Decides about connections out of a sandbox, and about names. Without a rule that allows it, the answer is no.

use std::fmt;
use std::net::IpAddr;

/// Where a connection is to go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Destination<'a> {
    /// As the caller gave it: an address in text.
    pub host: &'a str,
    /// The port.
    pub port: u16,
}

impl fmt::Display for Destination<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.parse() {
            Ok(IpAddr::V6(_)) => write!(f, "[{}]:{}", self.host, self.port),
            _ => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

/// What was decided.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Decision {
    /// Refused: in short, for the log; and which rule is missing, for its owner.
    Denied {
        /// `no network policy allows it`
        why: &'static str,
        /// `no network policy allows 192.0.2.1:443`
        reason: String,
    },
}

/// Decides about a connection.
pub fn connection(destination: Destination<'_>) -> Decision {
    Decision::Denied {
        why: "no network policy allows it",
        reason: format!("no network policy allows {destination}"),
    }
}

/// Decides about a name: denied means that it does not exist here.
pub fn name(name: &str) -> Decision {
    Decision::Denied {
        why: "no network policy names it",
        reason: format!("no network policy names {}", name.trim_end_matches('.')),
    }
}

#[cfg(test)]
mod tests;
