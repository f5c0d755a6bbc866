//! What must be so once everything has settled, and once everything was deleted.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use openshell_core::{ContainerId, Generation, Intent, Phase, Reason, SandboxId, SandboxRecord};
use openshell_lifecycle::LifecycleFence as _;
use openshell_lifecycle::driver::Role;
use openshell_lifecycle::ports::MainReport;
use tokio::time::Instant;

use super::{Oracle, nick};
use crate::sim::clients::{Ask, ask_for};
use crate::sim::world::{World, locked, short};

/// Without trouble everything comes to rest within this (L16).
const SETTLES: Duration = Duration::from_secs(900);
/// How often it is looked at.
const LOOK: Duration = Duration::from_millis(500);

/// Lets everything settle, asks for one thing more, and then for everything to go.
pub(in crate::sim) async fn finale(world: &Arc<World>) {
    if !settled(world, "after the trouble").await {
        return;
    }
    at_rest(world, None);
    // What is held stays so for everybody until it is released.
    if !all(world, Ask::Release, "after releases").await {
        return;
    }
    let asked = match world.chance.below(4) {
        0 => {
            if !all(world, Ask::Start, "after starts").await {
                return;
            }
            Some(Phase::Ready)
        }
        1 => {
            if !all(world, Ask::Stop, "after stops").await {
                return;
            }
            Some(Phase::Stopped)
        }
        2 => {
            if !adopted(world).await {
                return;
            }
            None
        }
        _ => None,
    };
    at_rest(world, asked);
    world.oracle.journals_explain(world);
    if all(world, Ask::Delete, "after deletes").await {
        nothing_left(world);
    }
}

/// The gateway is killed once more: what was Ready is taken back as it is.
async fn adopted(world: &Arc<World>) -> bool {
    let ready: Vec<(SandboxId, Generation)> = world
        .oracle
        .sandboxes()
        .into_iter()
        .filter_map(|id| world.oracle.durable(id))
        .filter(|record| record.life.phase == Phase::Ready)
        .map(|record| (record.meta.id, record.life.generation))
        .collect();
    if let Some(gateway) = world.serving() {
        gateway.fence.kill();
    }
    // The next one is there when it says so.
    tokio::time::sleep(LOOK).await;
    if !settled(world, "after a quiet restart of the gateway").await {
        return false;
    }
    for (id, run) in ready {
        let now = world.oracle.durable(id).map(|record| record.life);
        if now
            .as_ref()
            .is_none_or(|life| life.generation != run || life.phase != Phase::Ready)
        {
            let what = format!("run {run} was not taken back as it was");
            world.oracle.violated("L9", Some(id), &what);
        }
    }
    true
}

/// Asks the same of every sandbox, and lets it come about.
async fn all(world: &Arc<World>, ask: Ask, when: &str) -> bool {
    world
        .timeline
        .say("client", || format!("asks to {ask:?} every sandbox"));
    for id in world.oracle.sandboxes() {
        let Some(gateway) = serving(world).await else {
            world.oracle.violated("L16", None, "no gateway serves");
            return false;
        };
        let mut answer = ask_for(world, &gateway, id, ask).await;
        if answer.is_none() {
            // That gateway's end was under way already.
            tokio::time::sleep(LOOK).await;
            if let Some(next) = serving(world).await {
                answer = ask_for(world, &next, id, ask).await;
            }
        }
        if !matches!(answer, Some(Ok(_))) {
            let what = format!("{ask:?} is answered with {answer:?}");
            world.oracle.violated("L7", Some(id), &what);
            return false;
        }
    }
    settled(world, when).await
}

async fn serving(world: &World) -> Option<Arc<crate::sim::gateway::Gateway>> {
    let serving = world.gateway.until(Option::is_some);
    tokio::time::timeout(Duration::from_secs(60), serving)
        .await
        .ok()?;
    world.serving()
}

async fn settled(world: &World, when: &str) -> bool {
    let deadline = Instant::now() + SETTLES;
    loop {
        tokio::time::sleep(LOOK).await;
        let moving = world.oracle.unsettled(world);
        let Some((id, what)) = moving else {
            return true;
        };
        if Instant::now() >= deadline {
            let what = format!("{when} it does not settle: {what}");
            world.oracle.violated("L16", id, &what);
            return false;
        }
    }
}

fn at_rest(world: &World, asked: Option<Phase>) {
    let oracle = &world.oracle;
    for id in oracle.sandboxes() {
        let Some(record) = oracle.durable(id) else {
            continue;
        };
        for (rule, what) in rests_well(world, &record, asked) {
            oracle.violated(rule, Some(id), &what);
        }
    }
    oracle.containers_accounted_for();
    oracle.foreigners_untouched();
}

/// What is wrong with one sandbox at rest.
fn rests_well(
    world: &World,
    record: &SandboxRecord,
    asked: Option<Phase>,
) -> Vec<(&'static str, String)> {
    let mut wrong = Vec::new();
    let life = &record.life;
    let failed = life.phase == Phase::Error && life.condition.reason == Reason::StopFailed;
    match (life.intent, life.phase) {
        (Intent::Stopped, Phase::Stopped) => {}
        (Intent::Stopped, Phase::Error) if failed => {}
        (Intent::Running, Phase::Ready | Phase::Completed | Phase::Error) => {}
        (intent, phase) => {
            wrong.push((
                "L7",
                format!("it rests in {phase}, and should be {intent:?}"),
            ));
        }
    }
    if let Some(asked) = asked
        && life.phase != asked
    {
        let what = format!(
            "it is {} ({}: {}), and {asked} was asked for",
            life.phase, life.condition.reason, life.condition.message
        );
        wrong.push(("L7", what));
    }
    let running = {
        let known = locked(&world.oracle.known);
        let truth = known.truths.get(&record.meta.id);
        truth.and_then(|t| t.launched().map(|(id, run)| (id.clone(), run)))
    };
    match (life.phase, running) {
        (Phase::Ready, Some((container, run))) => {
            wrong.extend(lives_well(world, record, &container, run));
        }
        (Phase::Ready, None) => {
            wrong.push((
                "Ready",
                "it is Ready, and its workload does not run".to_owned(),
            ));
        }
        (_, Some((container, run))) if !failed => {
            let what = format!(
                "{} of run {run} runs, and it is {} ({})",
                short(&container),
                life.phase,
                life.condition.reason
            );
            wrong.push(("L11", what));
        }
        _ => {}
    }
    wrong
}

/// What is wrong with one that is Ready.
fn lives_well(
    world: &World,
    record: &SandboxRecord,
    container: &ContainerId,
    run: Generation,
) -> Vec<(&'static str, String)> {
    let mut wrong = Vec::new();
    if run != record.life.generation {
        let what = format!(
            "run {run} runs, and run {} is recorded",
            record.life.generation
        );
        wrong.push(("Ready", what));
    }
    let Some(workload) = locked(&world.workloads).get(container).cloned() else {
        return wrong;
    };
    let inside = workload.inside();
    if !matches!(inside.main, MainReport::Running(_)) {
        wrong.push((
            "Ready",
            format!("it is Ready, and main is {:?}", inside.main),
        ));
    }
    if workload.is_frozen() {
        wrong.push(("Ready", "it is Ready, and frozen".to_owned()));
    }
    if !world.oracle.supervisor_runs(record.meta.id) {
        wrong.push(("L11", "it is Ready without a supervisor".to_owned()));
    }
    wrong
}

fn nothing_left(world: &World) {
    let oracle = &world.oracle;
    for (container, of, ..) in world.engine.holdings() {
        let what = format!("{} is left after the delete", short(&container));
        oracle.violated("L13", Some(of), &what);
    }
    let stored = world.store.sandboxes().now_or_never();
    if !matches!(stored, Some(Ok((records, _))) if records.is_empty()) {
        oracle.violated("L13", None, "records are left after the deletes");
    }
    oracle.foreigners_untouched();
}

impl Oracle {
    /// Something that has not come to rest yet.
    fn unsettled(&self, world: &World) -> Option<(Option<SandboxId>, String)> {
        let Some(gateway) = world.serving() else {
            return Some((None, "no gateway serves".to_owned()));
        };
        for id in self.sandboxes() {
            let Some(shown) = gateway.fence.by_id(id) else {
                return Some((Some(id), "it is not shown".to_owned()));
            };
            let life = &shown.life;
            let moving = match life.phase {
                Phase::Ready | Phase::Stopped | Phase::Completed => false,
                Phase::Error => life.restart.next.is_some(),
                _ => true,
            };
            if moving || life.operation.is_some() || !life.retired.is_empty() {
                let what = format!(
                    "{} ({}: {}), operation {:?}, retired {:?}",
                    life.phase,
                    life.condition.reason,
                    life.condition.message,
                    life.operation.as_ref().map(|o| o.kind),
                    life.retired
                );
                return Some((Some(id), what));
            }
            let running = self.supervisor_runs(id);
            let launched = locked(&self.known)
                .truths
                .get(&id)
                .is_some_and(|t| t.launched().is_some());
            // What was just lost is about to be noticed, and what cannot be governed to be stopped.
            let truly = running && launched && inside_runs(world, id);
            let ready = life.phase == Phase::Ready;
            let left = launched && !ready && life.condition.reason != Reason::StopFailed;
            if left || (ready && !truly) {
                let what = format!("it is {}, and in truth it is not", life.phase);
                return Some((Some(id), what));
            }
        }
        None
    }

    /// Every container of ours is recorded, or a run's that never began and is not in the way (L13).
    fn containers_accounted_for(&self) {
        for (container, of, role, running) in self.engine.holdings() {
            let Some(record) = self.durable(of) else {
                let what = format!("{} is left without a record", short(&container));
                self.violated("L13", Some(of), &what);
                continue;
            };
            let run = record.life.run.as_ref();
            let recorded = match role {
                Role::Workload => run.and_then(|r| r.workload.as_ref()),
                Role::Supervisor => run.and_then(|r| r.supervisor.as_ref()),
            };
            if recorded != Some(&container) && running {
                let what = format!("{} runs and is not recorded", short(&container));
                self.violated("L13", Some(of), &what);
            }
        }
    }

    /// Each line of a journal begins where the one before it ended, and the last ends where the record is.
    fn journals_explain(&self, world: &World) {
        for id in self.sandboxes() {
            let Some(Ok(lines)) = world.store.journal_tail(id, 10_000).now_or_never() else {
                self.violated("journal", Some(id), "it cannot be read");
                continue;
            };
            let mut phase = None;
            for line in &lines {
                if line.old_phase != phase {
                    let what = format!(
                        "line {} begins in {:?}, and the one before it ended in {phase:?}",
                        line.sequence, line.old_phase
                    );
                    self.violated("journal", Some(id), &what);
                }
                phase = Some(line.new_phase);
            }
            let now = self.durable(id).map(|r| r.life.phase);
            if phase != now {
                let what = format!("{} ends in {phase:?}, and is {now:?}", nick(id));
                self.violated("journal", Some(id), &what);
            }
        }
    }
}

fn inside_runs(world: &World, id: SandboxId) -> bool {
    world
        .workload(id)
        .is_some_and(|w| matches!(w.inside().main, MainReport::Running(_)) && !w.is_frozen())
}
