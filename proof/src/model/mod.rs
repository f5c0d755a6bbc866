//! The exhaustive model check: every interleaving of one sandbox in a small world, with the production machine.

use anyhow::Result;

/// What is to be explored.
#[derive(clap::Args)]
pub struct Args {
    /// Explore further than the default bound
    #[arg(long)]
    pub deep: bool,
}

/// Explores, and tells what was found.
pub fn run(_args: &Args) -> Result<()> {
    anyhow::bail!("there is nothing to explore yet")
}
