//! What comes late: an earlier run's observations, an earlier session's words, answers that nobody waits for.

use openshell_core::{EngineId, Generation, Incarnation, Timestamp};
use openshell_lifecycle::driver::{
    EngineEvent, EngineEventKind, EngineExit, Role, Sighting, StopOutcome, WaitOutcome,
};
use openshell_lifecycle::machine::{Input, Opened, Outcome, State, Ticket, Work};
use openshell_lifecycle::ports::{MainReport, SessionEvent};

use super::action::Stale;
use super::time::{RECENTLY, at, moment};
use super::wiring::{present, recorded};
use super::world::{ENGINE, id, instance, small};

/// No ticket and no question has it.
const NO_SERIAL: u64 = 9999;

/// It, as it is; or, with a planted fault, as if it were of the present run. None if there is nothing earlier.
pub(super) fn input(state: &State, which: Stale, as_current: bool) -> Option<Input> {
    let run = present(state);
    let earlier = run.checked_sub(1).filter(|earlier| *earlier > 0)?;
    let speaks_of = if as_current { run } else { earlier };
    let session = |event| {
        Some(Input::SessionEvent(
            Generation(speaks_of.into()),
            instance(speaks_of),
            event,
        ))
    };
    match which {
        Stale::Exit(role) => exited(state, role, as_current),
        Stale::Died(role) => died(state, role, as_current),
        Stale::Hello => Some(Input::SessionOpened(Opened {
            generation: Generation(speaks_of.into()),
            instance: instance(earlier),
            enforced: true,
            main: MainReport::Running(at(RECENTLY)),
        })),
        Stale::MainEnded => session(SessionEvent::MainExited(17, at(RECENTLY), String::new())),
        Stale::Closed => session(SessionEvent::Closed("late".to_owned())),
        Stale::Answer => answer(state, as_current),
        Stale::Look(role) => {
            let serial = state.looking.get(&role).copied();
            let serial = if as_current { serial? } else { NO_SERIAL };
            Some(Input::Looked {
                role,
                serial,
                answer: Ok(Sighting::Missing(EngineId(ENGINE.to_owned()))),
            })
        }
    }
}

fn exit() -> EngineExit {
    EngineExit {
        code: 17,
        oom_killed: false,
        finished_at: Timestamp::UNIX_EPOCH,
    }
}

fn incarnation(state: &State, role: Role) -> Option<Incarnation> {
    let run = state.record.life.run.as_ref()?;
    match role {
        Role::Workload => run.workload_incarnation(),
        Role::Supervisor => run.supervisor_incarnation(),
    }
}

fn exited(state: &State, role: Role, as_current: bool) -> Option<Input> {
    let incarnation = if as_current {
        incarnation(state, role)?
    } else {
        Incarnation {
            container: id(role, recorded(state, role)?),
            started_at: Timestamp::UNIX_EPOCH,
        }
    };
    let outcome = WaitOutcome::Exited(incarnation.clone(), exit());
    Some(Input::Waited(role, incarnation, outcome))
}

fn died(state: &State, role: Role, as_current: bool) -> Option<Input> {
    incarnation(state, role)?;
    Some(Input::Event(EngineEvent {
        sandbox: state.record.meta.id,
        role,
        container: id(role, recorded(state, role)?),
        kind: EngineEventKind::Died { code: 17 },
        time: if as_current {
            moment(63)
        } else {
            Timestamp::UNIX_EPOCH
        },
    }))
}

fn answer(state: &State, as_current: bool) -> Option<Input> {
    let stopped = Outcome::Stopped(Ok(StopOutcome::NotRunning(exit())));
    if !as_current {
        let ticket = Ticket {
            serial: NO_SERIAL,
            generation: state.record.life.generation,
            operation: None,
        };
        return Some(Input::Outcome(ticket, stopped));
    }
    let activity = state.activity?;
    let outcome = match activity.work {
        Work::Stop => stopped,
        Work::Remove => Outcome::Removed(Ok(())),
        Work::Image | Work::Prepare | Work::Launch => return None,
    };
    debug_assert!(small(activity.ticket.serial) > 0, "a ticket has a serial");
    Some(Input::Outcome(activity.ticket, outcome))
}
