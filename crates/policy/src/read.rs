//! From a document to a policy: every rule that a policy must keep.

mod agree;
mod endpoint;
mod files;

use std::collections::{BTreeMap, BTreeSet};

use crate::fields::{Kind, POLICY};
use crate::glob::Glob;
use crate::model::{Compatibility, Identity, Policy, Process, Rule};
use crate::node::{self, Node, Value};
use crate::problem::{Findings, Place, Problem, Problems, Why, why};
use crate::shape;

/// A policy that holds, and what may not have been meant.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Checked {
    /// The policy.
    pub policy: Policy,
    /// Remarks: valid, but worth a second look.
    pub remarks: Vec<Problem>,
}

impl Policy {
    /// Reads a policy file.
    pub fn parse(yaml: &str) -> Result<Checked, Problems> {
        check(&node::parse(yaml)?)
    }

    /// Reads a policy that has the shape of a file, from wherever it came.
    pub fn from_value(value: serde_json::Value) -> Result<Checked, Problems> {
        check(&Node::from(value))
    }
}

fn check(root: &Node) -> Result<Checked, Problems> {
    let mut found = Findings::default();
    if matches!(root.value, Value::Null) {
        let hint = "an empty policy is `version: 1`";
        found.wrong(root.at, "", why("the file is empty").hint(hint));
    } else {
        shape::check(root, &Kind::Object(&POLICY), "", &mut found);
    }
    if !found.clean() {
        return Err(Problems(found.end().err().map(|p| p.0).unwrap_or_default()));
    }
    let policy = policy(root, &mut found);
    let remarks = found.end()?;
    Ok(Checked { policy, remarks })
}

/// Where a value stands, for messages about it.
#[derive(Clone, Copy)]
struct Spot<'a> {
    node: &'a Node,
    path: &'a str,
}

impl<'a> Spot<'a> {
    fn wrong(self, found: &mut Findings, why: impl Into<Why>) {
        found.wrong(self.node.at, self.path, why);
    }

    fn remark(self, found: &mut Findings, why: impl Into<Why>) {
        found.remark(self.node.at, self.path, why);
    }

    /// What is under a key, if it is there.
    fn under<T>(self, key: &str, then: impl FnOnce(Spot<'_>) -> T) -> Option<T> {
        let node = self.node.get(key)?;
        let path = shape::join(self.path, key);
        Some(then(Spot { node, path: &path }))
    }

    /// Each item of the list under a key.
    fn each(self, key: &str, mut then: impl FnMut(Spot<'_>)) {
        let items = self.node.get(key).map(Node::items).unwrap_or_default();
        let list = shape::join(self.path, key);
        for (index, node) in items.iter().enumerate() {
            let path = format!("{list}[{index}]");
            then(Spot { node, path: &path });
        }
    }

    fn at(self) -> Option<Place> {
        self.node.at
    }

    /// Text that was read, or a problem.
    fn text<T>(self, found: &mut Findings, read: impl FnOnce(&str) -> Result<T, Why>) -> Option<T> {
        match read(self.node.text()?) {
            Ok(value) => Some(value),
            Err(why) => {
                self.wrong(found, why);
                None
            }
        }
    }
}

fn policy(root: &Node, found: &mut Findings) -> Policy {
    let root = Spot {
        node: root,
        path: "",
    };
    let hard = |spot: Spot<'_>| {
        let word = spot.node.get("compatibility").and_then(Node::text);
        match word {
            Some("hard_requirement") => Compatibility::HardRequirement,
            _ => Compatibility::BestEffort,
        }
    };
    let filesystem = root.under("filesystem_policy", |spot| files::read(spot, found));
    let process = root.under("process", |spot| Process {
        user: identity(spot, "run_as_user", found),
        group: identity(spot, "run_as_group", found),
    });
    let rules = root.under("network_policies", |spot| rules(spot, found));
    Policy {
        filesystem,
        landlock: root.under("landlock", hard).unwrap_or_default(),
        process: process.unwrap_or_default(),
        rules: rules.unwrap_or_default(),
    }
}

fn identity(spot: Spot<'_>, key: &str, found: &mut Findings) -> Option<Identity> {
    spot.under(key, |spot| match (spot.node.text(), spot.node.integer()) {
        (Some("sandbox"), _) => Some(Identity::Sandbox),
        (Some(text), _) => {
            let digits = text.bytes().all(|b| b.is_ascii_digit());
            let number = text.parse::<u32>().ok();
            let number = number.filter(|id| digits && !matches!(*id, 0 | u32::MAX));
            if number.is_none() {
                let message = format!("`{}` is not somebody to run as", shape::short(text));
                let hint = "write `sandbox`, or a number from 1 to 4294967294";
                spot.wrong(found, why(message).hint(hint));
            }
            number.map(Identity::Id)
        }
        (None, number) => number
            .and_then(|id| u32::try_from(id).ok())
            .map(Identity::Id),
    })
    .flatten()
}

fn rules(spot: Spot<'_>, found: &mut Findings) -> BTreeMap<String, Rule> {
    let mut rules = BTreeMap::new();
    let mut agreement = agree::Agreement::default();
    for (key, node) in spot.node.entries() {
        let path = shape::join(spot.path, &key.text);
        if let Some(why) = unfit_key(&key.text) {
            found.wrong(key.at, &path, why);
        }
        let rule = rule(&key.text, Spot { node, path: &path }, &mut agreement, found);
        rules.insert(key.text.clone(), rule);
    }
    rules
}

/// Longer than any name of a rule needs to be.
const LONGEST_NAME: usize = 253;

fn unfit_key(key: &str) -> Option<Why> {
    if key.starts_with("_provider_") {
        return Some(why(
            "a key that begins with `_provider_` belongs to the gateway",
        ));
    }
    unfit_name(key)
}

fn unfit_name(name: &str) -> Option<Why> {
    if name.trim().is_empty() {
        return Some(why("a rule needs a name"));
    }
    if name.len() > LONGEST_NAME {
        return Some(why(format!("a name has at most {LONGEST_NAME} bytes")));
    }
    let odd = name.chars().any(char::is_control);
    odd.then(|| why("a name has no control characters"))
}

fn rule(key: &str, spot: Spot<'_>, agreement: &mut agree::Agreement, found: &mut Findings) -> Rule {
    let name = spot.under("name", |spot| {
        let name = spot.node.text().unwrap_or_default();
        if let Some(why) = unfit_name(name) {
            spot.wrong(found, why);
        }
        name.to_owned()
    });
    let mut endpoints = Vec::new();
    spot.each("endpoints", |spot| {
        if let Some(endpoint) = endpoint::read(spot, found) {
            agreement.check(&endpoint, spot, found);
            endpoints.push(endpoint);
        }
    });
    endpoints.sort();
    endpoints.dedup();
    let mut binaries = BTreeSet::new();
    spot.each("binaries", |spot| {
        let inner = spot.under("path", |spot| binary(spot, found));
        binaries.extend(inner.unwrap_or_else(|| binary(spot, found)));
    });
    if spot
        .node
        .get("endpoints")
        .is_none_or(|list| list.items().is_empty())
    {
        spot.remark(found, "there are no endpoints: this rule allows nothing");
    } else if spot
        .node
        .get("binaries")
        .is_none_or(|list| list.items().is_empty())
    {
        let message = "there are no binaries: this rule matches no program";
        spot.remark(
            found,
            why(message).hint("name programs, or `/**` for all of them"),
        );
    }
    Rule {
        name: name.unwrap_or_else(|| key.to_owned()),
        endpoints,
        binaries,
    }
}

fn binary(spot: Spot<'_>, found: &mut Findings) -> Option<Glob> {
    spot.text(found, |text| {
        if !text.starts_with('/') {
            return Err(why("a program is named by its absolute path")
                .hint("`command -v NAME` in the sandbox says it"));
        }
        let glob = Glob::path(text)?;
        let odd = text
            .split('/')
            .skip(1)
            .any(|s| matches!(s, "" | "." | ".."));
        if odd {
            return Err(why("the path has a segment that is empty, `.` or `..`"));
        }
        Ok(glob)
    })
}

#[cfg(test)]
mod tests;
