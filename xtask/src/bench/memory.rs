//! What the processes hold: the gateway alone and with twenty sandboxes, and both halves of a sandbox.

use std::time::Duration;

use anyhow::{Context as _, Result};
use openshell_e2e::gateway::Gateway;
use openshell_e2e::{command as run, host, wait};

use super::report::{Line, Report};
use super::samples::median;
use crate::say;

const SANDBOXES: u32 = 20;

pub(super) fn measure(gateway: &Gateway, report: &mut Report) -> Result<()> {
    say::step(&format!("memory, idle and with {SANDBOXES} sandboxes"));
    let pid = gateway.pid().context("the gateway does not run")?;
    let idle = settled(pid)?;
    let names: Vec<String> = (0..SANDBOXES)
        .map(|index| format!("held-{index}"))
        .collect();
    for name in &names {
        gateway.ok(&[
            "sandbox", "create", "--name", name, "--detach", "--", "sleep", "1000000",
        ])?;
    }
    let full = settled(pid)?;
    let mib = |kib: f64| kib / 1024.0;
    let grown = (full.resident_kib as f64 - idle.resident_kib as f64).max(0.0);
    report.add(Line::absolute(
        "gateway, idle: RSS",
        "MiB",
        mib(idle.resident_kib as f64),
        Some(25.0),
    ));
    report.add(Line::absolute(
        "gateway, idle: PSS",
        "MiB",
        mib(idle.proportional_kib as f64),
        None,
    ));
    report.add(Line::absolute(
        "gateway, 20 sandboxes: RSS",
        "MiB",
        mib(full.resident_kib as f64),
        None,
    ));
    report.add(Line::absolute(
        "gateway, for each sandbox",
        "MiB",
        mib(grown) / f64::from(SANDBOXES),
        Some(0.2),
    ));
    for (role, title, bound) in [
        ("supervisor", "supervisor", 10.0),
        ("sandbox", "sandbox runtime", 4.0),
    ] {
        let (resident, proportional) = halves(gateway, role)?;
        report.add(Line::absolute(
            &format!("{title}: RSS"),
            "MiB",
            mib(resident),
            Some(bound),
        ));
        report.add(Line::absolute(
            &format!("{title}: PSS"),
            "MiB",
            mib(proportional),
            None,
        ));
    }
    let mut delete = vec!["sandbox", "delete"];
    delete.extend(names.iter().map(String::as_str));
    gateway.ok(&delete)?;
    Ok(())
}

/// The medians over all containers of one role.
fn halves(gateway: &Gateway, role: &str) -> Result<(f64, f64)> {
    let mut list = gateway.docker();
    let role = format!("label=openshell.ai/isolation-role={role}");
    let namespace = format!(
        "label=openshell.ai/sandbox-namespace={}",
        gateway.settings().namespace
    );
    list.args(["ps", "-q", "--filter", &role, "--filter", &namespace]);
    let ids = run::ok(&mut list)?.text();
    let mut inspect = gateway.docker();
    inspect
        .args(["inspect", "--format", "{{.State.Pid}}"])
        .args(ids.lines());
    let pids = run::ok(&mut inspect)?.text();
    let mut resident = Vec::new();
    let mut proportional = Vec::new();
    for pid in pids.lines() {
        let memory = host::memory(pid.parse().context("a process id")?)?;
        resident.push(memory.resident_kib as f64);
        proportional.push(memory.proportional_kib as f64);
    }
    Ok((median(resident), median(proportional)))
}

/// Memory once it has stopped changing: the same within 64 KiB for a second.
fn settled(pid: u32) -> Result<host::Memory> {
    let mut last = host::memory(pid)?;
    wait::until("memory to settle", Duration::from_secs(20), || {
        wait::pause(Duration::from_secs(1));
        let now = host::memory(pid)?;
        let still = now.resident_kib.abs_diff(last.resident_kib) <= 64;
        last = now;
        Ok(still.then_some(now))
    })
}
