//! Which crate may depend on which: the arrows of docs/architecture.md, held against `cargo metadata`.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, bail};
use openshell_e2e::command as run;
use serde_json::Value;

use crate::build;

/// Every crate, and what it may use of ours. What is not listed here does not exist.
const ALLOWED: &[(&str, &[&str])] = &[
    ("core", &[]),
    ("policy", &["core"]),
    ("store", &["core"]),
    ("proto", &["core"]),
    ("policy-wire", &["policy", "proto"]),
    ("lifecycle", &["core", "policy", "store", "proto"]),
    ("container", &["core", "lifecycle"]),
    ("driver-docker", &["core", "lifecycle", "container"]),
    ("driver-podman", &["core", "lifecycle", "container"]),
    (
        "api",
        &[
            "core",
            "policy",
            "policy-wire",
            "store",
            "proto",
            "lifecycle",
        ],
    ),
    (
        "gateway",
        &[
            "core",
            "policy",
            "policy-wire",
            "store",
            "proto",
            "lifecycle",
            "container",
            "driver-docker",
            "driver-podman",
            "api",
        ],
    ),
    ("supervisor", &["core", "policy", "policy-wire", "proto"]),
    ("sandbox", &["core", "policy", "proto"]),
    ("cli", &["core", "policy", "policy-wire", "proto"]),
    ("e2e", &[]),
    ("proof", &["core", "store", "lifecycle"]),
    ("xtask", &["e2e"]),
];

pub(crate) fn check() -> Result<()> {
    let edges = edges()?;
    let allowed: BTreeMap<&str, &[&str]> = ALLOWED.iter().copied().collect();
    let mut wrong = Vec::new();
    for (from, uses) in &edges {
        let Some(allowed) = allowed.get(from.as_str()) else {
            wrong.push(format!(
                "crate {from} is not in the table of xtask/src/arrows.rs"
            ));
            continue;
        };
        let against = uses.iter().filter(|to| !allowed.contains(&to.as_str()));
        wrong.extend(against.map(|to| format!("{from} must not depend on {to}")));
    }
    if !wrong.is_empty() {
        bail!("dependencies against the arrows:\n  {}", wrong.join("\n  "));
    }
    Ok(())
}

/// Our crates and those of ours that each uses in production: tests may reach further.
fn edges() -> Result<BTreeMap<String, Vec<String>>> {
    let mut cargo = build::cargo();
    cargo.args(["metadata", "--format-version", "1", "--no-deps", "--locked"]);
    let metadata = run::ok(&mut cargo)?.json()?;
    let packages = metadata["packages"]
        .as_array()
        .context("cargo metadata has no packages")?;
    let ours = |name: &str| name.strip_prefix("openshell-").unwrap_or(name).to_owned();
    let names: Vec<&str> = packages.iter().filter_map(|p| p["name"].as_str()).collect();
    let mut edges = BTreeMap::new();
    for package in packages {
        let name = package["name"]
            .as_str()
            .context("a package without a name")?;
        let uses = package["dependencies"]
            .as_array()
            .context("no dependencies")?;
        let uses = uses
            .iter()
            .filter(|dependency| dependency["kind"] == Value::Null)
            .filter_map(|dependency| dependency["name"].as_str())
            .filter(|dependency| names.contains(dependency))
            .map(ours)
            .collect();
        edges.insert(ours(name), uses);
    }
    Ok(edges)
}
