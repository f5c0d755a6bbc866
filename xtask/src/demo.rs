//! `cargo xtask demo`: from nothing to a governed sandbox that runs; `--down` takes every trace away again.

mod down;
mod place;
mod tour;

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context as _, Result, bail};
use openshell_e2e::census::Census;
use openshell_e2e::engine::{Engine, Setup};
use openshell_e2e::gateway::{self, Gateway};
use openshell_e2e::image::{self, Recipe};
use openshell_e2e::{command as run, host};

use crate::{build, packages, say};
use place::{IMAGE, Place};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Take everything away that the demo made
    #[arg(long)]
    down: bool,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let place = Place::find()?;
    if args.down {
        return down::run(&place);
    }
    let started = Instant::now();
    packages::ensure(packages::Purpose::Demo)?;
    remember_what_was(&place)?;
    find_engine(&place)?;
    let dist = build::build(false)?;
    make_image(&place)?;
    let settings = place.settings(&dist);
    start_gateway(&place, settings.clone())?;
    tour::run(&settings)?;
    say::took("\nthe demo", started.elapsed());
    what_next(&dist, &place);
    Ok(())
}

/// The census before the first thing is made, so that `--down` can show that nothing is left.
fn remember_what_was(place: &Place) -> Result<()> {
    if place.census_file().exists() {
        return Ok(());
    }
    let census = Census::take(&place.engine_host, &place.watched())?;
    place.make_directories()?;
    census.save(&place.census_file())
}

fn find_engine(place: &Place) -> Result<()> {
    say::step("looking for a Docker engine");
    let at = &place.engine_host;
    if host::engine_answers(at) {
        say::line(&format!("   one answers at {at}"));
        return Ok(());
    }
    if place.engine_socket.exists() && !host::is_root() {
        bail!(
            "{} is there, but does not answer this user; run: sudo usermod -aG docker $USER (and log in again)",
            place.engine_socket.display()
        );
    }
    if !place.may_start_engine {
        bail!("no engine answers at {at} (DOCKER_HOST); start it, or unset DOCKER_HOST");
    }
    if !host::is_root() {
        bail!(
            "no Docker engine runs; start it, then try again:\n\n  sudo systemctl start docker\n"
        );
    }
    let directory = place.engine_directory();
    if let Some(stale) = Engine::open(&directory) {
        // It was ended from outside; what it kept belonged to the demo.
        stale.stop()?;
    }
    say::line("   none answers: starting one for the demo (`--down` ends it)");
    let setup = Setup {
        also_listen: Some(at.to_owned()),
        ..Setup::default()
    };
    Engine::start(&directory, setup)?.leave_running();
    Ok(())
}

fn make_image(place: &Place) -> Result<()> {
    let mut docker = Command::new("docker");
    docker.args(["-H", &place.engine_host, "image", "inspect", IMAGE]);
    if run::run(&mut docker)?.code == 0 {
        return Ok(());
    }
    say::step(&format!(
        "making the workload image {IMAGE} (a static busybox, no registry)"
    ));
    image::import(&place.engine_host, &Recipe::usual(IMAGE))
}

fn start_gateway(place: &Place, settings: gateway::Settings) -> Result<()> {
    say::step(&format!("the gateway on {}", settings.address));
    if gateway::runs_recorded(&place.base) {
        if same_binaries(place, &settings.dist)? {
            say::line("   runs already");
            return Ok(());
        }
        say::line("   restarting it: it was built anew");
        gateway::end_recorded(&place.base)?;
    } else if std::net::TcpStream::connect(settings.address).is_ok() {
        bail!(
            "{} is in use by something else; end it, then try again",
            settings.address
        );
    }
    say::line(&format!(
        "   certificates, state and log are in {}",
        place.base.display()
    ));
    Gateway::start(settings)?.leave_running();
    place.remember_binaries()
}

/// Whether the gateway that runs is the one that has just been built.
fn same_binaries(place: &Place, dist: &Path) -> Result<bool> {
    let built = dist.join("bin/openshell-gateway").metadata()?.modified()?;
    let started = place
        .binaries_stamp()
        .metadata()
        .and_then(|meta| meta.modified());
    Ok(started.is_ok_and(|started| built <= started))
}

fn what_next(dist: &Path, place: &Place) {
    let bin = dist.join("bin");
    say::line(&format!(
        "\nIt goes on running. Try next:\n\n  export PATH={bin}:$PATH\n{select}\
         \x20 openshell sandbox connect demo             # its main process; leave with Ctrl-P Ctrl-Q\n\
         \x20 openshell sandbox exec demo -- sh          # a shell in it\n\
         \x20 openshell sandbox create -- sh             # one of your own\n\
         \x20 openshell doctor\n\
         \x20 openshell --help\n\n\
         \x20 cargo xtask demo --down                    # take every trace away\n",
        bin = bin.display(),
        select = place.select_hint(),
    ));
}

/// The user's home, without which there is no place for a demo.
fn home() -> Result<std::path::PathBuf> {
    std::env::var_os("HOME")
        .filter(|home| !home.is_empty())
        .map(Into::into)
        .context("HOME is not set")
}
