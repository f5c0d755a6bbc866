//! Calls alone, without the start of a process: through the published client, in one connection.

use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result};
use openshell_e2e::command as run;
use openshell_e2e::gateway::Gateway;

use super::report::{Line, Report};
use super::samples::median;
use crate::{build, say, sdk};

/// `ExecSandbox` of `true`, without a login shell and with one.
pub(super) fn exec(gateway: &Gateway, runs: u32, report: &mut Report) -> Result<()> {
    say::step("calls alone, through the published client");
    gateway.ok(&[
        "sandbox", "create", "--name", "called", "--detach", "--", "sleep", "1000000",
    ])?;
    let times = ask(gateway, &["exec", "called", &(runs * 4).to_string()])?;
    report.add(Line::absolute(
        "exec RPC alone (Python client)",
        "ms",
        median(times),
        None,
    ));
    gateway.ok(&["sandbox", "delete", "called"])?;
    Ok(())
}

/// `ListSandboxes`, one page of a thousand.
pub(super) fn list(gateway: &Gateway, runs: u32, report: &mut Report) -> Result<()> {
    let times = ask(gateway, &["list", &runs.to_string()])?;
    report.add(Line::absolute(
        "list of 1,000 records, RPC (Python client)",
        "ms",
        median(times),
        None,
    ));
    Ok(())
}

/// Makes this many records.
pub(super) fn fill(gateway: &Gateway, records: u32) -> Result<()> {
    ask(gateway, &["fill", &records.to_string()])?;
    Ok(())
}

/// Runs one of the measurements of e2e/sdk/calls.py; it prints milliseconds as a JSON list.
fn ask(gateway: &Gateway, words: &[&str]) -> Result<Vec<f64>> {
    let mut python = Command::new(sdk::environment()?);
    python
        .arg("-B")
        .arg(build::root().join("e2e/sdk/calls.py"))
        .args(words);
    python.env("XDG_CONFIG_HOME", &gateway.settings().config_home);
    python.env("OPENSHELL_GATEWAY", &gateway.settings().name);
    let outcome = run::run_with(&mut python, &[], Duration::from_secs(300))?.success()?;
    let times = outcome.json()?;
    let times = times.as_array().context("no list of times")?;
    Ok(times.iter().filter_map(serde_json::Value::as_f64).collect())
}
