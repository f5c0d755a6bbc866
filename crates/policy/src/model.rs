//! A policy that holds: types, not strings. What is here passed every check.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::address::Network;
use crate::glob::Glob;
use crate::host::HostPattern;
use crate::http::Method;

/// What a sandbox may do.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Policy {
    /// Nothing: the owner said nothing about files.
    pub filesystem: Option<Filesystem>,
    /// What happens if a path cannot be granted.
    pub landlock: Compatibility,
    /// Whom processes run as.
    pub process: Process,
    /// By key. Their order says nothing.
    pub rules: BTreeMap<String, Rule>,
}

/// Paths.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Filesystem {
    /// Whether the working directory may be written.
    pub include_workdir: bool,
    /// Absolute, without `..`.
    pub read_only: BTreeSet<String>,
    /// Absolute, without `..`, not `/`.
    pub read_write: BTreeSet<String>,
}

/// What happens if a path of the filesystem policy cannot be granted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Compatibility {
    /// It is left out.
    #[default]
    BestEffort,
    /// The sandbox does not start.
    HardRequirement,
}

/// Whom processes run as; nothing: what the image says.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Process {
    /// The user.
    pub user: Option<Identity>,
    /// The group.
    pub group: Option<Identity>,
}

/// A user or a group; never root.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Identity {
    /// The sandbox's own.
    Sandbox,
    /// This number, from 1 to 4294967294.
    Id(u32),
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sandbox => f.write_str("sandbox"),
            Self::Id(id) => write!(f, "{id}"),
        }
    }
}

/// Which programs may reach which destinations.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rule {
    /// What logs call it.
    pub name: String,
    /// The destinations.
    pub endpoints: Vec<Endpoint>,
    /// The programs; none: nothing matches.
    pub binaries: BTreeSet<Glob>,
}

/// A destination, and what may be asked there.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Endpoint {
    /// Nothing: any address of `allowed_ips`.
    pub host: Option<HostPattern>,
    /// Never empty.
    pub ports: BTreeSet<u16>,
    /// Only requests with such a path.
    pub path: Option<Glob>,
    /// The addresses that the name may resolve to; none: any public one.
    pub allowed_ips: Vec<Network>,
    /// What is spoken there.
    pub protocol: Protocol,
    /// Whether TLS is passed on unopened.
    pub tls_skip: bool,
    /// What becomes of a request that nothing allows.
    pub enforcement: Enforcement,
    /// What is allowed.
    pub access: Access,
    /// What is refused whatever allows it.
    pub deny: Vec<RequestPattern>,
    /// Whether `%2F` may be in a path.
    pub allow_encoded_slash: bool,
}

/// What is spoken at an endpoint.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum Protocol {
    /// Not said: HTTP is looked into, anything else is passed on.
    #[default]
    Unsaid,
    /// Passed on as it is.
    Tcp,
    /// HTTP, request by request.
    Rest,
    /// A WebSocket: its handshake, and its client's messages.
    Websocket,
}

impl Protocol {
    /// Whether each request is held against rules.
    pub const fn has_rules(self) -> bool {
        matches!(self, Self::Rest | Self::Websocket)
    }

    /// As a file calls it; nothing if a file does not.
    pub const fn as_str(self) -> Option<&'static str> {
        match self {
            Self::Unsaid => None,
            Self::Tcp => Some("tcp"),
            Self::Rest => Some("rest"),
            Self::Websocket => Some("websocket"),
        }
    }
}

/// What becomes of a request that nothing allows.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum Enforcement {
    /// It passes, and is logged.
    #[default]
    Audit,
    /// It is refused.
    Enforce,
}

/// What an endpoint allows.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Access {
    /// Everything: nothing is held against rules.
    Unruled,
    /// A ready set.
    Preset(Preset),
    /// These.
    Rules(Vec<RequestPattern>),
}

/// A ready set of rules.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Preset {
    /// Looks.
    ReadOnly,
    /// Looks and changes, but does not delete.
    ReadWrite,
    /// Does everything.
    Full,
}

impl Preset {
    /// As a file calls it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ReadOnly => "read-only",
            Self::ReadWrite => "read-write",
            Self::Full => "full",
        }
    }

    /// The methods that it stands for.
    pub const fn methods(self, protocol: Protocol) -> &'static [&'static str] {
        match (self, protocol) {
            (Self::Full, _) => &["*"],
            (Self::ReadOnly, Protocol::Websocket) => &["GET"],
            (Self::ReadWrite, Protocol::Websocket) => &["GET", "WEBSOCKET_TEXT"],
            (Self::ReadOnly, _) => &["GET", "HEAD", "OPTIONS"],
            (Self::ReadWrite, _) => &["GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH"],
        }
    }

    /// The rules that it stands for.
    pub fn expand(self, protocol: Protocol) -> Vec<RequestPattern> {
        let methods = self.methods(protocol).iter();
        let methods = methods.filter_map(|method| Method::parse(method).ok());
        methods
            .map(|method| RequestPattern {
                method,
                path: None,
                query: BTreeMap::new(),
            })
            .collect()
    }
}

/// A set of requests.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct RequestPattern {
    /// The method.
    pub method: Method,
    /// Nothing: every path.
    pub path: Option<Glob>,
    /// For each parameter, patterns one of which must fit.
    pub query: BTreeMap<String, BTreeSet<Glob>>,
}
