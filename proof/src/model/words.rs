//! A counter-example as a person reads it.

use std::fmt::Write as _;

use openshell_lifecycle::machine::Course;

use super::action::Action;
use super::apply::apply;
use super::explore::Found;
use super::wiring::Setup;
use super::world::{Gateway, Stage, Status, World};

/// The whole story: what happened, and what was so afterwards.
pub(super) fn story(setup: &Setup, roots: &[World], found: &Found<Action>) -> Vec<String> {
    let Some(mut world) = roots.get(found.root).cloned() else {
        return Vec::new();
    };
    let mut lines = vec![format!("      {}", so(&world))];
    let calm_from = found.trace.len() - found.calm;
    for (at, action) in found.trace.iter().enumerate() {
        if at == calm_from {
            lines.push("      (from here on nothing goes wrong any more)".to_owned());
        }
        lines.push(format!("  {:>3} {}", at + 1, what(&world, *action)));
        match apply(setup, &world, *action) {
            Ok(after) => world = after,
            Err(_) => break,
        }
        lines.push(format!("      {}", so(&world)));
    }
    lines.push(format!(
        "  {}: {}",
        found.violation.rule, found.violation.what
    ));
    lines
}

/// An action, with what it is about.
fn what(world: &World, action: Action) -> String {
    let call = |at: u8| {
        world
            .calls
            .get(usize::from(at))
            .map_or(String::new(), |call| {
                let reply = match call.stage {
                    Stage::Answered(reply) => format!(", {reply:?}"),
                    _ => String::new(),
                };
                format!(
                    " [{:?} of run {}{reply}]",
                    call.work, call.ticket.generation
                )
            })
    };
    let look = |at: u8| {
        world
            .looks
            .get(usize::from(at))
            .map_or(String::new(), |look| match look.seen {
                Some(seen) => format!(" [{} {}: {seen:?}]", look.role, look.number),
                None => format!(" [{} {}]", look.role, look.number),
            })
    };
    let about = match action {
        Action::Do(at) | Action::Half(at, _) | Action::Answer(at) | Action::Trouble(at, _) => {
            call(at)
        }
        Action::See(at) | Action::SeeOdd(at, _) | Action::Saw(at) => look(at),
        _ => String::new(),
    };
    format!("{action}{about}")
}

/// How things stand.
fn so(world: &World) -> String {
    let mut text = String::new();
    match &world.gateway {
        Gateway::Gone => text.push_str("the record is gone"),
        Gateway::Down(machine) => {
            let life = &machine.state.record.life;
            let _infallible = write!(
                text,
                "stored: {} / {}, run {}",
                life.phase, life.condition.reason, life.generation
            );
        }
        Gateway::Up(cell) => {
            let state = &cell.machine.state;
            let life = &state.record.life;
            let _infallible = write!(
                text,
                "{} / {}, run {}, {}",
                life.phase,
                life.condition.reason,
                life.generation,
                course(&state.course)
            );
        }
    }
    let status = |status: Status| match status {
        Status::Created => "made",
        Status::Running(_) => "runs",
        Status::Exited { .. } => "ended",
    };
    if let Some(workload) = &world.workload {
        let _infallible = write!(text, "; workload {}", status(workload.status));
    }
    for supervisor in &world.supervisors {
        let session = if supervisor.session {
            ", in session"
        } else {
            ""
        };
        let _infallible = write!(
            text,
            "; supervisor {} {}{session}",
            supervisor.run,
            status(supervisor.status)
        );
    }
    if !world.engine {
        text.push_str("; the engine is away");
    }
    text
}

fn course(course: &Course) -> String {
    match course {
        Course::Bring(stage) => format!("bringing it up ({stage:?})"),
        Course::Halt(halt) => match &halt.then {
            openshell_lifecycle::machine::Then::Settle(end) => {
                format!("halting, then settling {:?}", end.cause)
            }
            then => format!("halting, then {then:?}"),
        },
        Course::Prove(_) => "proving".to_owned(),
        Course::Rest => "resting".to_owned(),
        Course::Run => "running".to_owned(),
        Course::Remove => "removing".to_owned(),
    }
}
