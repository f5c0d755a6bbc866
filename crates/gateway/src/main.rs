//! `openshell-gateway`: the gateway: configuration, composition, signals.

mod choice;
mod cli;
mod compose;
mod config;
mod daemon;
mod error;
mod issuer;
mod listen;
mod logging;
mod notify;
mod pki;
mod places;
mod signals;

use std::io::{self, Write as _};
use std::path::Path;
use std::process::ExitCode;

use clap::Parser as _;
use openshell_lifecycle::ports::{Environment as _, SystemEnvironment};

use crate::cli::{Cli, Command, ConfigCommand, GenerateCerts, Options, Output};
use crate::config::{Loaded, as_json, as_toml};
use crate::error::GatewayError;

fn main() -> ExitCode {
    match run(Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // There may be nobody to read it, and nothing to do about that.
            let _ = writeln!(io::stderr(), "openshell-gateway: {error}");
            ExitCode::from(error.status())
        }
    }
}

fn run(cli: Cli) -> Result<(), GatewayError> {
    let options = cli.options;
    match cli.command {
        None => daemon::run(&load(&options, None)?),
        Some(Command::Version) => say(&format!("openshell-gateway {}", env!("CARGO_PKG_VERSION"))),
        Some(Command::Config { command }) => match command {
            ConfigCommand::Check { path } => check(&load(&options, path.as_deref())?),
            ConfigCommand::Show { output } => {
                let loaded = load(&options, None)?;
                match output {
                    Output::Toml => say(as_toml(&loaded).trim_end()),
                    Output::Json => say(&format!("{:#}", as_json(&loaded))),
                }
            }
        },
        Some(Command::GenerateCerts(arguments)) => generate(&load(&options, None)?, &arguments),
    }
}

fn load(options: &Options, path: Option<&Path>) -> Result<Loaded, GatewayError> {
    let file = path.or(options.config.as_deref());
    let loaded = config::load(
        file,
        &places::config_files(),
        |name| std::env::var_os(name).filter(|value| !value.is_empty()),
        &options.flags(),
    )?;
    Ok(loaded)
}

fn check(loaded: &Loaded) -> Result<(), GatewayError> {
    match &loaded.file {
        Some(path) => say(&format!("{}: ok", path.display())),
        None => say("ok; there is no configuration file, the defaults are in effect"),
    }
}

fn generate(loaded: &Loaded, arguments: &GenerateCerts) -> Result<(), GatewayError> {
    let gateway = &loaded.config.gateway;
    let dir = match &arguments.output_dir {
        Some(dir) => dir.clone(),
        None => places::state(gateway.state_dir.as_deref())?.join("tls"),
    };
    let now = SystemEnvironment.now();
    let made = pki::ensure(&dir, &gateway.server_sans, &daemon::client_name(), now)?;
    pki::load_own(&dir, now)?;
    pki::signer(&dir)?;
    say(&match made {
        pki::Made::New => format!("made certificates and keys in {}", dir.display()),
        pki::Made::Already => format!(
            "{} holds a complete set; nothing was changed",
            dir.display()
        ),
    })
}

fn say(text: &str) -> Result<(), GatewayError> {
    match writeln!(io::stdout(), "{text}") {
        // A reader that has seen enough, such as `head`.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other.map_err(GatewayError::Output),
    }
}
