//! The deterministic simulation: the real fence and the real store, in a simulated world, on one thread, under a
//! paused clock, out of one seed. The same seed is the same run, to the byte.

mod blows;
mod chance;
mod clients;
mod fate;
mod feed;
mod gateway;
mod many;
mod network;
mod oracle;
mod plan;
mod run;
mod session;
mod supervisor;
mod timeline;
mod weather;
mod workload;
mod world;
mod wrong;

use std::time::Instant;

use anyhow::{Result, bail};

use self::many::{Many, Summary};
pub use self::run::{Outcome, run};
pub use self::wrong::Planted;
use crate::say;

/// So many seeds that failed are named.
const NAMED: usize = 20;

/// What to simulate.
#[derive(clap::Args, Clone, Debug)]
pub struct Args {
    /// How many seeds, from --from on
    #[arg(long, default_value_t = 2_000)]
    seeds: u64,
    /// The first of them
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// Only this one, told as a timeline
    #[arg(long)]
    seed: Option<u64>,
    /// Seeds side by side
    #[arg(long, default_value_t = 2)]
    threads: usize,
    /// Plant this in the wiring (its name); all of them, one after the other, with "all"
    #[arg(long)]
    plant: Option<String>,
}

/// Simulates.
pub fn simulate(args: &Args) -> Result<()> {
    let planted = match args.plant.as_deref() {
        None => None,
        Some("all") => return find_all(args),
        Some(name) => match Planted::ALL.iter().find(|p| p.name() == name) {
            Some(planted) => Some(*planted),
            None => bail!("there is no fault {name:?} to plant"),
        },
    };
    if let Some(seed) = args.seed {
        return tell(seed, planted);
    }
    let began = Instant::now();
    let all = args.many(false).run(planted)?;
    let took = began.elapsed().as_secs_f64();
    let Summary {
        seeds,
        steps,
        broken,
    } = &all;
    say::line(&format!(
        "{seeds} seeds, {steps} steps, {} violations, {took:.1} s ({:.0} seeds a minute)",
        broken.len(),
        f64::from(u32::try_from(*seeds).unwrap_or(u32::MAX)) * 60.0 / took,
    ));
    for (seed, what) in broken.iter().take(NAMED) {
        say::line(&format!("  seed {seed}: {what}"));
    }
    match broken.keys().next() {
        None => {
            say::line("sim: 1 passed, 0 failed");
            Ok(())
        }
        Some(seed) => tell(*seed, planted),
    }
}

impl Args {
    const fn many(&self, until_found: bool) -> Many {
        Many {
            from: self.from,
            seeds: self.seeds,
            threads: self.threads,
            until_found,
        }
    }
}

/// One seed, as a timeline.
fn tell(seed: u64, planted: Option<Planted>) -> Result<()> {
    let outcome = run(seed, planted, true)?;
    say::line(&outcome.timeline);
    if outcome.violations.is_empty() {
        say::line(&format!(
            "seed {seed}: {} steps, no violation",
            outcome.steps
        ));
        return Ok(());
    }
    bail!("seed {seed}: {}", outcome.violations.join("\n  "))
}

/// Plants each fault in turn: a check that does not find every one proves nothing.
fn find_all(args: &Args) -> Result<()> {
    let mut missed = Vec::new();
    for planted in Planted::ALL {
        let all = args.many(true).run(Some(*planted))?;
        match all.broken.iter().next() {
            Some((seed, what)) => {
                say::line(&format!("found {} by seed {seed}: {what}", planted.name()))
            }
            None => {
                say::line(&format!(
                    "MISSED {} ({}) in {} seeds",
                    planted.name(),
                    planted.describe(),
                    all.seeds
                ));
                missed.push(planted.name());
            }
        }
    }
    say::line(&format!(
        "sim: {} passed, {} failed: planted faults that were found, and that were not",
        Planted::ALL.len() - missed.len(),
        missed.len()
    ));
    if missed.is_empty() {
        return Ok(());
    }
    bail!("not found: {}", missed.join(", "))
}

#[cfg(test)]
mod tests;
