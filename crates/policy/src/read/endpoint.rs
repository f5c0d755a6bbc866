//! One endpoint of a rule.

use std::collections::{BTreeMap, BTreeSet};

use super::Spot;
use crate::address::Network;
use crate::glob::Glob;
use crate::host::HostPattern;
use crate::http::Method;
use crate::model::{Access, Endpoint, Enforcement, Preset, Protocol, RequestPattern};
use crate::node::Node;
use crate::problem::{Findings, Why, why};

/// The ports of control planes: never reached by a rule.
const CONTROL_PLANE: [u16; 5] = [2379, 2380, 6443, 10250, 10255];

/// A message of a client over a WebSocket, as the method of a rule.
const WEBSOCKET_TEXT: &str = "WEBSOCKET_TEXT";

/// Nothing if it has no destination; everything else that is wrong is reported and read on.
pub(super) fn read(spot: Spot<'_>, found: &mut Findings) -> Option<Endpoint> {
    let host = spot.under("host", |spot| spot.text(found, HostPattern::parse));
    let mut allowed_ips = Vec::new();
    spot.each("allowed_ips", |spot| {
        allowed_ips.extend(spot.text(found, Network::parse));
    });
    allowed_ips.sort();
    allowed_ips.dedup();
    if host.is_none()
        && spot
            .node
            .get("allowed_ips")
            .is_none_or(|l| l.items().is_empty())
    {
        let hint = "name a host, or say by `allowed_ips` which addresses are meant";
        spot.wrong(found, why("there is no host").hint(hint));
    }
    let ports = ports(spot, found);
    let protocol = protocol(spot);
    let word = |key: &str| spot.node.get(key).and_then(Node::text);
    let allow_encoded_slash = truth(spot, "allow_encoded_slash");
    let path = spot.under("path", |spot| {
        if !protocol.has_rules() {
            let hint = "add `protocol: rest`";
            spot.wrong(
                found,
                why("a path needs a protocol that is inspected").hint(hint),
            );
        }
        spot.text(found, |text| request_path(text, allow_encoded_slash))
    });
    let tls_skip = tls(spot, protocol, found);
    let access = access(spot, protocol, found);
    let deny = requests(spot, "deny_rules", protocol, found);
    let enforcement = match word("enforcement") {
        Some("enforce") => Enforcement::Enforce,
        _ => Enforcement::Audit,
    };
    // A host that could not be read must not become "any host".
    if host == Some(None) || ports.is_empty() {
        return None;
    }
    Some(Endpoint {
        host: host.flatten(),
        ports,
        path: path.flatten().flatten(),
        allowed_ips,
        protocol,
        tls_skip,
        enforcement,
        access,
        deny,
        allow_encoded_slash,
    })
}

fn truth(spot: Spot<'_>, key: &str) -> bool {
    spot.node.get(key).and_then(Node::truth).unwrap_or(false)
}

fn protocol(spot: Spot<'_>) -> Protocol {
    match spot.node.get("protocol").and_then(Node::text) {
        Some("tcp") => Protocol::Tcp,
        Some("rest") => Protocol::Rest,
        Some("websocket") => Protocol::Websocket,
        _ => Protocol::Unsaid,
    }
}

fn ports(spot: Spot<'_>, found: &mut Findings) -> BTreeSet<u16> {
    let mut ports = BTreeSet::new();
    let mut add = |spot: Spot<'_>| {
        let Some(port) = spot.node.integer().and_then(|p| u16::try_from(p).ok()) else {
            return;
        };
        if CONTROL_PLANE.contains(&port) {
            spot.wrong(
                found,
                format!("port {port} is of control planes and is never reached"),
            );
        }
        ports.insert(port);
    };
    spot.under("port", &mut add);
    spot.each("ports", &mut add);
    let list = spot.node.get("ports").map(Node::items);
    match (spot.node.get("port"), list) {
        (Some(_), Some(_)) => {
            spot.wrong(
                found,
                why("`port` and `ports` are both there").hint("keep one of them"),
            );
        }
        (None, None) => spot.wrong(found, why("there is no port").hint("add `port: 443`")),
        (None, Some([])) => spot.wrong(found, "`ports` is empty"),
        _ => {}
    }
    ports
}

fn tls(spot: Spot<'_>, protocol: Protocol, found: &mut Findings) -> bool {
    spot.under("tls", |spot| match spot.node.text() {
        Some("skip") => {
            if protocol.has_rules() {
                let hint = "remove it, or remove the protocol and its rules";
                let message = "what `tls: skip` passes on unopened cannot be held against rules";
                spot.wrong(found, why(message).hint(hint));
            }
            true
        }
        Some(word) => {
            let hint = if word == "passthrough" {
                "`tls: skip` passes TLS on unopened"
            } else {
                "leave it away"
            };
            spot.remark(
                found,
                why(format!(
                    "`tls: {word}` is of older versions and changes nothing"
                ))
                .hint(hint),
            );
            false
        }
        None => false,
    })
    .unwrap_or(false)
}

fn access(spot: Spot<'_>, protocol: Protocol, found: &mut Findings) -> Access {
    let preset = spot
        .node
        .get("access")
        .and_then(Node::text)
        .map(|word| match word {
            "read-only" => Preset::ReadOnly,
            "read-write" => Preset::ReadWrite,
            _ => Preset::Full,
        });
    let rules = spot.node.get("rules");
    if !protocol.has_rules() {
        return unruled(spot, preset, protocol, found);
    }
    match (preset, rules) {
        (Some(_), Some(_)) => {
            spot.wrong(
                found,
                why("`access` and `rules` are both there").hint("keep one of them"),
            );
            Access::Unruled
        }
        (Some(preset), None) => Access::Preset(preset),
        (None, None) => {
            let hint = "add `access: read-only`, or rules";
            spot.wrong(
                found,
                why("nothing says which requests are allowed").hint(hint),
            );
            Access::Unruled
        }
        (None, Some(rules)) => {
            if rules.items().is_empty() {
                spot.wrong(
                    found,
                    why("`rules` is empty: nothing would be allowed")
                        .hint("add a rule, or remove the endpoint"),
                );
            }
            Access::Rules(requests(spot, "rules", protocol, found))
        }
    }
}

/// Without a protocol that is inspected, rules would be a promise that nobody keeps.
fn unruled(
    spot: Spot<'_>,
    preset: Option<Preset>,
    protocol: Protocol,
    found: &mut Findings,
) -> Access {
    let hint = "add `protocol: rest`";
    for key in ["rules", "deny_rules"] {
        spot.under(key, |spot| {
            if !spot.node.items().is_empty() {
                let message = format!("`{key}` need a protocol that is inspected");
                spot.wrong(found, why(message).hint(hint));
            }
        });
    }
    spot.under("access", |spot| match preset {
        Some(Preset::Full) => {
            spot.remark(
                found,
                "without a protocol that is inspected, `access: full` changes nothing",
            );
        }
        _ => spot.wrong(
            found,
            why("`access` needs a protocol that is inspected").hint(hint),
        ),
    });
    if protocol == Protocol::Tcp && truth(spot, "allow_encoded_slash") {
        spot.wrong(
            found,
            "`allow_encoded_slash` is about paths, and `tcp` has none",
        );
    }
    Access::Unruled
}

fn requests(
    spot: Spot<'_>,
    key: &str,
    protocol: Protocol,
    found: &mut Findings,
) -> Vec<RequestPattern> {
    let encoded_slash = truth(spot, "allow_encoded_slash");
    let mut patterns = Vec::new();
    spot.each(key, |spot| {
        let inner = spot.under("allow", |spot| {
            request(spot, protocol, encoded_slash, found)
        });
        patterns.extend(inner.unwrap_or_else(|| request(spot, protocol, encoded_slash, found)));
    });
    patterns.sort();
    patterns.dedup();
    patterns
}

fn request(
    spot: Spot<'_>,
    protocol: Protocol,
    encoded_slash: bool,
    found: &mut Findings,
) -> Option<RequestPattern> {
    if spot.node.entries().is_empty() {
        spot.wrong(
            found,
            why("the rule says nothing").hint("every request is `method: \"*\"`"),
        );
        return None;
    }
    let method = spot.under("method", |spot| {
        spot.text(found, |text| method(text, protocol))
    });
    let path = spot.under("path", |spot| {
        spot.text(found, |text| request_path(text, encoded_slash))
    });
    let query = spot.under("query", |spot| {
        let mut query = BTreeMap::new();
        for (key, node) in spot.node.entries() {
            let path = crate::shape::join(spot.path, &key.text);
            if key.text.chars().any(char::is_control) {
                found.wrong(
                    key.at,
                    &path,
                    "a parameter's name has no control characters",
                );
            }
            let patterns = parameter(Spot { node, path: &path }, found);
            query.insert(key.text.clone(), patterns);
        }
        query
    });
    // What could not be read must not become "any".
    if method == Some(None) || path == Some(None) {
        return None;
    }
    Some(RequestPattern {
        method: method.flatten().unwrap_or(Method::Any),
        path: path.flatten().flatten(),
        query: query.unwrap_or_default(),
    })
}

fn parameter(spot: Spot<'_>, found: &mut Findings) -> BTreeSet<Glob> {
    let mut patterns = BTreeSet::new();
    if spot.node.text().is_some() {
        patterns.extend(spot.text(found, Glob::dotted));
        return patterns;
    }
    spot.under("glob", |spot| {
        patterns.extend(spot.text(found, Glob::dotted))
    });
    spot.each("any", |spot| {
        patterns.extend(spot.text(found, Glob::dotted))
    });
    let (glob, any) = (spot.node.get("glob"), spot.node.get("any"));
    if glob.is_some() && any.is_some() {
        spot.wrong(
            found,
            why("`glob` and `any` are both there").hint("keep one of them"),
        );
    } else if glob.is_none() && any.is_none_or(|list| list.items().is_empty()) {
        spot.wrong(found, "there is no pattern");
    }
    patterns
}

fn method(text: &str, protocol: Protocol) -> Result<Method, Why> {
    let method = Method::parse(text)?;
    let Method::Named(name) = &method else {
        return Ok(method);
    };
    match protocol {
        Protocol::Websocket if !matches!(name.as_str(), "GET" | WEBSOCKET_TEXT) => {
            Err(why(format!("`{name}` is not of a WebSocket"))
                .hint("GET is its handshake, WEBSOCKET_TEXT a message of the client"))
        }
        Protocol::Rest if name == WEBSOCKET_TEXT => {
            Err(why(format!("`{name}` needs `protocol: websocket`")))
        }
        _ => Ok(method),
    }
}

/// A pattern of a path: nothing if it is every path. A pattern that no path in its one form can fit is a mistake.
fn request_path(text: &str, encoded_slash: bool) -> Result<Option<Glob>, Why> {
    if matches!(text, "**" | "/**") {
        return Ok(None);
    }
    if !text.starts_with('/') {
        return Err(why("a path begins with `/`").hint("every path is `/**`"));
    }
    if text.contains(['?', '#']) {
        return Err(why("a path has no query").hint("the key `query` is about parameters"));
    }
    let mut rest = text;
    while let Some((_, after)) = rest.split_once('%') {
        if !after.starts_with("2F") {
            return Err(why(
                "an escape in a path is written as the character that it means",
            ));
        }
        if !encoded_slash {
            return Err(why("`%2F` needs `allow_encoded_slash: true`"));
        }
        rest = after;
    }
    let segments: Vec<&str> = text.split('/').skip(1).collect();
    let inside = segments.split_last().map_or(&[][..], |(_, inside)| inside);
    if inside.contains(&"") || segments.iter().any(|s| matches!(*s, "." | "..")) {
        return Err(why("the path has a segment that is empty, `.` or `..`"));
    }
    Glob::path(text).map(Some)
}
