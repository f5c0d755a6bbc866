//! What a restart of the engine costs with live-restore: nothing that runs, and a short time in which it is not seen.

use std::path::Path;
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use openshell_e2e::each::each;
use openshell_e2e::engine::Setup;
use openshell_e2e::gateway::{Gateway, Settings};
use openshell_e2e::relay::{Calls, Relay};
use openshell_e2e::wait;
use rustix::process::Signal;

use super::outages::{PATIENCE, all_ready, answers, create, not_ready, unharmed};
use super::report::{Line, Report};
use crate::{say, with_engine};

/// How many sandboxes, and within how many seconds of the engine's return they must all be watched again.
const COUNT: usize = 20;
const WATCHED: f64 = 5.0;
/// Restarts, by each signal.
const ROW: usize = 3;

pub(super) fn measure(dist: &Path, report: &mut Report) -> Result<()> {
    say::step(&format!("restarts of the engine under {COUNT} sandboxes"));
    let setup = Setup {
        live_restore: true,
        ..Setup::default()
    };
    let mut engine = with_engine::start_with(setup)?;
    let directory = tempfile::tempdir().context("no temporary directory")?;
    let name = "bench-engine";
    let mut settings = Settings::for_test(dist, directory.path(), &engine.socket(), name)?;
    let socket = directory.path().join("relay.sock");
    let relay = Relay::start(&engine.socket(), &socket)?;
    settings.relay = Some(socket);
    let gateway = Gateway::start(settings)?;
    let names: Vec<String> = (0..COUNT).map(|index| format!("box-{index}")).collect();
    create(&gateway, &names)?;
    all_ready(&gateway, &names)?;
    let mut took = Vec::new();
    for signal in [Signal::TERM, Signal::KILL] {
        for _ in 0..ROW {
            engine.end_daemon(signal)?;
            ready_throughout(&gateway, &names)?;
            engine.start_daemon()?;
            let back = Instant::now();
            wait::until("one monitor each", PATIENCE, || {
                ready_throughout(&gateway, &names)?;
                Ok(watched_once(&relay).then_some(()))
            })?;
            took.push(back.elapsed().as_secs_f64());
        }
    }
    each(&names, |name| answers(&gateway, name))?;
    let slowest = took.iter().copied().fold(0.0, f64::max);
    let line = |what: &str, value, bound| {
        let name = format!("engine restart, live-restore: {what}, {COUNT} sandboxes");
        Line::absolute(&name, "s", value, Some(bound))
    };
    report.add(line(
        "return \u{2192} all watched again, slowest",
        slowest,
        WATCHED,
    ));
    let gap = unharmed(&gateway, &names)?;
    report.add(line("the largest gap in the ticks of all of it", gap, 1.0));
    gateway.ok(&["sandbox", "delete", "--all", "--yes"])?;
    drop(gateway);
    engine.stop()
}

fn ready_throughout(gateway: &Gateway, names: &[String]) -> Result<()> {
    let others = not_ready(gateway, names)?;
    ensure!(others == 0, "{others} sandboxes are not Ready meanwhile");
    Ok(())
}

/// Each half is waited for once, and the events are heard once.
fn watched_once(relay: &Relay) -> bool {
    relay.under_way(&Calls::waits()) == 2 * COUNT && relay.under_way(&Calls::events()) == 1
}
