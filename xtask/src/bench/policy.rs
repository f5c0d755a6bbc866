//! What one decision costs with 500 endpoints: no engine, a release build of the library alone.

use anyhow::{Context as _, Result};
use openshell_e2e::command as run;

use super::report::{Line, Report};
use crate::{build, say};

/// Of one decision, in microseconds.
const BOUND: f64 = 2.0;

pub(super) fn measure(report: &mut Report) -> Result<()> {
    say::step("decisions with 500 endpoints");
    let mut cargo = build::cargo();
    cargo.args([
        "run",
        "--locked",
        "--quiet",
        "--release",
        "-p",
        "openshell-policy",
        "--example",
        "decide",
    ]);
    for line in run::ok(&mut cargo)?.text().lines() {
        let (name, nanoseconds) = line.split_once(' ').context("a line without a figure")?;
        let microseconds = nanoseconds.parse::<f64>()? / 1000.0;
        let name = format!("decision, 500 endpoints: {}", name.replace('-', ", "));
        report.add(Line::absolute(&name, "\u{b5}s", microseconds, Some(BOUND)));
    }
    Ok(())
}
