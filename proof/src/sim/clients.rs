//! Clients: bursts of commands on few names, repeated with the same request id when an answer is lost.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;

use openshell_core::{
    ImageRef, RestartPolicy, SandboxId, SandboxName, SandboxRecord, SandboxSpec, WorkspaceName,
};
use openshell_lifecycle::LifecycleFence as _;
use openshell_lifecycle::fence::{CommandError, NewSandbox, Order};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::gateway::Gateway;
use super::world::World;

/// What a client asks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Ask {
    Start,
    Stop,
    Restart,
    Delete,
    Hold,
    Release,
}

/// An answer; nothing if the connection broke before it came.
pub(crate) type Answer = Option<Result<Arc<SandboxRecord>, CommandError>>;

/// Every client at work.
pub(crate) fn begin(world: &Arc<World>) -> JoinSet<()> {
    let mut clients = JoinSet::new();
    for client in 0..world.plan.clients {
        clients.spawn(work(Arc::clone(world), client));
    }
    clients
}

/// The sandbox of a number.
pub(crate) fn name(number: u64) -> SandboxName {
    #[expect(clippy::expect_used, reason = "a letter and a number are a name")]
    SandboxName::new(format!("s{number}")).expect("a letter and a number are a name")
}

async fn work(world: Arc<World>, client: u64) {
    // First everything is there; then it is made a mess of.
    for number in
        (client..world.plan.sandboxes).step_by(usize::try_from(world.plan.clients).unwrap_or(1))
    {
        create(&world, client, number, number).await;
        if world.chance.per_mille(500) {
            tokio::time::sleep(world.chance.spread(1, 2_000)).await;
        }
    }
    let length = u64::try_from(world.plan.length.as_millis()).unwrap_or(u64::MAX);
    for nth in 0..world.plan.commands {
        let pause = if world.chance.per_mille(400) {
            world.chance.millis(0, 5)
        } else {
            world
                .chance
                .spread(5, (2 * length / world.plan.commands.max(1)).max(10))
        };
        tokio::time::sleep(pause).await;
        if world.is_calm() {
            return;
        }
        let number = world.chance.below(world.plan.sandboxes);
        let ask = match world.chance.below(24) {
            0..7 => Ask::Stop,
            7..14 => Ask::Start,
            14..18 => Ask::Restart,
            18..20 => Ask::Delete,
            20 => Ask::Hold,
            21 => Ask::Release,
            _ => {
                create(&world, client, number, 1_000 * (client + 1) + nth).await;
                continue;
            }
        };
        command(&world, client, number, ask).await;
    }
}

/// What a sandbox of this number is made as.
fn wanted(number: u64, request: u64, policy: RestartPolicy) -> NewSandbox {
    NewSandbox {
        name: name(number),
        workspace: WorkspaceName::default_workspace(),
        labels: BTreeMap::new(),
        annotations: BTreeMap::new(),
        spec: SandboxSpec {
            image: Some(ImageRef("busybox".to_owned())),
            restart_policy: policy,
            ..SandboxSpec::default()
        },
        template: None,
        request_id: Some(format!("r{request}")),
    }
}

async fn create(world: &Arc<World>, client: u64, number: u64, request: u64) {
    let policy = match world.chance.below(3) {
        0 => RestartPolicy::Never,
        1 => RestartPolicy::OnFailure,
        _ => RestartPolicy::Always,
    };
    // An answer that is lost is asked for again, with the same id; and now and then one that was not.
    for _ in 0..world.chance.between(1, 4) {
        let Some(gateway) = world.serving() else {
            tokio::time::sleep(world.chance.millis(50, 2_000)).await;
            continue;
        };
        world.timeline.say("client", || {
            format!("{client} asks to create s{number} (r{request})")
        });
        let began = Instant::now();
        let new = wanted(number, request, policy);
        let answer = heard(&gateway, gateway.fence.create(new)).await;
        world.oracle.answered(None, began, &answer);
        if let Some(Ok(record)) = &answer {
            world.oracle.created_by(request, record.meta.id);
        }
        tell(world, client, &answer);
        if answer.is_some() && !world.trouble(100) {
            return;
        }
        tokio::time::sleep(world.chance.millis(5, 500)).await;
    }
}

/// One command on whatever has this name now.
pub(crate) async fn command(world: &Arc<World>, client: u64, number: u64, ask: Ask) {
    let Some(gateway) = world.serving() else {
        return;
    };
    let workspace = WorkspaceName::default_workspace();
    let Some(record) = gateway.fence.by_name(&workspace, &name(number)) else {
        return;
    };
    world
        .timeline
        .say("client", || format!("{client} asks to {ask:?} s{number}"));
    let answer = ask_for(world, &gateway, record.meta.id, ask).await;
    tell(world, client, &answer);
}

/// Asks, and has the oracle hear the answer.
pub(crate) async fn ask_for(
    world: &Arc<World>,
    gateway: &Gateway,
    id: SandboxId,
    ask: Ask,
) -> Answer {
    let began = Instant::now();
    let fence = &gateway.fence;
    let answer = match ask {
        Ask::Start => heard(gateway, fence.start(id)).await,
        Ask::Stop => heard(gateway, fence.stop(id)).await,
        Ask::Restart => heard(gateway, fence.restart(id)).await,
        Ask::Delete => heard(gateway, fence.delete(id)).await,
        Ask::Hold => {
            let order = Order::Hold {
                by: "somebody".to_owned(),
                reason: String::new(),
            };
            heard(gateway, fence.order(id, order, None)).await
        }
        Ask::Release => heard(gateway, fence.order(id, Order::Release, None)).await,
    };
    world.oracle.answered(Some((id, ask)), began, &answer);
    answer
}

async fn heard(
    gateway: &Gateway,
    asked: impl Future<Output = Result<Arc<SandboxRecord>, CommandError>>,
) -> Answer {
    let answer = gateway.killed().run_until_cancelled(asked).await;
    answer.filter(|_| !gateway.killed().is_cancelled())
}

fn tell(world: &World, client: u64, answer: &Answer) {
    world.timeline.say("client", || {
        let what = match answer {
            None => "hears nothing: the connection broke".to_owned(),
            Some(Ok(record)) => format!("hears {}", record.life.phase),
            Some(Err(error)) => format!("hears: {error}"),
        };
        format!("{client} {what}")
    });
}
