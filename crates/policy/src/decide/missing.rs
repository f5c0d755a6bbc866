//! What is missing where a connection is refused, and what to propose.

use std::fmt;

use super::Engine;
use super::connection::Connection;
use crate::host::Host;

/// Why a connection is refused.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Missing {
    host: Host,
    port: u16,
    binary: String,
    near: Near,
}

/// How near a rule came.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Near {
    /// No rule is about the host.
    Nothing,
    /// This rule is about the host, on other ports.
    Port { rule: String },
    /// This rule is about the host and the port, for other programs.
    Binary { rule: String },
}

/// A rule that would allow what was refused, for its owner to look at.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Proposal {
    /// The rule to add to; nothing: a new one.
    pub rule: Option<String>,
    /// The host.
    pub host: String,
    /// The port.
    pub port: u16,
    /// The program.
    pub binary: String,
}

impl Missing {
    pub(super) fn of(engine: &Engine, asked: Connection<'_>, about: &[usize]) -> Self {
        let key = |index: &usize| engine.rule_of(*index).key.clone();
        let port = |index: &&usize| {
            engine.endpoints[**index]
                .endpoint
                .ports
                .contains(&asked.port)
        };
        let with_port = about.iter().filter(port).map(key).min();
        let near = match (with_port, about.iter().map(key).min()) {
            (Some(rule), _) => Near::Binary { rule },
            (None, Some(rule)) => Near::Port { rule },
            (None, None) => Near::Nothing,
        };
        Self {
            host: asked.host.clone(),
            port: asked.port,
            binary: asked.binary.to_owned(),
            near,
        }
    }

    /// In short, for a log.
    pub const fn why(&self) -> &'static str {
        match self.near {
            Near::Nothing => "no network policy allows it",
            Near::Port { .. } => "no network policy allows this port",
            Near::Binary { .. } => "no network policy allows this program",
        }
    }

    /// What to propose. A new program gets a rule of its own: one that is added to another's could reach all of that.
    pub fn proposal(&self) -> Proposal {
        let rule = match &self.near {
            Near::Port { rule } => Some(rule.clone()),
            Near::Nothing | Near::Binary { .. } => None,
        };
        Proposal {
            rule,
            host: self.host.to_string(),
            port: self.port,
            binary: self.binary.clone(),
        }
    }
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let to = match &self.host {
            Host::Address(address @ std::net::IpAddr::V6(_)) => {
                format!("[{address}]:{}", self.port)
            }
            host => format!("{host}:{}", self.port),
        };
        match &self.near {
            Near::Nothing => write!(f, "no network policy allows {to}"),
            Near::Port { rule } => {
                write!(
                    f,
                    "no network policy allows {to}: rule `{rule}` is about other ports of it"
                )
            }
            Near::Binary { rule } => write!(
                f,
                "no network policy allows {to} for {}: rule `{rule}` is about other programs",
                self.binary
            ),
        }
    }
}

impl fmt::Display for Proposal {
    /// As part of a policy file. JSON strings are YAML: nothing that a program chose can break out of its quotes.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let quoted = |text: &str| serde_json::Value::from(text).to_string();
        let key = match &self.rule {
            Some(rule) => rule.clone(),
            None => format!("allow {}:{}", self.host, self.port),
        };
        write!(
            f,
            "network_policies:\n  {}:\n    endpoints:\n      - host: {}\n        port: {}\n    binaries:\n      - path: {}\n",
            quoted(&key),
            quoted(&self.host),
            self.port,
            quoted(&self.binary),
        )
    }
}
