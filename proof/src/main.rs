//! `openshell-proof`: the checks as a program, for `cargo xtask model`.

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use openshell_proof::{model, say, sim};

#[derive(Parser)]
#[command(about = "How we know that the life of a sandbox stays right", version)]
struct Cli {
    #[command(subcommand)]
    check: Check,
}

#[derive(Subcommand)]
enum Check {
    /// Every interleaving of one sandbox in a small world
    Model(model::Args),
    /// The whole fence in a troubled world, one seed after another
    Sim(sim::Args),
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().check {
        Check::Model(args) => model::run(&args),
        Check::Sim(args) => sim::simulate(&args),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say::error(&error);
            ExitCode::FAILURE
        }
    }
}
