//! The exhaustive model check: every interleaving of one sandbox in a small world, with the production machine.
//!
//! The world is the engine with the sandbox's containers, the supervisors, the user, and the gateway with its
//! store; what is in flight between them is done, answered, delayed or lost in any order. What may go wrong
//! along one path is counted (`luck`), and so are runs; everything else is free: timers may fire whenever they
//! are set, main may end whenever it runs, a user may ask for anything at any time.

mod action;
mod apply;
mod calm;
mod canon;
mod enabled;
mod engine;
mod explore;
mod inside;
mod plant;
mod rules;
mod stale;
mod time;
mod truth;
mod wiring;
mod words;
mod world;

use std::collections::BTreeMap;
use std::time::Instant;

use anyhow::{Context as _, Result, bail};
use openshell_core::{
    ImageRef, RestartPolicy, SandboxId, SandboxMeta, SandboxName, SandboxSpec, WorkspaceName,
};
use openshell_lifecycle::FenceConfig;
use openshell_lifecycle::machine::Command;

use self::action::Action;
use self::apply::apply;
use self::explore::{Explored, Limits, Next, Seen, System, explore};
use self::time::{SOME_TIME, at};
use self::wiring::{Setup, Violation, first};
use self::world::World;
use crate::faults::Fault;
use crate::say;

/// So many things that happen one after the other, from each first world.
const DEPTH: usize = 6;
const DEEP: usize = 7;
/// Runs of one sandbox.
const RUNS: u8 = 3;
/// Things that go wrong along one path.
const LUCK: u8 = 2;
/// The end of a story says what was wrong.
const LAST_LINES: usize = 5;

/// What is to be explored.
#[derive(clap::Args)]
pub struct Args {
    /// Explore further than the default bound
    #[arg(long)]
    pub deep: bool,
    /// Only with this planted fault, and tell the whole story
    #[arg(long)]
    pub fault: Option<String>,
    /// Only without planted faults
    #[arg(long)]
    pub clean: bool,
    /// Only with this restart policy
    #[arg(long)]
    pub policy: Option<String>,
    /// So many things happen one after the other
    #[arg(long)]
    pub depth: Option<usize>,
    /// So much may go wrong along one path
    #[arg(long, default_value_t = LUCK)]
    pub luck: u8,
    /// So many runs
    #[arg(long, default_value_t = RUNS)]
    pub runs: u8,
    /// So many threads
    #[arg(long, default_value_t = 2)]
    pub threads: usize,
    /// Liveness from every so many-th situation
    #[arg(long, default_value_t = 1)]
    pub liveness: usize,
}

/// Explores, and tells what was found.
pub fn run(args: &Args) -> Result<()> {
    // A machine that panics is a finding, and told as one.
    std::panic::set_hook(Box::new(|_| {}));
    let started = Instant::now();
    let (mut passed, mut failed, mut states) = (0_u64, 0_u64, 0);
    for policy in [
        RestartPolicy::Never,
        RestartPolicy::OnFailure,
        RestartPolicy::Always,
    ] {
        let other = args.policy.as_deref().is_some_and(|p| p != policy.as_str());
        if other || args.fault.is_some() {
            continue;
        }
        let (held, explored) = clean(args, policy)?;
        states += explored;
        *(if held { &mut passed } else { &mut failed }) += 1;
    }
    for fault in Fault::ALL {
        let other = args.fault.as_deref().is_some_and(|f| f != fault.name());
        if other || args.clean {
            continue;
        }
        let found = planted(args, *fault)?;
        *(if found { &mut passed } else { &mut failed }) += 1;
    }
    say::line(&format!(
        "{states} distinct states without a planted fault, {:.0} s, {} at most",
        started.elapsed().as_secs_f32(),
        memory()
    ));
    say::line(&format!("model: {passed} passed, {failed} failed"));
    if failed > 0 {
        bail!("{failed} of the checks did not come out as they should");
    }
    Ok(())
}

/// The most memory this process has held.
fn memory() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = peak.and_then(|peak| peak.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    kib.map_or("unknown memory".to_owned(), |kib| {
        format!("{} MiB", kib / 1024)
    })
}

fn setup(args: &Args, policy: RestartPolicy, fault: Option<Fault>) -> Setup {
    Setup {
        policy,
        fault,
        config: FenceConfig::default(),
        runs: args.runs,
        luck: args.luck,
    }
}

/// The production machine in its small world.
impl System for Setup {
    type World = World;
    type Action = Action;

    fn enabled(&self, world: &World) -> Vec<Action> {
        enabled::enabled(self, world)
    }

    fn apply(&self, world: &World, action: Action) -> Result<World, Violation> {
        apply(self, world, action)
    }

    fn beyond(&self, world: &World) -> bool {
        world.present() > self.runs
    }

    fn judge(&self, world: &World, judged: &mut Seen) -> Result<(), Violation> {
        match world.cell() {
            Some(cell) if judged.insert(cell.machine.hash) => {
                rules::state(self, &cell.machine.state, world.now)
            }
            _ => Ok(()),
        }
    }

    fn calm(&self, world: &World) -> Result<Next<Self>, (Action, Violation)> {
        calm::next(self, world)
    }

    fn rests(&self, world: &World) -> Result<(), Violation> {
        calm::stable(self, world)
    }
}

/// Where exploration begins: there, everything is calm.
fn roots(setup: &Setup) -> Result<Vec<World>> {
    let meta = SandboxMeta {
        id: SandboxId::from_uuid(uuid::Uuid::from_u128(1)),
        name: SandboxName::new("a").context("a name")?,
        workspace: WorkspaceName::default_workspace(),
        labels: BTreeMap::new(),
        annotations: BTreeMap::new(),
        created: at(SOME_TIME),
        template: None,
    };
    let spec = SandboxSpec {
        image: Some(ImageRef("i".to_owned())),
        restart_policy: setup.policy,
        ..SandboxSpec::default()
    };
    let sound = &Setup {
        fault: None,
        ..setup.clone()
    };
    let made = first(sound, meta, spec);
    let ready = calm::after(sound, &made)?;
    let again = calm::after(sound, &apply(sound, &ready, RESTART).map_err(wrong)?)?;
    let stopped = calm::after(sound, &apply(sound, &ready, STOP).map_err(wrong)?)?;
    Ok(vec![made, ready, again, stopped])
}

/// What the first worlds are.
const ROOTS: [&str; 4] = [
    "just created",
    "Ready in its first run",
    "Ready in its second run",
    "stopped after its first run",
];
const RESTART: Action = Action::Command(Command::Restart);
const STOP: Action = Action::Command(Command::Stop);

fn wrong(violation: Violation) -> anyhow::Error {
    anyhow::anyhow!("{}: {}", violation.rule, violation.what)
}

fn limits(args: &Args) -> Limits {
    Limits {
        depth: args.depth.unwrap_or(if args.deep { DEEP } else { DEPTH }),
        threads: args.threads,
        liveness: args.liveness,
    }
}

/// Whether nothing is wrong, and how much was looked at.
fn clean(args: &Args, policy: RestartPolicy) -> Result<(bool, usize)> {
    let setup = setup(args, policy, None);
    let roots = roots(&setup)?;
    let explored = explore(&setup, &roots, limits(args));
    say::line(&format!(
        "restart policy {:<10} {}",
        policy.as_str(),
        figures(&explored)
    ));
    if let Some(found) = &explored.violation {
        say::line(&format!("  it was {}, and then:", ROOTS[found.root]));
        for line in words::story(&setup, &roots, found) {
            say::line(&line);
        }
    }
    Ok((explored.violation.is_none(), explored.states))
}

fn planted(args: &Args, fault: Fault) -> Result<bool> {
    let setup = setup(args, RestartPolicy::Never, Some(fault));
    let roots = roots(&setup)?;
    let explored = explore(&setup, &roots, limits(args));
    say::line(&format!("fault {}: {}", fault.name(), fault.describe()));
    let Some(found) = &explored.violation else {
        say::line(&format!("  NOT FOUND in {}", figures(&explored)));
        return Ok(false);
    };
    say::line(&format!("  found after {}", figures(&explored)));
    let story = words::story(&setup, &roots, found);
    let skipped = match args.fault {
        Some(_) => 0,
        None => story.len().saturating_sub(LAST_LINES),
    };
    say::line(&format!(
        "  it was {}, and {} things later:",
        ROOTS[found.root],
        found.trace.len()
    ));
    for line in story.iter().skip(skipped) {
        say::line(line);
    }
    Ok(true)
}

fn figures(explored: &Explored<Action>) -> String {
    format!(
        "{} states, {} transitions, depth {}, {} beyond the bounds, {:.1} s",
        explored.states,
        explored.transitions,
        explored.depth,
        explored.cut,
        explored.time.as_secs_f32()
    )
}

#[cfg(test)]
mod tests;
