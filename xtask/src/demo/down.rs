//! Taking every trace of the demo away, and showing that none is left.

use std::process::Command;

use anyhow::Result;
use openshell_e2e::census::Census;
use openshell_e2e::engine::Engine;
use openshell_e2e::{command as run, gateway, host};

use super::place::{IMAGE, Place};
use crate::{build, say};

pub(super) fn run(place: &Place) -> Result<()> {
    let Ok(before) = Census::load(&place.census_file()) else {
        say::line(&format!("no demo was found in {}", place.base.display()));
        return Ok(());
    };
    say::step("ending the gateway");
    gateway::end_recorded(&place.base)?;
    if host::engine_answers(&place.engine_host) {
        say::step("removing sandboxes and images");
        gateway::remove_all(&place.settings(&build::target().join("dist")))?;
        remove_images(place, &before)?;
    }
    if let Some(engine) = Engine::open(&place.engine_directory()) {
        say::step("ending the engine that the demo started");
        engine.stop()?;
    }
    say::step("removing files");
    place.remove()?;

    let after = Census::take(&place.engine_host, &place.watched())?;
    say::line(&format!("\nbefore: {before}\nafter:  {after}"));
    let difference = after.difference(&before);
    if difference.is_empty() {
        say::line("nothing is left");
    } else {
        say::line(&format!("what differs:\n  {}", difference.join("\n  ")));
    }
    say::line("(the packages that were installed and target/ stay)");
    Ok(())
}

/// Ours, except those that were there before: they may be another gateway's.
fn remove_images(place: &Place, before: &Census) -> Result<()> {
    let docker = || {
        let mut docker = Command::new("docker");
        docker.args(["-H", &place.engine_host]);
        docker
    };
    let now = Census::of_engine(&place.engine_host)?;
    let new = now.images.difference(&before.images);
    let tags = new.filter_map(|image| image.split(' ').nth(1));
    let made = ["openshell-supervisor:", "openshell-workspace:"];
    let ours = tags.filter(|tag| *tag == IMAGE || made.iter().any(|made| tag.starts_with(made)));
    for tag in ours {
        run::run(docker().args(["image", "rm", tag]))?;
    }
    Ok(())
}
