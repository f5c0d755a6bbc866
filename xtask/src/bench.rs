//! `cargo xtask bench`: what our commands cost beside the engine's own, medians of one run on one engine with one
//! image. A machine drifts within the hour, so ours and theirs alternate, and only ratios count.

mod engine_restarts;
mod memory;
mod outages;
mod policy;
mod report;
mod rpc;
mod samples;

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};
use openshell_e2e::engine::Engine;
use openshell_e2e::gateway::{Gateway, Settings};
use openshell_e2e::{command as run, image};

use crate::{build, packages, say, with_engine};
use report::{Line, Report};
use samples::Samples;

#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
enum Part {
    /// Commands, memory, the list, sizes
    Commands,
    /// What an outage of the gateway costs
    Outages,
    /// What a restart of the engine costs
    Restarts,
    /// What a decision costs; needs no engine
    Policy,
}

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only these parts
    #[arg(long, value_enum, value_delimiter = ',')]
    part: Vec<Part>,
    /// How often each is measured; at least 10
    #[arg(long, default_value_t = 15, value_parser = clap::value_parser!(u32).range(10..=200))]
    runs: u32,
    /// Where the figures go as JSON
    #[arg(long, default_value = "target/bench.json")]
    output: PathBuf,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let wanted = |part| args.part.is_empty() || args.part.contains(&part);
    let mut report = Report::default();
    if wanted(Part::Policy) {
        policy::measure(&mut report)?;
    }
    if [Part::Commands, Part::Outages, Part::Restarts]
        .into_iter()
        .any(wanted)
    {
        beside_an_engine(args, wanted, &mut report)?;
    }
    say::line(&report.table());
    report.write(&args.output)?;
    say::line(&format!("written to {}", args.output.display()));
    Ok(())
}

fn beside_an_engine(args: &Args, wanted: impl Fn(Part) -> bool, report: &mut Report) -> Result<()> {
    packages::ensure(packages::Purpose::Tests)?;
    let dist = build::build(false)?;
    let engine = with_engine::start()?;
    report.engine(&engine_version(&engine)?);
    if wanted(Part::Commands) {
        commands(&dist, &engine, args.runs, report)?;
    }
    if wanted(Part::Outages) {
        outages::measure(&dist, &engine, report)?;
    }
    if wanted(Part::Restarts) {
        engine_restarts::measure(&dist, report)?;
    }
    engine.stop()
}

fn commands(dist: &Path, engine: &Engine, runs: u32, report: &mut Report) -> Result<()> {
    let directory = tempfile::tempdir().context("no temporary directory")?;
    let settings = Settings::for_test(dist, directory.path(), &engine.socket(), "bench")?;
    let gateway = Gateway::start(settings)?;
    lives(&gateway, runs, report)?;
    rpc::exec(&gateway, runs, report)?;
    memory::measure(&gateway, report)?;
    drop(gateway);
    list(dist, engine, runs, report)?;
    report.sizes(&build::sizes(dist)?);
    Ok(())
}

fn engine_version(engine: &Engine) -> Result<String> {
    let mut docker = Command::new("docker");
    docker.args([
        "-H",
        &engine.host(),
        "version",
        "--format",
        "Docker {{.Server.Version}}",
    ]);
    Ok(run::ok(&mut docker)?.text())
}

/// Whole lives, ours and theirs in turn, whole processes of the command lines.
fn lives(gateway: &Gateway, runs: u32, report: &mut Report) -> Result<()> {
    say::step(&format!("{runs} lives, ours and the engine's in turn"));
    let mut ours = Life::default();
    let mut theirs = Life::default();
    let mut version = Samples::default();
    // The first of each loads images and warms caches; it is not counted.
    for index in 0..=runs {
        let counted = index > 0;
        let name = format!("bench-{index}");
        one_of_ours(gateway, &name, counted.then_some(&mut ours))?;
        one_of_theirs(gateway, &name, counted.then_some(&mut theirs))?;
        version.time(counted, gateway.cli().arg("--version"))?;
    }
    let pairs = [
        (
            "create \u{2192} Ready / docker run -d",
            &ours.create,
            &theirs.create,
            1.25,
        ),
        (
            "exec -- true / docker exec true",
            &ours.exec,
            &theirs.exec,
            0.2,
        ),
        ("stop / docker stop -t 0", &ours.stop, &theirs.stop, 1.1),
        (
            "start \u{2192} Ready / docker start",
            &ours.start,
            &theirs.start,
            1.25,
        ),
        ("delete / docker rm -f", &ours.delete, &theirs.delete, 1.0),
    ];
    for (name, ours, theirs, bound) in pairs {
        report.add(Line::ratio(name, ours.median(), theirs.median(), bound));
    }
    report.add(Line::absolute(
        "openshell --version",
        "ms",
        version.median(),
        Some(5.0),
    ));
    Ok(())
}

#[derive(Default)]
struct Life {
    create: Samples,
    exec: Samples,
    stop: Samples,
    start: Samples,
    delete: Samples,
}

fn one_of_ours(gateway: &Gateway, name: &str, life: Option<&mut Life>) -> Result<()> {
    let counted = life.is_some();
    let mut unused = Life::default();
    let life = life.unwrap_or(&mut unused);
    let cli = |words: &[&str]| {
        let mut cli = gateway.cli();
        cli.args(words);
        cli
    };
    let create = [
        "sandbox", "create", "--name", name, "--detach", "--", "sleep", "1000000",
    ];
    life.create.time(counted, &mut cli(&create))?;
    life.exec
        .time(counted, &mut cli(&["sandbox", "exec", name, "--", "true"]))?;
    life.stop
        .time(counted, &mut cli(&["sandbox", "stop", name]))?;
    life.start
        .time(counted, &mut cli(&["sandbox", "start", name]))?;
    life.delete
        .time(counted, &mut cli(&["sandbox", "delete", name]))
}

fn one_of_theirs(gateway: &Gateway, name: &str, life: Option<&mut Life>) -> Result<()> {
    let counted = life.is_some();
    let mut unused = Life::default();
    let life = life.unwrap_or(&mut unused);
    let docker = |words: &[&str]| {
        let mut docker = gateway.docker();
        docker.args(words);
        docker
    };
    let create = [
        "run",
        "-d",
        "--network",
        "bridge",
        "--name",
        name,
        image::TEST_IMAGE,
        "sleep",
        "1000000",
    ];
    life.create.time(counted, &mut docker(&create))?;
    life.exec
        .time(counted, &mut docker(&["exec", name, "true"]))?;
    life.stop
        .time(counted, &mut docker(&["stop", "-t", "0", name]))?;
    life.start.time(counted, &mut docker(&["start", name]))?;
    life.delete.time(counted, &mut docker(&["rm", "-f", name]))
}

/// A list of a thousand records, on a gateway of its own. The records are of sandboxes whose image is not there,
/// so that a thousand of them can be had in seconds; a record is a record.
fn list(dist: &Path, engine: &Engine, runs: u32, report: &mut Report) -> Result<()> {
    say::step("a list of 1,000 records");
    let directory = tempfile::tempdir().context("no temporary directory")?;
    let mut settings = Settings::for_test(dist, directory.path(), &engine.socket(), "bench-list")?;
    settings.pull_policy = "never";
    let gateway = Gateway::start(settings)?;
    rpc::fill(&gateway, 1000)?;
    let mut samples = Samples::default();
    for index in 0..=runs {
        samples.time(
            index > 0,
            gateway.cli().args(["sandbox", "list", "-o", "json"]),
        )?;
    }
    report.add(Line::absolute(
        "list of 1,000 records, CLI",
        "ms",
        samples.median(),
        None,
    ));
    rpc::list(&gateway, runs, report)
}
