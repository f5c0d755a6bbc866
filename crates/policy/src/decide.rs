//! Decisions: a policy compiled once for each revision, then asked about names, connections and requests.
//!
//! All rules count together. Whatever allows is enough, and whatever denies beats it; their order says nothing.

mod connection;
mod missing;
mod request;

use std::collections::{HashMap, HashSet};

use crate::glob::Glob;
use crate::host::{Host, HostPattern};
use crate::model::{Access, Endpoint, Policy, RequestPattern};

pub use connection::{Admitted, Connection, Inspection};
pub use missing::{Missing, Proposal};
pub use request::{Cause, Request, Verdict};

/// A revision, ready to answer.
#[derive(Debug)]
pub struct Engine {
    rules: Vec<CompiledRule>,
    endpoints: Vec<CompiledEndpoint>,
    /// Endpoints by exact name or address.
    exact: HashMap<HostPattern, Vec<usize>>,
    /// Endpoints by the suffix of `*.suffix`.
    one_label: HashMap<String, Vec<usize>>,
    /// Endpoints by the suffix of `**.suffix`.
    labels: HashMap<String, Vec<usize>>,
    /// Endpoints without a host.
    hostless: Vec<usize>,
}

#[derive(Debug)]
struct CompiledRule {
    key: String,
    name: String,
    paths: HashSet<String>,
    globs: Vec<Glob>,
}

#[derive(Debug)]
struct CompiledEndpoint {
    rule: usize,
    endpoint: Endpoint,
    /// What is allowed; nothing: everything.
    allow: Option<Vec<RequestPattern>>,
}

impl CompiledRule {
    /// Whether the program itself or one that started it is named.
    fn covers(&self, binary: &str, ancestors: &[&str]) -> bool {
        std::iter::once(&binary)
            .chain(ancestors)
            .any(|path| self.paths.contains(*path) || self.globs.iter().any(|g| g.matches(path)))
    }
}

impl Engine {
    /// Compiles a policy.
    pub fn new(policy: &Policy) -> Self {
        let mut engine = Self {
            rules: Vec::new(),
            endpoints: Vec::new(),
            exact: HashMap::new(),
            one_label: HashMap::new(),
            labels: HashMap::new(),
            hostless: Vec::new(),
        };
        for (key, rule) in &policy.rules {
            let (literal, globs): (Vec<_>, Vec<_>) =
                rule.binaries.iter().cloned().partition(Glob::is_literal);
            let index = engine.rules.len();
            engine.rules.push(CompiledRule {
                key: key.clone(),
                name: rule.name.clone(),
                paths: literal.iter().map(|g| g.as_str().to_owned()).collect(),
                globs,
            });
            for endpoint in &rule.endpoints {
                engine.add(index, endpoint);
            }
        }
        engine
    }

    fn add(&mut self, rule: usize, endpoint: &Endpoint) {
        let index = self.endpoints.len();
        let list = match &endpoint.host {
            None => &mut self.hostless,
            Some(HostPattern::OneLabel(suffix)) => {
                self.one_label.entry(suffix.clone()).or_default()
            }
            Some(HostPattern::Labels(suffix)) => self.labels.entry(suffix.clone()).or_default(),
            Some(exact) => self.exact.entry(exact.clone()).or_default(),
        };
        list.push(index);
        self.endpoints.push(CompiledEndpoint {
            rule,
            endpoint: endpoint.clone(),
            allow: match &endpoint.access {
                Access::Unruled => None,
                Access::Preset(preset) => Some(preset.expand(endpoint.protocol)),
                Access::Rules(rules) => Some(rules.clone()),
            },
        });
    }

    /// Whether a name exists in the sandbox: only names that a rule is about do.
    pub fn resolves(&self, name: &str) -> bool {
        match Host::parse(name) {
            Some(host @ Host::Name(_)) => !self.about(&host).is_empty(),
            _ => false,
        }
    }

    /// The endpoints that are about a host, whatever their ports and programs.
    fn about(&self, host: &Host) -> Vec<usize> {
        let mut found = Vec::new();
        match host {
            Host::Address(address) => {
                let exact = self.exact.get(&HostPattern::Address(*address));
                found.extend(exact.into_iter().flatten());
                let inside = self.hostless.iter().filter(|index| {
                    let networks = &self.endpoints[**index].endpoint.allowed_ips;
                    networks.iter().any(|network| network.contains(*address))
                });
                found.extend(inside);
            }
            Host::Name(name) => {
                let exact = self.exact.get(&HostPattern::Name(name.clone()));
                found.extend(exact.into_iter().flatten());
                let mut suffix = name.as_str();
                let mut first = true;
                while let Some((_, rest)) = suffix.split_once('.') {
                    if first {
                        found.extend(self.one_label.get(rest).into_iter().flatten());
                    }
                    found.extend(self.labels.get(rest).into_iter().flatten());
                    (suffix, first) = (rest, false);
                }
            }
        }
        found
    }

    fn rule_of(&self, endpoint: usize) -> &CompiledRule {
        &self.rules[self.endpoints[endpoint].rule]
    }
}

#[cfg(test)]
mod tests;
