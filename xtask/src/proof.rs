//! `cargo xtask model`: what can be shown of the life of a sandbox without an engine, by the program that shows it.

use std::process::Command;

use anyhow::{Result, bail};

use crate::build;
use crate::tally::{self, Tally};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// For the check itself; `-- --help` lists them
    #[arg(last = true)]
    arguments: Vec<String>,
    /// Explore further than the default bound
    #[arg(long)]
    deep: bool,
}

pub(crate) fn model(args: &Args) -> Result<()> {
    let mut cargo = check("model");
    cargo.args(args.deep.then_some("--deep"));
    cargo.args(&args.arguments);
    if !cargo.status()?.success() {
        bail!("the model check does not hold");
    }
    Ok(())
}

/// Runs everything, and counts.
pub(crate) fn all() -> Result<Tally> {
    tally::count(&mut check("model"))
}

fn check(name: &str) -> Command {
    let mut cargo = build::cargo();
    cargo.args(["run", "--quiet", "--locked", "--profile", "proof"]);
    cargo.args(["-p", "openshell-proof", "--", name]);
    cargo
}
