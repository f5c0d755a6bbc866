//! What an outage of the gateway costs: how soon everything answers again, how soon a gateway ends, and that nothing
//! of it is felt by what runs. Whole processes, from the start of the new gateway's.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use openshell_e2e::each::each;
use openshell_e2e::engine::Engine;
use openshell_e2e::gateway::{Gateway, Settings};
use openshell_e2e::ticks::{self, Ticks};
use openshell_e2e::wait;
use rustix::process::Signal;
use serde_json::Value;

use super::report::{Line, Report};
use super::samples::median;
use crate::say;

/// How many sandboxes, and within how many seconds they must answer again.
const SIZES: [(usize, f64); 2] = [(3, 1.0), (50, 3.0)];
/// Outages in a row.
const ROW: usize = 5;
/// So long the gateway is away: longer than the first few tries to reach it again.
const AWAY: Duration = Duration::from_secs(3);
/// Nothing takes this long when all is well.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);
const STOP: &str = "[openshell.lifecycle]\non_shutdown = \"stop\"\n";
/// The configured grace of a stop, and what may come on top.
const GRACE_AND_MARGIN: f64 = 10.0 + 2.0;

pub(super) fn measure(dist: &Path, engine: &Engine, report: &mut Report) -> Result<()> {
    for (count, bound) in SIZES {
        say::step(&format!("outages of the gateway, with {count} sandboxes"));
        let directory = tempfile::tempdir().context("no temporary directory")?;
        let name = format!("bench-outages-{count}");
        let settings = Settings::for_test(dist, directory.path(), &engine.socket(), &name)?;
        let mut gateway = Gateway::start(settings)?;
        let names: Vec<String> = (0..count).map(|index| format!("box-{index}")).collect();
        create(&gateway, &names)?;
        let sizes = Size { count, bound };
        outages(&mut gateway, &names, sizes, report)?;
        stopped_with_it(&mut gateway, &names, sizes, report)?;
        gateway.ok(&["sandbox", "delete", "--all", "--yes"])?;
    }
    Ok(())
}

#[derive(Clone, Copy)]
struct Size {
    count: usize,
    bound: f64,
}

impl Size {
    fn line(self, what: &str, unit: &'static str, value: f64, bound: Option<f64>) -> Line {
        let name = format!("{what}, {} sandboxes", self.count);
        Line::absolute(&name, unit, value, bound)
    }
}

pub(super) fn create(gateway: &Gateway, names: &[String]) -> Result<()> {
    each(names, |name| {
        let mut words = vec!["sandbox", "create", "--name", name, "--detach", "--"];
        words.extend(ticks::MAIN);
        gateway.ok(&words).map(drop)
    })
}

/// Both kinds of end, several times in a row.
fn outages(gateway: &mut Gateway, names: &[String], size: Size, report: &mut Report) -> Result<()> {
    for (signal, word) in [(Signal::KILL, "SIGKILL"), (Signal::TERM, "SIGTERM")] {
        let mut answer = Vec::new();
        let mut ready = Vec::new();
        let mut ends = Vec::new();
        for _ in 0..ROW {
            let asked = Instant::now();
            gateway.end(signal)?;
            ends.push(asked.elapsed().as_secs_f64());
            wait::pause(AWAY);
            let started = Instant::now();
            gateway.launch()?;
            all_ready(gateway, names)?;
            ready.push(started.elapsed().as_secs_f64());
            each(names, |name| answers(gateway, name))?;
            answer.push(started.elapsed().as_secs_f64());
        }
        let figures = [
            (
                "start \u{2192} all Ready and exec answering, first",
                answer[0],
                Some(size.bound),
            ),
            ("fifth", answer[ROW - 1], Some(size.bound)),
            (
                "slowest",
                answer.iter().copied().fold(0.0, f64::max),
                Some(size.bound),
            ),
            ("median", median(answer), None),
            ("start \u{2192} all Ready, median", median(ready), None),
        ];
        for (what, value, bound) in figures {
            report.add(size.line(&format!("{word}: {what}"), "s", value, bound));
        }
        if signal == Signal::TERM {
            let slowest = ends.iter().copied().fold(0.0, f64::max);
            report.add(size.line(
                "SIGTERM \u{2192} exit, keep, slowest",
                "s",
                slowest,
                Some(2.0),
            ));
        }
    }
    let gap = unharmed(gateway, names)?;
    report.add(size.line(
        "the largest gap in the ticks of all of it",
        "s",
        gap,
        Some(1.0),
    ));
    Ok(())
}

/// A gateway that takes its sandboxes with it, and brings them back.
fn stopped_with_it(
    gateway: &mut Gateway,
    names: &[String],
    size: Size,
    report: &mut Report,
) -> Result<()> {
    gateway.end(Signal::TERM)?;
    STOP.clone_into(&mut gateway.settings_mut().more);
    gateway.launch()?;
    all_ready(gateway, names)?;
    let asked = Instant::now();
    gateway.end(Signal::TERM)?;
    let took = asked.elapsed().as_secs_f64();
    report.add(size.line(
        "SIGTERM \u{2192} exit, stop",
        "s",
        took,
        Some(GRACE_AND_MARGIN),
    ));
    let started = Instant::now();
    gateway.launch()?;
    all_ready(gateway, names)?;
    each(names, |name| answers(gateway, name))?;
    let took = started.elapsed().as_secs_f64();
    report.add(size.line(
        "after that: start \u{2192} all brought back",
        "s",
        took,
        None,
    ));
    Ok(())
}

pub(super) fn all_ready(gateway: &Gateway, names: &[String]) -> Result<()> {
    wait::until("all to be Ready", PATIENCE, || {
        Ok((not_ready(gateway, names)? == 0).then_some(()))
    })
}

/// How many of them are not.
pub(super) fn not_ready(gateway: &Gateway, names: &[String]) -> Result<usize> {
    let listed = gateway.ok(&["sandbox", "list", "-o", "json"])?.json()?;
    let records = listed["sandboxes"]
        .as_array()
        .map_or(&[][..], Vec::as_slice);
    let ready = |record: &&Value| record["phase"] == "Ready";
    Ok(names.len() - records.iter().filter(ready).count())
}

pub(super) fn answers(gateway: &Gateway, name: &str) -> Result<()> {
    let words = ["sandbox", "exec", name, "--no-login-shell", "--", "true"];
    gateway.ok(&words).map(drop)
}

/// Main was started once in each, and the longest time that one of them did not tick.
pub(super) fn unharmed(gateway: &Gateway, names: &[String]) -> Result<f64> {
    let mut largest = 0.0_f64;
    for name in names {
        let words = ["sandbox", "exec", name, "--no-login-shell", "--", "cat"];
        let boots = gateway.ok(&[&words[..], &[ticks::BOOTS]].concat())?.text();
        ensure!(boots == "run", "main of {name} was started again");
        let noted = gateway.ok(&[&words[..], &[ticks::TICKS]].concat())?;
        let text = String::from_utf8_lossy(&noted.stdout).into_owned();
        largest = largest.max(Ticks::parse(&text).longest_pause(0.0));
    }
    Ok(largest)
}
