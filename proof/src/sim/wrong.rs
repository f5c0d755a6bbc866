//! What can be planted in the wiring, and nowhere else: a check that does not find each of these proves nothing.

use std::time::Duration;

use openshell_core::{ContainerId, Incarnation, SandboxId};
use openshell_lifecycle::ComputeDriver as _;
use openshell_lifecycle::driver::{
    DriverError, DriverErrorKind, EngineExit, Launched, Owned, Permit, Prepared, Role, RunRequest,
    Sighting, StopOutcome, WaitOutcome,
};
use openshell_lifecycle::ports::{Environment as _, SessionEvent, SessionHello};

use super::network::Network;
use super::world::{World, locked};

macro_rules! faults {
    ($($(#[doc = $doc:literal])* $name:ident = $word:literal,)*) => {
        /// A fault that is planted in the wiring around the fence; where the model plants the same, by its word.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
        pub enum Planted {
            $($(#[doc = $doc])* $name,)*
        }

        impl Planted {
            /// Every one.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            /// Its name.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$name => $word,)*
                }
            }

            /// What is done wrong.
            pub const fn describe(self) -> &'static str {
                match self {
                    $(Self::$name => concat!($($doc),*).trim_ascii(),)*
                }
            }
        }
    };
}

faults! {
    /// an earlier run's exit is passed on as the present run's (L3)
    StaleAsCurrent = "stale-as-current",
    /// what was written last is not there after a crash (L2)
    ForgetWriteAhead = "forget-write-ahead",
    /// a broken wait is passed on as an exit (L4)
    BrokenWaitAsExit = "broken-wait-as-exit",
    /// an engine that cannot be asked is passed on as one that has no such container (L4, L18)
    UnknownAsMissing = "unknown-as-missing",
    /// an empty engine is taken for the one that holds everything (L18)
    ForeignAsOwn = "foreign-as-own",
    /// a launch whose answer is lost is made again (L10)
    LaunchTwice = "launch-twice",
    /// a launch is answered with the start of an earlier run (L3)
    OldStart = "old-start",
    /// a stop is acknowledged before the engine says not running (L6)
    StopUnconfirmed = "stop-unconfirmed",
    /// a failed stop is passed on as done (L6)
    StopFailureAsSuccess = "stop-failure-as-success",
    /// an ended run's supervisor is said to be removed, and is not (L13)
    SupervisorsLeft = "supervisors-left",
    /// a failed removal of an ended run's supervisor is passed on as done (L13)
    RetireFailureAsSuccess = "retire-failure-as-success",
    /// a failed removal of everything is passed on as done (L13)
    RemoveFailureAsSuccess = "remove-failure-as-success",
    /// what carries copied labels is removed with a sandbox (L14)
    ForeignersRemoved = "foreigners-removed",
    /// what carries copied labels is listed as ours (L14)
    ForeignersListed = "foreigners-listed",
    /// a kept container is not looked for: each run gets a new one
    NothingKept = "nothing-kept",
    /// a session of an earlier run is passed on as the present run's (L3)
    OldSessionAsCurrent = "old-session-as-current",
    /// a session's end is passed on as the end of its run (L4)
    ClosedAsExit = "closed-as-exit",
    /// an order to thaw is lost
    LoseThaw = "lose-thaw",
    /// calls to the engine wait for each other (L15)
    OneAtATime = "one-at-a-time",
}

impl World {
    pub(super) fn has(&self, fault: Planted) -> bool {
        self.fault == Some(fault)
    }
}

fn killed(world: &World) -> EngineExit {
    EngineExit {
        code: 137,
        oom_killed: false,
        finished_at: world.environment.now(),
    }
}

/// The launch, as it is answered.
pub(super) fn launched(
    network: &Network,
    permit: &Permit,
    run: &Prepared,
    outcome: Result<Launched, DriverError>,
) -> Result<Launched, DriverError> {
    let world = &network.world;
    let lost = matches!(&outcome, Err(e) if e.kind == DriverErrorKind::Unreachable);
    if world.has(Planted::LaunchTwice) && lost {
        let (world, run) = (std::sync::Arc::clone(world), run.clone());
        let permit = Permit::for_tests(permit.sandbox(), permit.generation());
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_secs(1)).await;
            let _whatever = world.engine.launch(&permit, &run).await;
        });
    }
    if world.has(Planted::OldStart)
        && let Some((ended, _)) = locked(&world.ended).get(&run.workload)
    {
        return outcome.map(|launched| Launched {
            workload: ended.clone(),
            ..launched
        });
    }
    outcome
}

/// The stop, before it is made.
pub(super) fn stop(
    network: &Network,
    permit: &Permit,
    container: &ContainerId,
) -> Option<StopOutcome> {
    if !network.world.has(Planted::StopUnconfirmed) {
        return None;
    }
    let engine = std::sync::Arc::clone(&network.world.engine);
    let (container, permit) = (
        container.clone(),
        Permit::for_tests(permit.sandbox(), permit.generation()),
    );
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_millis(200)).await;
        let _whatever = engine.stop(&permit, &container, Duration::ZERO).await;
    });
    Some(StopOutcome::NotRunning(killed(&network.world)))
}

/// The stop, as it is answered.
pub(super) fn stopped(
    network: &Network,
    outcome: Result<StopOutcome, DriverError>,
) -> Result<StopOutcome, DriverError> {
    match outcome {
        Err(_) if network.world.has(Planted::StopFailureAsSuccess) => {
            Ok(StopOutcome::NotRunning(killed(&network.world)))
        }
        outcome => outcome,
    }
}

/// What is prepared.
pub(super) fn prepared(network: &Network, run: &RunRequest) -> RunRequest {
    let mut run = run.clone();
    if network.world.has(Planted::NothingKept) {
        run.existing_workload = None;
    }
    run
}

pub(super) fn leaves_supervisors(network: &Network) -> bool {
    network.world.has(Planted::SupervisorsLeft)
}

/// The removal of a supervisor, as it is answered.
pub(super) fn retired(
    network: &Network,
    outcome: Result<(), DriverError>,
) -> Result<(), DriverError> {
    if network.world.has(Planted::RetireFailureAsSuccess) {
        return Ok(());
    }
    outcome
}

/// The removal of everything, as it is answered.
pub(super) fn removed(
    network: &Network,
    sandbox: SandboxId,
    outcome: Result<(), DriverError>,
) -> Result<(), DriverError> {
    let world = &network.world;
    if world.has(Planted::ForeignersRemoved) {
        for foreigner in world.oracle.foreigners_of(sandbox) {
            world.engine.remove_by_hand(&foreigner);
        }
    }
    if world.has(Planted::RemoveFailureAsSuccess) {
        return Ok(());
    }
    outcome
}

/// A look, as it is answered.
pub(super) fn inspected(
    network: &Network,
    container: &ContainerId,
    answer: Result<Sighting, DriverError>,
) -> Result<Sighting, DriverError> {
    let world = &network.world;
    let own = || openshell_core::EngineId(super::blows::OWN.to_owned());
    match answer {
        Err(_) if world.has(Planted::UnknownAsMissing) => Ok(Sighting::Missing(own())),
        Ok(Sighting::Missing(_)) if world.has(Planted::ForeignAsOwn) => {
            Ok(Sighting::Missing(own()))
        }
        Ok(Sighting::Running(seen)) if world.has(Planted::StaleAsCurrent) => {
            match locked(&world.ended).get(container) {
                Some((_, exit)) => Ok(Sighting::Exited(seen, exit.clone())),
                None => Ok(Sighting::Running(seen)),
            }
        }
        answer => answer,
    }
}

/// A wait, as it comes out.
pub(super) fn waited(
    network: &Network,
    incarnation: &Incarnation,
    outcome: WaitOutcome,
) -> WaitOutcome {
    match outcome {
        WaitOutcome::Lost(_) if network.world.has(Planted::BrokenWaitAsExit) => {
            WaitOutcome::Exited(incarnation.clone(), killed(&network.world))
        }
        outcome => outcome,
    }
}

/// What the engine holds, as it is listed.
pub(super) fn listed(network: &Network, mut owned: Vec<Owned>) -> Vec<Owned> {
    let world = &network.world;
    if world.has(Planted::ForeignersListed) {
        for (container, sandbox, generation) in world.oracle.foreigners() {
            owned.push(Owned {
                sandbox,
                role: Role::Supervisor,
                name: container.to_string(),
                container,
                generation: Some(generation),
                running: false,
            });
        }
    }
    owned
}

/// A hello, as it is passed on.
pub(super) fn hello(world: &World, mut hello: SessionHello) -> SessionHello {
    if world.has(Planted::OldSessionAsCurrent)
        && let Some(record) = world.oracle.durable(hello.sandbox)
    {
        hello.generation = record.life.generation;
    }
    hello
}

/// A word of a session, as it is passed on.
pub(super) fn word(world: &World, event: SessionEvent) -> SessionEvent {
    match event {
        SessionEvent::Closed(why) if world.has(Planted::ClosedAsExit) => {
            SessionEvent::Failed("StartFailed".to_owned(), why)
        }
        event => event,
    }
}
