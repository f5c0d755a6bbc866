//! `cargo xtask with-engine -- COMMAND`: a command beside private engines, a Docker and a Podman, which are gone
//! afterwards.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result};
use openshell_e2e::engine::{self, Engine, PREFIX, Setup};
use openshell_e2e::image::{self, Recipe, TEST_IMAGE};
use openshell_e2e::podman::{self, Podman};

use crate::{build, say};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The command and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<String>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let (engine, podman) = (start()?, start_podman()?);
    let (program, words) = args.command.split_first().context("no command")?;
    let mut command = Command::new(program);
    let command = point(point_to_podman(&mut command, &podman), &engine);
    let outcome = build::stream(command.args(words));
    podman.stop()?;
    engine.stop()?;
    outcome
}

/// Ends the engines of tasks that were killed before they could.
fn sweep() -> Result<()> {
    for entry in std::fs::read_dir("/tmp")?.flatten() {
        let name = entry.file_name();
        let name = name.to_str().unwrap_or_default();
        let owner = [PREFIX, podman::PREFIX]
            .iter()
            .find_map(|prefix| name.strip_prefix(prefix));
        let owner = owner.and_then(|name| name.split('-').next());
        let Some(owner) = owner.and_then(|id| id.parse::<u32>().ok()) else {
            continue;
        };
        if Path::new(&format!("/proc/{owner}")).exists() {
            continue;
        }
        say::line(&format!(
            "   ending the engine that task {owner} left behind"
        ));
        if name.starts_with(podman::PREFIX) {
            Podman::open(&entry.path()).map_or(Ok(()), Podman::stop)?;
        } else {
            Engine::open(&entry.path()).map_or(Ok(()), Engine::stop)?;
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

/// A private Podman with the images that the tests use.
pub(crate) fn start_podman() -> Result<Podman> {
    say::step("starting a private Podman");
    let podman = Podman::start(&podman::directory())?;
    image::import(&podman.host(), &Recipe::usual(TEST_IMAGE))?;
    say::line(&format!("   {}", podman.host()));
    Ok(podman)
}

/// Makes a command use this Podman.
pub(crate) fn point_to_podman<'a>(command: &'a mut Command, podman: &Podman) -> &'a mut Command {
    command.env("OPENSHELL_TEST_PODMAN_HOST", podman.host())
}
