//! The published Python client, installed from PyPI, drives a gateway of ours.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};
use openshell_e2e::engine::Engine;
use openshell_e2e::gateway::{Gateway, Settings};
use openshell_e2e::{command as run, image};

use crate::tally::{self, Tally};
use crate::{build, say};

/// Runs the test against a gateway that is made for it.
pub(crate) fn test(engine: &Engine, dist: &Path) -> Result<Tally> {
    let python = environment()?;
    let directory = tempfile::tempdir().context("no temporary directory")?;
    let settings = Settings::for_test(dist, directory.path(), &engine.socket(), "sdk")?;
    let config_home = settings.config_home.clone();
    let mut gateway = Gateway::start(settings)?;
    let mut tests = Command::new(python);
    tests
        .arg("-B")
        .arg(build::root().join("e2e/sdk/run.py"))
        .args([&engine.host(), image::TEST_IMAGE])
        .env("XDG_CONFIG_HOME", config_home)
        .env_remove("OPENSHELL_GATEWAY");
    let mut tally = tally::count(&mut tests)?;
    let left = gateway.left_on_engine()?;
    if !left.is_empty() {
        say::line(&format!("left behind by the SDK test: {left:?}"));
        tally.failed += 1;
    }
    gateway.end(rustix::process::Signal::TERM)?;
    Ok(tally)
}

/// A virtual environment with the client in it, kept between runs.
pub(crate) fn environment() -> Result<PathBuf> {
    let directory = build::target().join("sdk-venv");
    let requirements = build::root().join("e2e/sdk/requirements.txt");
    let wanted = std::fs::read(&requirements)?;
    let python = directory.join("bin/python");
    let stamp = directory.join("requirements.txt");
    if python.exists() && std::fs::read(&stamp).is_ok_and(|installed| installed == wanted) {
        return Ok(python);
    }
    say::line("   installing the client from PyPI");
    // The distribution's interpreter: the image with Python is made from it, and it comes with all its parts.
    let mut venv = Command::new("/usr/bin/python3");
    run::ok(venv.args(["-m", "venv", "--clear"]).arg(&directory))?;
    let mut pip = Command::new(&python);
    pip.args([
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "-r",
    ])
    .arg(&requirements);
    build::stream(&mut pip)?;
    std::fs::copy(&requirements, &stamp)?;
    Ok(python)
}
