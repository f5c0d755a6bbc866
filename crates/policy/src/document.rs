//! The normal form: what a policy says, written in one way only; and its hash.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use serde::Serialize;

use crate::model::{
    Access, Compatibility, Endpoint, Enforcement, Filesystem, Policy, RequestPattern, Rule,
};
use crate::{Glob, Identity};

/// A policy as a file says it, in normal form: sorted, nothing twice, defaults left away.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[expect(
    missing_docs,
    reason = "the keys of the file, which the schema explains"
)]
pub struct Document {
    pub version: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filesystem_policy: Option<FilesystemPolicy>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub landlock: Option<Landlock>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub process: Option<Process>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub network_policies: BTreeMap<String, NetworkPolicy>,
}

/// `filesystem_policy`
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[expect(
    missing_docs,
    reason = "the keys of the file, which the schema explains"
)]
pub struct FilesystemPolicy {
    pub include_workdir: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub read_only: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub read_write: Vec<String>,
}

/// `landlock`
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[expect(
    missing_docs,
    reason = "the keys of the file, which the schema explains"
)]
pub struct Landlock {
    pub compatibility: &'static str,
}

/// `process`
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[expect(
    missing_docs,
    reason = "the keys of the file, which the schema explains"
)]
pub struct Process {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_as_user: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_as_group: Option<String>,
}

/// One of `network_policies`
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[expect(
    missing_docs,
    reason = "the keys of the file, which the schema explains"
)]
pub struct NetworkPolicy {
    pub name: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub endpoints: Vec<NetworkEndpoint>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub binaries: Vec<Binary>,
}

/// One of `binaries`
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[expect(
    missing_docs,
    reason = "the keys of the file, which the schema explains"
)]
pub struct Binary {
    pub path: String,
}

/// One of `endpoints`
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[expect(
    missing_docs,
    reason = "the keys of the file, which the schema explains"
)]
pub struct NetworkEndpoint {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ports: Vec<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allowed_ips: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protocol: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enforcement: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub access: Option<&'static str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<Allow>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub deny_rules: Vec<Request>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub allow_encoded_slash: bool,
}

/// One of `rules`
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[expect(
    missing_docs,
    reason = "the keys of the file, which the schema explains"
)]
pub struct Allow {
    pub allow: Request,
}

/// A set of requests
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[expect(
    missing_docs,
    reason = "the keys of the file, which the schema explains"
)]
pub struct Request {
    pub method: String,
    pub path: String,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub query: BTreeMap<String, Parameter>,
}

/// The patterns of a parameter
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[expect(
    missing_docs,
    reason = "the keys of the file, which the schema explains"
)]
pub struct Parameter {
    pub any: Vec<String>,
}

impl Policy {
    /// The normal form.
    pub fn document(&self) -> Document {
        let identity = |id: Option<Identity>| id.map(|id| id.to_string());
        let process = Process {
            run_as_user: identity(self.process.user),
            run_as_group: identity(self.process.group),
        };
        let said = process.run_as_user.is_some() || process.run_as_group.is_some();
        let hard = self.landlock == Compatibility::HardRequirement;
        Document {
            version: 1,
            filesystem_policy: self.filesystem.as_ref().map(filesystem),
            landlock: hard.then_some(Landlock {
                compatibility: "hard_requirement",
            }),
            process: said.then_some(process),
            network_policies: self
                .rules
                .iter()
                .map(|(key, value)| (key.clone(), rule(value)))
                .collect(),
        }
    }

    /// The hash of the normal form: SHA-256 in hexadecimal. Two policies that say the same have the same.
    pub fn hash(&self) -> String {
        // Neither maps with odd keys nor anything that can fail is in a document.
        let text = serde_json::to_vec(&self.document()).unwrap_or_default();
        let digest = ring::digest::digest(&ring::digest::SHA256, &text);
        let mut shown = String::with_capacity(64);
        for byte in digest.as_ref() {
            // Writing to a string does not fail.
            let _ = write!(shown, "{byte:02x}");
        }
        shown
    }
}

fn filesystem(filesystem: &Filesystem) -> FilesystemPolicy {
    FilesystemPolicy {
        include_workdir: filesystem.include_workdir,
        read_only: filesystem.read_only.iter().cloned().collect(),
        read_write: filesystem.read_write.iter().cloned().collect(),
    }
}

fn rule(rule: &Rule) -> NetworkPolicy {
    let endpoints: BTreeSet<_> = rule.endpoints.iter().map(endpoint).collect();
    let binaries = rule.binaries.iter().map(|glob| Binary { path: text(glob) });
    NetworkPolicy {
        name: rule.name.clone(),
        endpoints: endpoints.into_iter().collect(),
        binaries: binaries.collect(),
    }
}

fn endpoint(endpoint: &Endpoint) -> NetworkEndpoint {
    let ports: Vec<u16> = endpoint.ports.iter().copied().collect();
    let (port, ports) = match ports.as_slice() {
        [one] => (Some(*one), Vec::new()),
        _ => (None, ports),
    };
    let networks: BTreeSet<_> = endpoint.allowed_ips.iter().collect();
    let (access, rules) = match &endpoint.access {
        Access::Unruled => (None, Vec::new()),
        Access::Preset(preset) => (Some(preset.as_str()), Vec::new()),
        Access::Rules(rules) => {
            let rules = requests(rules).into_iter().map(|allow| Allow { allow });
            (None, rules.collect())
        }
    };
    NetworkEndpoint {
        host: endpoint.host.as_ref().map(ToString::to_string),
        port,
        ports,
        path: endpoint.path.as_ref().map(text),
        allowed_ips: networks.into_iter().map(ToString::to_string).collect(),
        protocol: endpoint.protocol.as_str(),
        tls: endpoint.tls_skip.then_some("skip"),
        // The default passes everything, which nobody expects: it is said wherever it counts.
        enforcement: endpoint
            .protocol
            .has_rules()
            .then_some(match endpoint.enforcement {
                Enforcement::Audit => "audit",
                Enforcement::Enforce => "enforce",
            }),
        access,
        rules,
        deny_rules: requests(&endpoint.deny),
        allow_encoded_slash: endpoint.allow_encoded_slash,
    }
}

fn requests(patterns: &[RequestPattern]) -> Vec<Request> {
    let sorted: BTreeSet<_> = patterns.iter().map(request).collect();
    sorted.into_iter().collect()
}

fn request(pattern: &RequestPattern) -> Request {
    let query = pattern.query.iter().map(|(key, globs)| {
        let any = globs.iter().map(text).collect();
        (key.clone(), Parameter { any })
    });
    Request {
        method: pattern.method.to_string(),
        path: pattern.path.as_ref().map_or_else(|| "/**".to_owned(), text),
        query: query.collect(),
    }
}

fn text(glob: &Glob) -> String {
    glob.as_str().to_owned()
}
