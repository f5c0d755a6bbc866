//! `cargo xtask soak`: the gateway, the engine, supervisors and mains die at moments that a seed chooses, while users
//! go on asking. After each fault every sandbox is as its user asked, watched once, and those that were left alone have
//! lost no tick; at the end nothing has leaked.

mod boxes;
mod fault;
mod holdings;
mod place;

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher as _;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use openshell_e2e::choices::Choices;

use crate::tally::Tally;
use crate::{build, packages, say};
use boxes::Boxes;
use fault::Fault;
use holdings::Holdings;
use place::Place;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// How long faults are made
    #[arg(long, default_value_t = 15.0)]
    minutes: f64,
    /// The same faults again; another one each time without it
    #[arg(long)]
    seed: Option<u64>,
    /// With the binaries that are in target/dist already
    #[arg(long)]
    no_build: bool,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    packages::ensure(packages::Purpose::Tests)?;
    let dist = if args.no_build {
        build::dist(false)
    } else {
        build::build(false)?
    };
    let seed = args.seed.unwrap_or_else(|| RandomState::new().hash_one(0));
    let tally = soak(&dist, Duration::from_secs_f64(args.minutes * 60.0), seed)?;
    if tally.failed > 0 {
        bail!("the soak has found something; `--seed {seed}` makes the same faults again");
    }
    Ok(())
}

/// Makes faults for so long. The gateway may die in the first half; the other half is one gateway's, whose holdings
/// at the end must be what they were when it had settled.
pub(crate) fn soak(dist: &Path, time: Duration, seed: u64) -> Result<Tally> {
    say::step(&format!(
        "a soak of {:.1} min, seed {seed}",
        time.as_secs_f32() / 60.0
    ));
    let mut soak = Soak {
        place: Place::make(dist)?,
        boxes: Boxes::default(),
        choices: Choices::new(seed),
        tally: Tally::default(),
        faults: 0,
    };
    soak.boxes.create(&soak.place)?;
    soak.check("ten sandboxes are Ready", |soak| {
        soak.boxes.settle(&soak.place)
    });
    soak.faults_for(time / 2, &Fault::all())?;
    soak.faults_for(time / 4, &Fault::all_but_gateways())?;
    let before = soak.holdings()?;
    soak.faults_for(time / 4, &Fault::all_but_gateways())?;
    let after = soak.holdings()?;
    for (what, found) in after.compare(&before) {
        soak.check(what, |_| found);
    }
    soak.end()?;
    let Tally { passed, failed } = soak.tally;
    say::line(&format!(
        "soak: seed {seed}, {} faults, {passed} passed, {failed} failed",
        soak.faults
    ));
    Ok(soak.tally)
}

struct Soak {
    place: Place,
    boxes: Boxes,
    choices: Choices,
    tally: Tally,
    faults: u32,
}

impl Soak {
    fn faults_for(&mut self, time: Duration, kinds: &[Fault]) -> Result<()> {
        let began = Instant::now();
        while began.elapsed() < time {
            let fault = self.choices.of(kinds);
            self.faults += 1;
            let told = fault
                .befall(&mut self.place, &mut self.boxes, &mut self.choices)
                .with_context(|| format!("fault {}, {fault:?}, could not be made", self.faults))?;
            let what = format!("fault {}: {told}", self.faults);
            self.check(&what, |soak| soak.boxes.settle(&soak.place));
        }
        Ok(())
    }

    fn check(&mut self, what: &str, check: impl FnOnce(&mut Self) -> Result<()>) {
        let began = Instant::now();
        match check(self) {
            Ok(()) => {
                self.tally.passed += 1;
                say::line(&format!(
                    "   {what} – ok after {:.1} s",
                    began.elapsed().as_secs_f32()
                ));
            }
            Err(error) => {
                self.tally.failed += 1;
                say::line(&format!("   {what} – FAILED: {error:#}"));
            }
        }
    }

    /// With every sandbox running.
    fn holdings(&mut self) -> Result<Holdings> {
        self.boxes.all_run(&self.place)?;
        self.check("all run", |soak| soak.boxes.settle(&soak.place));
        let held = Holdings::of(&self.place.gateway)?;
        say::line(&format!(
            "   held: {held} ({})",
            Holdings::kinds(&self.place.gateway)?
        ));
        Ok(held)
    }

    fn end(&mut self) -> Result<()> {
        self.place
            .gateway
            .ok(&["sandbox", "delete", "--all", "--yes"])?;
        let left = self.place.gateway.left_on_engine()?;
        self.check("nothing is left on the engine", |_| {
            if !left.is_empty() {
                bail!("{left:?}");
            }
            Ok(())
        });
        Ok(())
    }
}
