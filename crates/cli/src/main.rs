//! `openshell`: the openshell command line.

use clap::{CommandFactory, Parser};
use clap_complete::CompleteEnv;

mod archive;
mod certs;
mod cli;
mod clock;
mod cmd;
mod complete;
mod connect;
mod error;
mod exit;
mod global;
mod output;
mod process;
mod progress;
mod registry;
mod term;
mod view;
mod wait;

use cli::Cli;
use error::{CliError, CliResult};
use exit::Exit;

fn main() {
    // Answers and ends here when a shell asks for completions; does nothing otherwise.
    CompleteEnv::with_factory(Cli::command).complete();
    let cli = Cli::parse();
    cli.global.apply_color();
    let exit = match run(cli) {
        Ok(exit) => exit,
        Err(error) => {
            if !error.quiet {
                output::say(&error);
            }
            error.exit
        }
    };
    // Not a return: a thread may sit in a read of stdin that nothing can end.
    std::process::exit(i32::from(exit.code()));
}

fn run(cli: Cli) -> CliResult<Exit> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|e| CliError::local("this program could not start").why(e.to_string()))?;
    let result = runtime.block_on(Box::pin(cli.run()));
    runtime.shutdown_background();
    result
}
