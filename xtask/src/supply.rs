//! What may be in the dependency tree: the bans and licences of deny.toml, held against Cargo.lock and
//! `cargo metadata` without another tool; cargo-deny, where it is installed, runs as well.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, Result, bail};
use openshell_e2e::command as run;
use openshell_e2e::host;

use crate::{build, licence};

pub(crate) fn check() -> Result<()> {
    let rules = Rules::read()?;
    let packages = packages()?;
    let mut wrong = Vec::new();
    let mut versions: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for package in &packages {
        versions
            .entry(&package.name)
            .or_default()
            .insert(&package.version);
        if rules.banned.contains(&package.name) {
            wrong.push(format!("{} is banned (deny.toml says why)", package.name));
        }
        if !licence::satisfied(&package.license, &rules.licenses) {
            wrong.push(format!(
                "{} {}: licence {:?} is not on the list",
                package.name, package.version, package.license
            ));
        }
    }
    for name in &rules.single {
        if let Some(several) = versions
            .get(name.as_str())
            .filter(|several| several.len() > 1)
        {
            wrong.push(format!(
                "{name} is there in {} versions: {several:?}",
                several.len()
            ));
        }
    }
    if !wrong.is_empty() {
        bail!("against deny.toml:\n  {}", wrong.join("\n  "));
    }
    if host::find_program("cargo-deny").is_some() {
        build::stream(build::cargo().args([
            "deny",
            "--offline",
            "check",
            "bans",
            "licenses",
            "sources",
        ]))?;
    }
    Ok(())
}

struct Package {
    name: String,
    version: String,
    license: String,
}

/// Everything that the lock file holds and some build of ours could use, ours excepted.
fn packages() -> Result<Vec<Package>> {
    let mut cargo = build::cargo();
    cargo.args(["metadata", "--format-version", "1", "--locked"]);
    let metadata = run::ok(&mut cargo)?.json()?;
    let packages = metadata["packages"]
        .as_array()
        .context("cargo metadata has no packages")?;
    let foreign = packages
        .iter()
        .filter(|package| !package["source"].is_null());
    let word = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    Ok(foreign
        .map(|package| Package {
            name: word(&package["name"]),
            version: word(&package["version"]),
            license: word(&package["license"]),
        })
        .collect())
}

struct Rules {
    banned: BTreeSet<String>,
    single: Vec<String>,
    licenses: BTreeSet<String>,
}

impl Rules {
    /// Reads what this check needs of deny.toml, which is written one item a line for that reason.
    fn read() -> Result<Self> {
        let path = build::root().join("deny.toml");
        let text = std::fs::read_to_string(&path).context("deny.toml is unreadable")?;
        let quoted = |line: &str| line.split('"').nth(1).map(str::to_owned);
        let banned = text.lines().filter(|line| line.contains("{ crate = "));
        let allowed = text
            .lines()
            .skip_while(|line| !line.starts_with("allow = ["));
        let allowed = allowed.skip(1).take_while(|line| !line.starts_with(']'));
        let single = text
            .lines()
            .filter_map(|line| line.strip_prefix("# single: "));
        let rules = Self {
            banned: banned.filter_map(quoted).collect(),
            single: single
                .flat_map(str::split_whitespace)
                .map(str::to_owned)
                .collect(),
            licenses: allowed.filter_map(quoted).collect(),
        };
        if rules.banned.is_empty() || rules.licenses.is_empty() || rules.single.is_empty() {
            bail!("deny.toml has no bans, licences or single versions where they are looked for");
        }
        Ok(rules)
    }
}
