//! `cargo xtask test`: everything that `.ci/run` runs, on a private engine, leaving nothing behind.

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use anyhow::{Result, bail};
use openshell_e2e::engine::Engine;
use openshell_e2e::host;
use openshell_e2e::podman::Podman;

use crate::tally::{self, Tally};
use crate::{build, check, packages, proof, say, sdk, sim, with_engine};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only these parts; all of them without it
    #[arg(long, value_enum, value_delimiter = ',')]
    part: Vec<Part>,
    /// Of the tests in Rust only those whose name contains this
    #[arg(long)]
    only: Option<String>,
    /// With the binaries that are in target/dist already
    #[arg(long)]
    no_build: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Part {
    /// Format, lints, arrows, house rules, supply chain
    Checks,
    /// What is shown of the life of a sandbox without an engine
    Proofs,
    /// Unit and integration tests of the crates
    Crates,
    /// Release binaries on a private engine
    EndToEnd,
    /// Those of them that are about an engine, once more on a private Podman
    Podman,
    /// The published Python client
    Sdk,
}

impl Args {
    fn wants(&self, part: Part) -> bool {
        self.part.is_empty() || self.part.contains(&part)
    }
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let started = Instant::now();
    packages::ensure(packages::Purpose::Tests)?;
    let mut tally = Tally::default();
    if args.wants(Part::Checks) {
        let (held, failed) = check::all();
        tally.add(Tally {
            passed: held,
            failed,
        });
    }
    if args.wants(Part::Proofs) {
        say::step("proofs");
        tally.add(proof::all()?);
        tally.add(sim::all()?);
    }
    let outcome = on_an_engine(args, &mut tally);
    if let Err(error) = &outcome {
        say::line(&format!("\nerror: {error:#}"));
        tally.failed += 1;
    }
    say::took("\neverything", started.elapsed());
    say::line(&format!(
        "\n{} passed, {} failed",
        tally.passed, tally.failed
    ));
    if tally.failed > 0 {
        std::process::exit(1);
    }
    Ok(())
}

fn on_an_engine(args: &Args, tally: &mut Tally) -> Result<()> {
    let dist = if args.no_build {
        build::dist(false)
    } else {
        build::build(false)?
    };
    let (engine, podman) = (with_engine::start()?, with_engine::start_podman()?);
    let only = args.only.as_deref();
    if args.wants(Part::Crates) {
        say::step("unit and integration tests");
        tally.add(tally::count(&mut tests(
            (&engine, &podman),
            &dist,
            Part::Crates,
            only,
        ))?);
    }
    if args.wants(Part::EndToEnd) {
        say::step("end-to-end tests");
        tally.add(tally::count(&mut tests(
            (&engine, &podman),
            &dist,
            Part::EndToEnd,
            only,
        ))?);
    }
    if args.wants(Part::Podman) {
        say::step("end-to-end tests on Podman");
        tally.add(tally::count(&mut tests(
            (&engine, &podman),
            &dist,
            Part::Podman,
            only,
        ))?);
    }
    if args.wants(Part::Sdk) {
        say::step("a client that nobody here wrote");
        tally.add(sdk::test(&engine, &dist)?);
    }
    let directories = [engine.socket(), podman.socket()];
    podman.stop()?;
    engine.stop()?;
    for left in directories.iter().filter_map(|socket| socket.parent()) {
        if left.exists() {
            bail!("{} is left behind", left.display());
        }
    }
    Ok(())
}

/// What is run on Podman, too: by module. What forces an overlap through the relay is not yet among it: two tests of
/// `s1` do not hold there.
const ON_PODMAN: &[&str] = &["main_job", "life", "exec", "terminal"];

fn tests(
    (engine, podman): (&Engine, &Podman),
    dist: &Path,
    part: Part,
    only: Option<&str>,
) -> Command {
    let mut cargo = build::cargo();
    let nextest = host::find_program("cargo-nextest").is_some();
    if nextest {
        cargo.args([
            "nextest",
            "run",
            "--no-fail-fast",
            "--no-tests=pass",
            "--color=never",
        ]);
    } else {
        cargo.args(["test", "--no-fail-fast"]);
    }
    cargo.arg("--locked");
    if part != Part::Crates {
        cargo.args(["-p", "openshell-e2e"]);
    } else {
        cargo.args(["--workspace", "--exclude", "openshell-e2e"]);
    }
    if part == Part::Podman {
        choose_for_podman(&mut cargo, nextest, only);
    } else {
        cargo.args(only);
    }
    if !nextest {
        // Tests that measure time, or share an engine, do not run side by side without nextest's groups.
        if part != Part::Podman {
            cargo.arg("--");
        }
        cargo.arg("--test-threads=1");
    }
    cargo
        .env("OPENSHELL_RUNTIME_DIR", dist.join("libexec/openshell"))
        .env("OPENSHELL_E2E_DIST", dist);
    with_engine::point(with_engine::point_to_podman(&mut cargo, podman), engine);
    cargo
}

fn choose_for_podman(cargo: &mut Command, nextest: bool, only: Option<&str>) {
    cargo.env("OPENSHELL_E2E_ENGINE", "podman");
    if nextest {
        let modules = ON_PODMAN.join("|");
        let only = only.map_or(String::new(), |only| format!(" & test({only})"));
        cargo.args(["-E", &format!("test(/^({modules})::/){only}")]);
    } else {
        // Names of tests begin with the module's.
        cargo.arg("--");
        match only {
            Some(only) => cargo.arg(only),
            None => cargo.args(ON_PODMAN.iter().map(|module| format!("{module}::"))),
        };
    }
}
