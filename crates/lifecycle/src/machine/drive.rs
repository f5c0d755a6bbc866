//! The next engine call, from what is being brought about: the one place where one is begun.

use openshell_core::Generation;

use super::{Course, Effect, Stage, Ticket, Timer, Turn, Work, settle};
use crate::driver::{Prepared, Role};
use crate::machine::{Activity, Halt};

/// Begins what is to be done next, if nothing is in flight that must come out first.
pub(super) fn drive(turn: &mut Turn<'_>) {
    retire(turn);
    if turn.s.activity.is_some() || turn.s.timers.contains_key(&Timer::Retry) {
        return;
    }
    match turn.s.course.clone() {
        Course::Bring(Stage::Image) => begin(turn, Work::Image, Effect::PrepareImage),
        Course::Bring(Stage::Prepare) => begin(turn, Work::Prepare, Effect::PrepareRun),
        Course::Bring(Stage::Launch) => launch(turn),
        Course::Halt(halt) => stop(turn, &halt),
        Course::Remove => {
            let containers = turn.containers();
            begin(turn, Work::Remove, |t| Effect::RemoveAll(t, containers));
        }
        Course::Prove(proof) => {
            if turn.s.timers.contains_key(&Timer::Look) {
                return;
            }
            if proof.workload.is_none() {
                look(turn, Role::Workload);
            }
            if proof.supervisor.is_none() {
                look(turn, Role::Supervisor);
            }
        }
        Course::Rest | Course::Run | Course::Bring(Stage::Session) => {}
    }
}

fn begin(turn: &mut Turn<'_>, work: Work, effect: impl FnOnce(Ticket) -> Effect) {
    turn.s.serial += 1;
    let ticket = Ticket {
        serial: turn.s.serial,
        generation: generation(turn),
        operation: turn.s.record.life.operation.as_ref().map(|o| o.id),
    };
    turn.s.activity = Some(Activity { ticket, work });
    turn.effects.push(effect(ticket));
}

fn generation(turn: &Turn<'_>) -> Generation {
    turn.s.record.life.generation
}

fn launch(turn: &mut Turn<'_>) {
    let prepared = turn.run().and_then(|run| {
        Some(Prepared {
            workload: run.workload.clone()?,
            supervisor: run.supervisor.clone()?,
            engine: turn.s.record.life.engine.clone()?,
        })
    });
    match prepared {
        Some(prepared) => {
            // From here on it may run, whatever the answer (L10).
            turn.s.idle = false;
            begin(turn, Work::Launch, |t| Effect::Launch(t, prepared));
        }
        // Nothing is recorded that could be launched: make it.
        None => {
            turn.s.course = Course::Bring(Stage::Prepare);
            begin(turn, Work::Prepare, Effect::PrepareRun);
        }
    }
}

fn stop(turn: &mut Turn<'_>, halt: &Halt) {
    if halt.scrub {
        let containers = turn.containers();
        begin(turn, Work::Remove, |t| Effect::RemoveAll(t, containers));
        return;
    }
    match turn.workload_id() {
        Some(container) if !turn.s.idle => {
            let grace = halt.grace;
            begin(turn, Work::Stop, |t| {
                Effect::StopWorkload(t, container, grace)
            });
        }
        _ => {
            settle::halted(turn, None);
            // What follows may begin at once: a new run, but never another halt.
            drive(turn);
        }
    }
}

/// Asks the engine about one half, unless that question is already under way.
pub(super) fn look(turn: &mut Turn<'_>, role: Role) {
    let container = turn.run().and_then(|run| match role {
        Role::Workload => run.workload.clone(),
        Role::Supervisor => run.supervisor.clone(),
    });
    if let Some(container) = container
        && !turn.s.looking.contains_key(&role)
    {
        turn.s.serial += 1;
        let serial = turn.s.serial;
        turn.s.looking.insert(role, serial);
        turn.effects.push(Effect::Look(role, container, serial));
    }
}

fn retire(turn: &mut Turn<'_>) {
    if turn.s.timers.contains_key(&Timer::Retire) || turn.s.course == Course::Remove {
        return;
    }
    let generation = generation(turn);
    for container in turn.s.record.life.retired.clone() {
        if turn.s.retiring.insert(container.clone()) {
            turn.effects
                .push(Effect::RemoveSupervisor(container, generation));
        }
    }
}
