//! `cargo xtask sim`: the whole fence in a troubled world, one seed after another, by the program that simulates it.

use std::process::Command;

use anyhow::{Result, bail};

use crate::build;
use crate::tally::{self, Tally};

/// As many seeds as CI runs, and as each planted fault must be found in.
const SEEDS: &str = "20000";

#[derive(clap::Args)]
pub(crate) struct Args {
    /// --seeds N from --from N on; --seed N tells one; --plant NAME (or all) plants a fault; --threads N
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<String>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    if !simulation(&args.arguments).status()?.success() {
        bail!("the simulation has found something");
    }
    Ok(())
}

/// No violation in so many seeds, and every planted fault found in them.
pub(crate) fn all() -> Result<Tally> {
    let mut all = tally::count(&mut simulation(&["--seeds", SEEDS]))?;
    all.add(tally::count(&mut simulation(&[
        "--seeds", SEEDS, "--plant", "all",
    ]))?);
    Ok(all)
}

fn simulation<A: AsRef<std::ffi::OsStr>>(arguments: &[A]) -> Command {
    let mut cargo = build::cargo();
    cargo.args(["run", "--quiet", "--locked", "--profile", "proof"]);
    cargo.args(["-p", "openshell-proof", "--", "sim"]);
    cargo.args(arguments);
    cargo
}
