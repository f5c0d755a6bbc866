//! Developer tasks, one file each.

mod build;
mod say;

use anyhow::Result;
use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Developer tasks of OpenShell", version)]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Build the binaries into target/dist
    Build(build::Args),
}

fn main() -> Result<()> {
    match Cli::parse().task {
        Task::Build(args) => build::run(&args),
    }
}
