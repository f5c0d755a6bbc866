//! The deterministic simulation: the real fence and the real store, in a simulated world, on one thread, under a
//! paused clock, out of one seed. The same seed is the same run, to the byte.

mod blows;
mod chance;
mod clients;
mod fate;
mod feed;
mod gateway;
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

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use anyhow::{Result, bail};

pub use self::run::{Outcome, run};
use crate::say;

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
}

/// Simulates.
pub fn simulate(args: &Args) -> Result<()> {
    if let Some(seed) = args.seed {
        let outcome = run(seed, None, true)?;
        say::line(&outcome.timeline);
        return verdict(seed, &outcome);
    }
    let began = Instant::now();
    let next = AtomicU64::new(args.from);
    let end = args.from + args.seeds;
    let work = || -> Result<(u64, Option<(u64, Outcome)>)> {
        let mut steps = 0;
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= end {
                return Ok((steps, None));
            }
            let outcome = run(seed, None, false)?;
            steps += outcome.steps;
            if !outcome.violations.is_empty() {
                next.store(end, Ordering::Relaxed);
                return Ok((steps, Some((seed, outcome))));
            }
        }
    };
    let results: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..args.threads.max(1))
            .map(|_| scope.spawn(work))
            .collect();
        threads
            .into_iter()
            .map(std::thread::ScopedJoinHandle::join)
            .collect()
    });
    let mut steps = 0;
    let mut failed: Vec<(u64, Outcome)> = Vec::new();
    for result in results {
        match result {
            Ok(result) => {
                let (n, violated) = result?;
                steps += n;
                failed.extend(violated);
            }
            Err(_) => bail!("a simulation failed in an unforeseen way"),
        }
    }
    failed.sort_by_key(|(seed, _)| *seed);
    let took = began.elapsed();
    if let Some((seed, _)) = failed.first() {
        let again = run(*seed, None, true)?;
        say::line(&again.timeline);
        return verdict(*seed, &again);
    }
    say::line(&format!(
        "{} seeds, {steps} steps, no violation, in {:.1} s",
        args.seeds,
        took.as_secs_f64()
    ));
    Ok(())
}

fn verdict(seed: u64, outcome: &Outcome) -> Result<()> {
    if outcome.violations.is_empty() {
        say::line(&format!(
            "seed {seed}: {} steps, no violation",
            outcome.steps
        ));
        return Ok(());
    }
    bail!("seed {seed}: {}", outcome.violations.join("\n  "))
}
