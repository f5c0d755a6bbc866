//! Flags that every command takes.

use clap::{Args, ValueEnum};
use clap_complete::ArgValueCandidates;

use crate::complete;

/// When to colour.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, ValueEnum)]
pub(crate) enum Color {
    /// On a terminal, unless NO_COLOR is set
    #[default]
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

/// Flags that every command takes.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Global options")]
pub(crate) struct GlobalArgs {
    /// Use this registered gateway
    #[arg(short, long, global = true, env = "OPENSHELL_GATEWAY", value_name = "NAME", hide_env_values = true,
          add = ArgValueCandidates::new(complete::gateways))]
    pub(crate) gateway: Option<String>,
    /// Use the gateway at this address instead of a registered one
    #[arg(
        long,
        global = true,
        env = "OPENSHELL_GATEWAY_ENDPOINT",
        value_name = "URL",
        hide_env_values = true
    )]
    pub(crate) gateway_endpoint: Option<String>,
    /// The workspace to act in
    #[arg(
        long,
        global = true,
        env = "OPENSHELL_WORKSPACE",
        value_name = "NAME",
        default_value = "default",
        hide_env_values = true
    )]
    pub(crate) workspace: String,
    /// Say more on stderr
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub(crate) verbose: u8,
    /// When to colour
    #[arg(
        long,
        global = true,
        value_enum,
        value_name = "WHEN",
        default_value = "auto",
        hide_possible_values = true
    )]
    pub(crate) color: Color,
}

impl GlobalArgs {
    /// Makes the colour choice hold for both writers.
    pub(crate) fn apply_color(&self) {
        let choice = match self.color {
            Color::Auto if std::env::var_os("TERM").is_some_and(|t| t == "dumb") => {
                anstream::ColorChoice::Never
            }
            Color::Auto => anstream::ColorChoice::Auto,
            Color::Always => anstream::ColorChoice::Always,
            Color::Never => anstream::ColorChoice::Never,
        };
        choice.write_global();
    }
}
