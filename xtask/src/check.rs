//! `cargo xtask check`: what needs no engine and no test run: format, lints, arrows, house rules, supply chain.

use anyhow::Result;

use crate::{arrows, build, say, style, supply, units};

/// A check by name.
type Check = (&'static str, fn() -> Result<()>);

/// From the quick to the slow.
const CHECKS: &[Check] = &[
    ("house rules", style::check),
    ("arrows between the crates", arrows::check),
    ("service units", units::check),
    ("format", format),
    ("supply chain", supply::check),
    ("lints", lints),
];

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only the checks whose name contains this
    only: Option<String>,
}

/// Runs every check, also after one has failed, and returns how many held and how many did not.
pub(crate) fn all() -> (u64, u64) {
    those_named("")
}

fn those_named(part: &str) -> (u64, u64) {
    let (mut held, mut failed) = (0, 0);
    for (name, check) in CHECKS.iter().filter(|(name, _)| name.contains(part)) {
        say::step(&format!("check: {name}"));
        match check() {
            Ok(()) => {
                say::line("   holds");
                held += 1;
            }
            Err(error) => {
                say::line(&format!("   FAILED: {error:#}"));
                failed += 1;
            }
        }
    }
    (held, failed)
}

/// The task: as [`all`], with an exit status.
pub(crate) fn run(args: &Args) -> Result<()> {
    match those_named(args.only.as_deref().unwrap_or_default()) {
        (0, 0) => anyhow::bail!("there is no such check"),
        (held, 0) => {
            say::line(&format!("\nall {held} checks hold"));
            Ok(())
        }
        (_, failed) => anyhow::bail!("{failed} checks failed"),
    }
}

fn format() -> Result<()> {
    build::stream(build::cargo().args(["fmt", "--all", "--check"]))
}

fn lints() -> Result<()> {
    let mut cargo = build::cargo();
    cargo.args([
        "clippy",
        "--locked",
        "--workspace",
        "--all-targets",
        "--",
        "-D",
        "warnings",
    ]);
    build::stream(&mut cargo)
}
