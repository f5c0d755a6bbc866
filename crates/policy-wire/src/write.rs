//! To the wire: the normal form of a policy as a message.

use openshell_policy::Policy;
use openshell_policy::document::{NetworkEndpoint, NetworkPolicy, Parameter, Request};
use openshell_proto::policy as wire;

/// A policy as the contract has it.
pub fn to_wire(policy: &Policy) -> wire::SandboxPolicy {
    let document = policy.document();
    wire::SandboxPolicy {
        version: document.version,
        filesystem: document
            .filesystem_policy
            .map(|files| wire::FilesystemPolicy {
                include_workdir: files.include_workdir,
                read_only: files.read_only,
                read_write: files.read_write,
            }),
        landlock: document.landlock.map(|landlock| wire::LandlockPolicy {
            compatibility: landlock.compatibility.to_owned(),
        }),
        process: document.process.map(|process| wire::ProcessPolicy {
            run_as_user: process.run_as_user.unwrap_or_default(),
            run_as_group: process.run_as_group.unwrap_or_default(),
        }),
        network_policies: document
            .network_policies
            .into_iter()
            .map(|(key, value)| (key, rule(value)))
            .collect(),
        ..wire::SandboxPolicy::default()
    }
}

fn rule(rule: NetworkPolicy) -> wire::NetworkPolicyRule {
    let binaries = rule.binaries.into_iter();
    wire::NetworkPolicyRule {
        name: rule.name,
        endpoints: rule.endpoints.into_iter().map(endpoint).collect(),
        binaries: binaries
            .map(|binary| wire::NetworkBinary { path: binary.path })
            .collect(),
    }
}

fn endpoint(endpoint: NetworkEndpoint) -> wire::NetworkEndpoint {
    let tls = endpoint.tls.map_or(wire::NetworkTlsMode::Unspecified, |_| {
        wire::NetworkTlsMode::Skip
    });
    let enforcement = match endpoint.enforcement {
        Some("enforce") => wire::NetworkEnforcementMode::Enforce,
        Some(_) => wire::NetworkEnforcementMode::Audit,
        None => wire::NetworkEnforcementMode::Unspecified,
    };
    let access = match endpoint.access {
        Some("read-only") => wire::NetworkAccessPreset::ReadOnly,
        Some("read-write") => wire::NetworkAccessPreset::ReadWrite,
        Some(_) => wire::NetworkAccessPreset::Full,
        None => wire::NetworkAccessPreset::Unspecified,
    };
    let rules = endpoint.rules.into_iter().map(|rule| wire::L7Rule {
        allow: Some(allow(rule.allow)),
    });
    wire::NetworkEndpoint {
        host: endpoint.host.unwrap_or_default(),
        port: endpoint.port.unwrap_or_default().into(),
        ports: endpoint.ports.into_iter().map(u32::from).collect(),
        path: endpoint.path.unwrap_or_default(),
        allowed_ips: endpoint.allowed_ips,
        protocol: endpoint.protocol.unwrap_or_default().to_owned(),
        tls: tls.into(),
        enforcement: enforcement.into(),
        access: access.into(),
        rules: rules.collect(),
        deny_rules: endpoint.deny_rules.into_iter().map(deny).collect(),
        allow_encoded_slash: endpoint.allow_encoded_slash,
        ..wire::NetworkEndpoint::default()
    }
}

fn allow(request: Request) -> wire::L7Allow {
    wire::L7Allow {
        method: request.method,
        path: request.path,
        query: parameters(request.query),
        ..wire::L7Allow::default()
    }
}

fn deny(request: Request) -> wire::L7DenyRule {
    wire::L7DenyRule {
        method: request.method,
        path: request.path,
        query: parameters(request.query),
        ..wire::L7DenyRule::default()
    }
}

fn parameters(
    query: impl IntoIterator<Item = (String, Parameter)>,
) -> std::collections::BTreeMap<String, wire::L7QueryMatcher> {
    let matchers = query.into_iter().map(|(key, parameter)| {
        let any = parameter.any;
        let glob = String::new();
        (key, wire::L7QueryMatcher { glob, any })
    });
    matchers.collect()
}
