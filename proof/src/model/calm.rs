//! Liveness: with nothing going wrong any more and everything delivered, every situation comes to rest where its
//! user wants it.

use openshell_core::{Phase, Reason, RestartPolicy};
use openshell_lifecycle::driver::Role;
use openshell_lifecycle::machine::{Command, Course, State, Timer};

use super::action::Action;
use super::apply::apply;
use super::canon::fingerprint;
use super::enabled::enabled;
use super::explore::{Next, Seen, System};
use super::wiring::{Setup, Violation, recorded};
use super::world::{Asked, Gateway, Main, Workload, World};

/// What happens next when nothing goes wrong: the first in the order of calm that changes anything.
pub(super) fn next(setup: &Setup, world: &World) -> Result<Next<Setup>, (Action, Violation)> {
    let mut possible: Vec<(u8, Action)> = enabled(setup, world)
        .into_iter()
        .filter_map(|action| Some((rank(world, action)?, action)))
        .collect();
    possible.sort_by_key(|(rank, _)| *rank);
    let before = fingerprint(world);
    for (_, action) in possible {
        let after = apply(setup, world, action).map_err(|violation| (action, violation))?;
        if fingerprint(&after) != before {
            return Ok(Some((action, after)));
        }
    }
    // A stop that has failed may be asked for again, and then is done (L6).
    if stop_failed(world) {
        let again = Action::Command(Command::Stop);
        let after = apply(setup, world, again).map_err(|violation| (again, violation))?;
        return Ok(Some((again, after)));
    }
    Ok(None)
}

/// The place of an action in the order of calm; none if it would be something going wrong, or a user's wish.
fn rank(world: &World, action: Action) -> Option<u8> {
    Some(match action {
        Action::Return | Action::EngineUp => 0,
        Action::Connected => 1,
        Action::Answer(_) | Action::Saw(_) => 2,
        Action::Do(_) | Action::See(_) | Action::Retire(_) => 3,
        Action::Waited(_) | Action::Started => 4,
        Action::Closed => 5,
        Action::LinkBack => 6,
        Action::Hello => 7,
        Action::MainStarts | Action::TellStarted | Action::TellEnded | Action::TellLink => 8,
        Action::GivesUp => 9,
        Action::Leaves => 10,
        Action::Stray(_) => 11,
        Action::Crash if parked(world) => 12,
        Action::Timer(timer) => {
            let place = Timer::ALL.iter().position(|t| *t == timer);
            20 + u8::try_from(place.unwrap_or(0)).unwrap_or(0)
        }
        _ => return None,
    })
}

/// A gateway that was told to end, and has nothing left to do.
fn parked(world: &World) -> bool {
    world.cell().is_some_and(|cell| {
        let state = &cell.machine.state;
        cell.draining && state.course == Course::Rest && state.retiring.is_empty()
    })
}

/// Goes on calmly until everything rests, or a situation is met that is known to come to rest. If it is as it
/// should be, what was met is known from then on.
pub(super) fn settle<S: System>(
    system: &S,
    world: &S::World,
    known: &mut Seen,
) -> Result<(), (Violation, Vec<S::Action>)> {
    let mut world = world.clone();
    let mut trail = Vec::new();
    let mut met = Seen::default();
    loop {
        let hash = fingerprint(&world);
        if known.contains(&hash) {
            break;
        }
        if !met.insert(hash) {
            return Err((Violation::new("L16", "it goes round for ever"), trail));
        }
        match system.calm(&world) {
            Ok(Some((action, after))) => {
                trail.push(action);
                world = after;
            }
            Ok(None) => {
                system.rests(&world).map_err(|wrong| (wrong, trail))?;
                break;
            }
            Err((action, violation)) => {
                trail.push(action);
                return Err((violation, trail));
            }
        }
    }
    known.extend(met);
    Ok(())
}

/// What a world comes to by itself, with as much that may go wrong as before.
pub(super) fn after(setup: &Setup, world: &World) -> anyhow::Result<World> {
    let mut world = world.clone();
    loop {
        match next(setup, &world) {
            Ok(Some((_, after))) => world = after,
            Ok(None) => return Ok(world),
            Err((_, violation)) => anyhow::bail!("{}: {}", violation.rule, violation.what),
        }
    }
}

fn stop_failed(world: &World) -> bool {
    world.state().is_some_and(|state| {
        let life = &state.record.life;
        life.phase == Phase::Error && life.condition.reason == Reason::StopFailed
    })
}

fn wrong(what: impl Into<String>) -> Result<(), Violation> {
    Err(Violation::new("liveness", what))
}

/// Whether what has come to rest is what was asked for.
pub(super) fn stable(setup: &Setup, world: &World) -> Result<(), Violation> {
    let state = match &world.gateway {
        Gateway::Gone => return Ok(()),
        Gateway::Down(_) => return wrong("the gateway stays down"),
        Gateway::Up(cell) => &cell.machine.state,
    };
    let life = &state.record.life;
    let (phase, reason) = (life.phase, life.condition.reason);
    let failed = phase == Phase::Error;
    let as_asked = match world.oracle.asked {
        Asked::Vanish => false,
        Asked::Rest => phase == Phase::Stopped,
        Asked::Run => {
            phase == Phase::Ready
                || failed
                || (phase == Phase::Completed && setup.policy != RestartPolicy::Always)
        }
    };
    if !as_asked {
        return wrong(format!(
            "asked {:?}, and it rests {phase} / {reason}",
            world.oracle.asked
        ));
    }
    if phase == Phase::Ready {
        runs(world, state)?;
    } else if world
        .workload
        .is_some_and(|w| w.status.runs() && !w.meddled)
    {
        return wrong(format!(
            "it rests {phase} / {reason}, and its workload runs"
        ));
    }
    nothing_left(world, state)
}

/// Ready, and truly so.
fn runs(world: &World, state: &State) -> Result<(), Violation> {
    let run = world.present();
    let workload = world
        .workload
        .is_some_and(|w| w.status.runs() && w.run == run && w.main == Main::Running && !w.frozen);
    let supervisor = world
        .supervisor(run)
        .is_some_and(|s| s.status.runs() && s.session);
    if !workload || !supervisor || state.record.life.operation.is_some() {
        return wrong("it rests Ready, and does not run");
    }
    Ok(())
}

/// Whether no run of ours has ever used it: only somebody else can have started it.
const fn unlaunched(world: &World, workload: Workload) -> bool {
    world.oracle.launched & (1 << workload.run) == 0
}

/// L13: nothing is left but what the record names.
fn nothing_left(world: &World, state: &State) -> Result<(), Violation> {
    let supervisor = recorded(state, Role::Supervisor);
    if world.supervisors.iter().any(|s| Some(s.run) != supervisor)
        || !state.record.life.retired.is_empty()
    {
        return Err(Violation::new("L13", "an ended run's supervisor is left"));
    }
    let workload = recorded(state, Role::Workload);
    // One that a lost answer left unrecorded was never launched; the next start, or the delete, finds it by name.
    let unrecorded = |w: Workload| Some(w.number) != workload && !unlaunched(world, w);
    if world.workload.is_some_and(unrecorded) {
        return Err(Violation::new(
            "L13",
            "a workload's container is left that no record names",
        ));
    }
    if state.record.life.phase == Phase::Ready && world.workload.is_none() {
        return wrong("Ready without a container");
    }
    Ok(())
}
