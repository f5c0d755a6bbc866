//! `cargo xtask with-engine -- COMMAND`: a command beside a private engine, which is gone afterwards.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, Result};
use openshell_e2e::engine::Engine;
use openshell_e2e::image::{self, Recipe, TEST_IMAGE};

use crate::{build, say};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The command and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<String>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let engine = start()?;
    let (program, words) = args.command.split_first().context("no command")?;
    let mut command = Command::new(program);
    let outcome = build::stream(point(command.args(words), &engine));
    engine.stop()?;
    outcome
}

/// A private engine with the images that the tests use.
pub(crate) fn start() -> Result<Engine> {
    say::step("starting a private engine");
    // Sockets need short paths, so not below target/.
    let directory = PathBuf::from(format!("/tmp/openshell-engine-{}", std::process::id()));
    let engine = Engine::start(&directory, None)?;
    image::import(&engine.host(), &Recipe::usual(TEST_IMAGE))?;
    say::line(&format!("   {}", engine.host()));
    Ok(engine)
}

/// Makes a command use this engine.
pub(crate) fn point<'a>(command: &'a mut Command, engine: &Engine) -> &'a mut Command {
    command
        .env("DOCKER_HOST", engine.host())
        .env("OPENSHELL_TEST_DOCKER_HOST", engine.host())
}
