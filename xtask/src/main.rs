//! Developer tasks, one file each.

mod arrows;
mod bench;
mod build;
mod check;
mod demo;
mod licence;
mod packages;
mod proof;
mod say;
mod sdk;
mod sim;
mod soak;
mod style;
mod supply;
mod tally;
mod test;
mod units;
mod with_engine;

use std::process::ExitCode;

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
    /// From nothing to a governed sandbox that runs
    Demo(demo::Args),
    /// Measure beside the engine's own commands, in one run
    Bench(bench::Args),
    /// Format, lints, arrows, house rules, supply chain: what needs no engine
    Check(check::Args),
    /// Every interleaving of one sandbox in a small world, with the production machine
    Model(proof::Args),
    /// Everything that .ci/run runs, on a private engine
    Test(test::Args),
    /// The whole fence in a troubled world, one seed after another
    Sim(sim::Args),
    /// Random faults against ten sandboxes: each ends as its user asked, and nothing leaks
    Soak(soak::Args),
    /// Run a command beside a private engine, which is gone afterwards
    WithEngine(with_engine::Args),
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().task {
        Task::Build(args) => build::run(&args),
        Task::Demo(args) => demo::run(&args),
        Task::Bench(args) => bench::run(&args),
        Task::Check(args) => check::run(&args),
        Task::Model(args) => proof::model(&args),
        Task::Test(args) => test::run(&args),
        Task::Sim(args) => sim::run(&args),
        Task::Soak(args) => soak::run(&args),
        Task::WithEngine(args) => with_engine::run(&args),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say::error(&error);
            ExitCode::FAILURE
        }
    }
}
