//! The command line of the gateway.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::config::Flags;

/// Runs AI agents in policy-governed sandboxes on this machine's container engine.
#[derive(Debug, Parser)]
#[command(
    name = "openshell-gateway",
    version,
    after_help = "Without a command it serves until SIGTERM.\n\nEvery key of the configuration is in the commented \
                  gateway.toml; `config show` prints the values in effect.\nExit status: 0 ended as told, 1 could \
                  not serve, 2 wrong usage or configuration."
)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) options: Options,
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

/// What is done instead of serving.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// The configuration: check it, or print it.
    Config {
        #[command(subcommand)]
        command: ConfigCommand,
    },
    /// Make the certificates and keys, unless they are there.
    GenerateCerts(GenerateCerts),
    /// Print the version.
    Version,
}

/// `config …`
#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Say what is wrong with the configuration; changes nothing.
    Check {
        /// The file to check, instead of the one that would be used.
        #[arg(long, value_name = "FILE")]
        path: Option<PathBuf>,
    },
    /// Print the values in effect, and where each came from.
    Show {
        /// How.
        #[arg(long, short, value_enum, default_value_t = Output::Toml)]
        output: Output,
    },
}

/// Formats of `config show`.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Output {
    /// A file that could be used as it is, with origins as comments.
    Toml,
    /// One object; each key with value and source.
    Json,
}

/// `generate-certs`
#[derive(Debug, Args)]
pub(crate) struct GenerateCerts {
    /// Where; by default where the gateway looks for them.
    #[arg(long, value_name = "DIR")]
    pub(crate) output_dir: Option<PathBuf>,
}

/// What can be said on the command line; the rest is in the file.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Configuration file.
    #[arg(
        long,
        global = true,
        value_name = "FILE",
        env = "OPENSHELL_GATEWAY_CONFIG",
        hide_env_values = true
    )]
    pub(crate) config: Option<PathBuf>,
    /// What clients call this gateway [env: OPENSHELL_GATEWAY_NAME].
    #[arg(long, global = true)]
    name: Option<String>,
    /// Where the API is served [default: 127.0.0.1:17670].
    #[arg(long, global = true, value_name = "IP:PORT")]
    bind_address: Option<String>,
    /// A listener of its own for /healthz and /readyz.
    #[arg(long, global = true, value_name = "IP:PORT")]
    health_bind_address: Option<String>,
    /// A listener of its own for /metrics.
    #[arg(long, global = true, value_name = "IP:PORT")]
    metrics_bind_address: Option<String>,
    /// error, warn, info, debug or trace.
    #[arg(long, global = true, value_name = "LEVEL")]
    log_level: Option<String>,
    /// auto, text or json.
    #[arg(long, global = true, value_name = "FORMAT")]
    log_format: Option<String>,
    /// docker or podman; by default what is found.
    #[arg(long, global = true, value_name = "ENGINE")]
    compute_driver: Option<String>,
    /// The store, certificates and keys [default: $XDG_STATE_HOME/openshell/gateway].
    #[arg(long, global = true, value_name = "DIR")]
    state_dir: Option<String>,
    /// Where openshell-sandbox and openshell-supervisor are.
    #[arg(long, global = true, value_name = "DIR")]
    runtime_dir: Option<String>,
    /// A further name or address in the server's certificate; may be repeated.
    #[arg(long, global = true, value_name = "NAME")]
    server_san: Vec<String>,
    /// Plaintext, on a loopback address only.
    #[arg(long, global = true)]
    disable_tls: bool,
    /// Do not write this gateway into the local CLI's list.
    #[arg(long, global = true)]
    no_register: bool,
}

impl Options {
    /// The flags that were given, by key.
    pub(crate) fn flags(&self) -> Flags {
        let texts = [
            ("gateway.name", &self.name, "--name"),
            ("gateway.bind_address", &self.bind_address, "--bind-address"),
            (
                "gateway.health_bind_address",
                &self.health_bind_address,
                "--health-bind-address",
            ),
            (
                "gateway.metrics_bind_address",
                &self.metrics_bind_address,
                "--metrics-bind-address",
            ),
            ("gateway.log_level", &self.log_level, "--log-level"),
            ("gateway.log_format", &self.log_format, "--log-format"),
            (
                "gateway.compute_driver",
                &self.compute_driver,
                "--compute-driver",
            ),
            ("gateway.state_dir", &self.state_dir, "--state-dir"),
            ("gateway.runtime_dir", &self.runtime_dir, "--runtime-dir"),
        ];
        let mut flags: Flags = texts
            .into_iter()
            .filter_map(|(key, text, flag)| Some((key, text.clone()?, flag)))
            .collect();
        if !self.server_san.is_empty() {
            flags.push((
                "gateway.server_sans",
                self.server_san.join(","),
                "--server-san",
            ));
        }
        if self.disable_tls {
            flags.push(("gateway.disable_tls", "true".to_owned(), "--disable-tls"));
        }
        if self.no_register {
            flags.push(("gateway.register", "false".to_owned(), "--no-register"));
        }
        flags
    }
}
