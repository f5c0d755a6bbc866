//! Service managers: what `config/` gives them is sound, and leaves what runs alone.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, bail};
use openshell_e2e::command as run;

use crate::build;

/// Whose manager reads a unit.
#[derive(Clone, Copy)]
enum Manager {
    System,
    User,
}

const UNITS: &[(&str, Manager)] = &[
    ("openshell-gateway-system.service", Manager::System),
    ("openshell-gateway.service", Manager::User),
];
/// How long a gateway with the default bounds may take to end, in seconds: with `on_shutdown = "stop"` the grace of a stop
/// and 5 s.
const SHUTDOWN_LIMIT: u64 = 15;

pub(crate) fn check() -> Result<()> {
    for (name, manager) in UNITS {
        let path = build::root().join("config/systemd").join(name);
        let unit = std::fs::read_to_string(&path)
            .with_context(|| format!("{} is unreadable", path.display()))?;
        promises(&unit).with_context(|| (*name).to_owned())?;
        verify(name, &unit, *manager)?;
    }
    Ok(())
}

fn settings(unit: &str) -> BTreeMap<&str, &str> {
    let lines = unit.lines().filter(|line| !line.starts_with(['#', '[']));
    lines.filter_map(|line| line.split_once('=')).collect()
}

/// What a gateway that may be restarted at any time needs of its manager.
fn promises(unit: &str) -> Result<()> {
    let settings = settings(unit);
    let wanted = [
        // Ready is what it says, not that it was started.
        ("Type", "notify"),
        // TERM for the gateway alone; nothing of a sandbox is in its control group.
        ("KillMode", "mixed"),
        ("Restart", "on-failure"),
        ("RestartPreventExitStatus", "2"),
    ];
    for (key, value) in wanted {
        let found = settings.get(key).copied().unwrap_or_default();
        if found != value {
            bail!("{key} is {found:?} and should be {value:?}");
        }
    }
    let stop = settings.get("TimeoutStopSec").copied().unwrap_or_default();
    let stop = stop.strip_suffix('s').unwrap_or(stop).parse::<u64>();
    if stop.is_ok_and(|seconds| seconds > SHUTDOWN_LIMIT) {
        return Ok(());
    }
    bail!("TimeoutStopSec must be above the gateway's own {SHUTDOWN_LIMIT} s");
}

/// systemd's own judgement, which is in what it says rather than in its exit code.
fn verify(name: &str, unit: &str, manager: Manager) -> Result<()> {
    let directory = tempfile::tempdir().context("no temporary directory")?;
    let file = directory.path().join(name);
    // It wants the program to be there.
    let lines = unit
        .lines()
        .map(|line| match line.strip_prefix("ExecStart=") {
            Some(command) => {
                let arguments = command.split_once(' ').map_or("", |(_, rest)| rest);
                format!("ExecStart=/bin/true {arguments}")
            }
            None => line.to_owned(),
        });
    std::fs::write(&file, lines.collect::<Vec<_>>().join("\n"))?;
    let said = analyze(&file, directory.path(), manager)?;
    if said.is_empty() {
        return Ok(());
    }
    bail!("systemd says of {name}:\n{said}")
}

fn analyze(file: &Path, runtime: &Path, manager: Manager) -> Result<String> {
    let mut analyze = Command::new("systemd-analyze");
    if matches!(manager, Manager::User) {
        analyze.arg("--user").env("XDG_RUNTIME_DIR", runtime);
    }
    analyze.args(["verify", "--man=no"]).arg(file);
    let outcome = run::run(&mut analyze).context("systemd-analyze could not be run")?;
    let said = format!("{}{}", outcome.text(), outcome.errors());
    if said.is_empty() && outcome.code != 0 {
        bail!("systemd-analyze ended with {}", outcome.code);
    }
    Ok(said)
}

#[cfg(test)]
mod tests;
