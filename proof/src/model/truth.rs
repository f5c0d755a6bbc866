//! What is so in a world, held against what the record says of it.

use openshell_core::{Generation, Intent, Phase};
use openshell_lifecycle::machine::{Course, State, Timer, Work};

use super::rules::{Held, broken};
use super::world::{Asked, World, number, small};

/// What a world may be.
pub(super) fn world(world: &World) -> Held {
    let running = world.workload.filter(|w| w.status.runs() && !w.meddled);
    let Some(record) = world.stored() else {
        return gone(world);
    };
    let life = &record.life;
    let asked = match life.intent {
        Intent::Running => Asked::Run,
        Intent::Stopped => Asked::Rest,
        Intent::Deleted => Asked::Vanish,
    };
    if asked != world.oracle.asked {
        return broken(
            "L2",
            format!(
                "the store says {:?}, the user said {:?}",
                life.intent, world.oracle.asked
            ),
        );
    }
    if world.oracle.held != life.hold.is_some() {
        return broken(
            "hold",
            "the store does not say what the user said about holding it",
        );
    }
    // What is taken for ended comes before what the record names: the one is why the other is so.
    if running.is_some() {
        unended(world, life.phase)?;
    }
    if let Some(workload) = running {
        let named = life.run.as_ref().is_some_and(|run| {
            run.supervisor.is_some() && run.workload.as_ref().map(number) == Some(workload.number)
        });
        if life.generation != Generation(workload.run.into()) || !named {
            return broken(
                "L2",
                format!("run {} runs, and the record does not say so", workload.run),
            );
        }
    }
    world.state().map_or(Ok(()), |state| ready(world, state))
}

/// L6: what runs is not taken for ended, neither in public nor by the machine.
fn unended(world: &World, phase: Phase) -> Held {
    if matches!(phase, Phase::Stopped | Phase::Completed) {
        return broken("L6", format!("it is {phase}, and its workload runs"));
    }
    let taken = world
        .state()
        .is_some_and(|state| state.idle && state.activity.is_none_or(|a| a.work != Work::Launch));
    if taken {
        return broken("L6", "it is taken for not running, and it runs");
    }
    Ok(())
}

fn gone(world: &World) -> Held {
    if world.workload.is_some() || !world.supervisors.is_empty() {
        return broken("L13", "the record is gone, and containers are left");
    }
    if world.oracle.asked != Asked::Vanish {
        return broken("L12", "the record is gone, and nobody asked for that");
    }
    Ok(())
}

/// Ready means that this run's main was started and its supervisor is, or was just, in session; and what is
/// called running is not held frozen.
fn ready(world: &World, state: &State) -> Held {
    let life = &state.record.life;
    match life.phase {
        Phase::Ready => {
            let run = small(life.generation.0);
            if world.oracle.mains & 1 << run == 0 {
                return broken(
                    "L3",
                    format!("run {run} is Ready, and its main was never started"),
                );
            }
            let awaited = state.timers.contains_key(&Timer::SessionGrace);
            if !state.session.is_some_and(|s| s.linked)
                && !awaited
                && state.reported.is_none()
                && state.ended.is_none()
            {
                return broken("L16", "it is Ready without a session, and none is awaited");
            }
            let frozen = world.workload.is_some_and(|w| w.frozen && w.status.runs());
            let heard = world
                .cell()
                .is_some_and(|cell| cell.handle == Some((run, true)));
            if frozen && heard && !state.frozen && state.course == Course::Run {
                return broken("L11", "it is Ready, and ordered frozen");
            }
            Ok(())
        }
        Phase::Unknown if !state.frozen => {
            broken("L11", "it is Unknown, and was not ordered frozen")
        }
        _ => Ok(()),
    }
}
