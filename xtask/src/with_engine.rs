//! `cargo xtask with-engine -- COMMAND`: a command beside a private engine, which is gone afterwards.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result};
use openshell_e2e::engine::{self, Engine, PREFIX, Setup};
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

/// Ends the engines of tasks that were killed before they could.
fn sweep() -> Result<()> {
    for entry in std::fs::read_dir("/tmp")?.flatten() {
        let name = entry.file_name();
        let owner = name.to_str().and_then(|name| name.strip_prefix(PREFIX));
        let owner = owner.and_then(|name| name.split('-').next());
        let Some(owner) = owner.and_then(|id| id.parse::<u32>().ok()) else {
            continue;
        };
        if !Path::new(&format!("/proc/{owner}")).exists()
            && let Some(engine) = Engine::open(&entry.path())
        {
            say::line(&format!(
                "   ending the engine that task {owner} left behind"
            ));
            engine.stop()?;
        }
    }
    Ok(())
}

/// A private engine with the images that the tests use.
pub(crate) fn start() -> Result<Engine> {
    say::step("starting a private engine");
    sweep()?;
    start_with(Setup::default())
}

/// As [`start`], run as it is asked for.
pub(crate) fn start_with(setup: Setup) -> Result<Engine> {
    let engine = Engine::start(&engine::directory(), setup)?;
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
