//! `completions` and `man`: what a shell and a manual need, made from the command tree.

use std::io::{self, Write};
use std::path::PathBuf;

use clap::{Args, CommandFactory, ValueEnum};
use clap_complete::env::Shells;

use crate::cli::Cli;
use crate::error::{CliError, CliResult};
use crate::exit::Exit;
use crate::output::{out_raw, say};

/// The shells that we know.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Shell {
    Bash,
    Zsh,
    Fish,
    Powershell,
}

/// `openshell completions`
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    source <(openshell completions bash)                 # ~/.bashrc\n  \
    source <(openshell completions zsh)                  # ~/.zshrc\n  \
    openshell completions fish | source                  # config.fish\n  \
    openshell completions powershell | Out-String | Invoke-Expression")]
pub(crate) struct CompletionsArgs {
    /// For which shell
    #[arg(value_enum)]
    shell: Shell,
}

impl CompletionsArgs {
    /// Prints a script that asks this program for candidates, sandbox names included.
    pub(crate) fn run(self) -> CliResult<Exit> {
        let name = match self.shell {
            Shell::Bash => "bash",
            Shell::Zsh => "zsh",
            Shell::Fish => "fish",
            Shell::Powershell => "powershell",
        };
        let mut script = Vec::new();
        let failed =
            |e: io::Error| CliError::local("the script could not be made").why(e.to_string());
        let shells = Shells::builtins();
        let shell = shells
            .completer(name)
            .ok_or_else(|| CliError::local(format!("{name} is not known")))?;
        shell
            .write_registration(
                "COMPLETE",
                "openshell",
                "openshell",
                "openshell",
                &mut script,
            )
            .map_err(failed)?;
        out_raw(&script);
        Ok(Exit::Done)
    }
}

/// `openshell man`
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  openshell man --dir target/man")]
pub(crate) struct ManArgs {
    /// Where to write; the pages go to stdout as one if it is not given
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

impl ManArgs {
    /// Writes one page for each command.
    pub(crate) fn run(self) -> CliResult<Exit> {
        let failed =
            |e: io::Error| CliError::local("the man pages could not be written").why(e.to_string());
        match self.dir {
            Some(dir) => {
                std::fs::create_dir_all(&dir).map_err(failed)?;
                clap_mangen::generate_to(Cli::command(), &dir).map_err(failed)?;
                say(format_args!("man pages written to {}", dir.display()));
            }
            None => {
                let mut page = Vec::new();
                clap_mangen::Man::new(Cli::command())
                    .render(&mut page)
                    .map_err(failed)?;
                io::stdout().write_all(&page).map_err(failed)?;
            }
        }
        Ok(Exit::Done)
    }
}
