//! The promises, as predicates on what a step does and on what a world is; each named by its rule.

use openshell_core::journal::Verdict;
use openshell_core::{ExitCause, Intent, Phase, Reason, RestartPolicy};
use openshell_lifecycle::driver::{Role, Sighting, WaitOutcome};
use openshell_lifecycle::machine::{
    Answer, Command, Course, Effect, Halt, Input, Stage, State, Step, Then, Timer,
};
use openshell_lifecycle::ports::SessionEvent;
use openshell_lifecycle::restart::Cause;

use super::action::Stale;
use super::stale;
use super::wiring::{Setup, Violation, step};
use super::world::World;

pub(super) type Held = Result<(), Violation>;

pub(super) fn broken(rule: &'static str, what: impl Into<String>) -> Held {
    Err(Violation::new(rule, what))
}

const fn terminal(phase: Phase) -> bool {
    matches!(phase, Phase::Stopped | Phase::Completed | Phase::Error)
}

/// What one step may do.
pub(super) fn transition(setup: &Setup, before: &State, input: &Input, made: &Step) -> Held {
    write_ahead(before, input, made)?;
    hints(before, input, made)?;
    containment(setup, before, input, made)?;
    delete_wins(before, made)?;
    bounded(&made.state)?;
    published_once(before, input, made)
}

const fn is_command(input: &Input) -> bool {
    matches!(
        input,
        Input::Command(_) | Input::Hold { .. } | Input::Release
    )
}

/// L2: the intent changes by a command only; runs count up one by one, and only for who is meant to run; the
/// engine is called for the run that the record names.
fn write_ahead(before: &State, input: &Input, made: &Step) -> Held {
    let (old, new) = (&before.record.life, &made.state.record.life);
    if old.intent != new.intent && !is_command(input) {
        return broken(
            "L2",
            format!("the intent changes without a command, by {input:?}"),
        );
    }
    if new.generation != old.generation {
        if new.generation != old.generation.next() {
            return broken("L2", "a run is skipped, or counted back");
        }
        if new.intent != Intent::Running || new.hold.is_some() {
            return broken(
                "hold",
                format!("a run begins although the intent is {:?}", new.intent),
            );
        }
    }
    for effect in &made.effects {
        let (ticket, makes) = match effect {
            Effect::PrepareImage(t) | Effect::PrepareRun(t) | Effect::Launch(t, _) => (t, true),
            Effect::StopWorkload(t, ..) | Effect::RemoveAll(t, _) => (t, false),
            _ => continue,
        };
        if ticket.generation != new.generation {
            return broken(
                "L2",
                "the engine is called for a run that the record does not name",
            );
        }
        if makes && (new.operation.is_none() || new.intent != Intent::Running) {
            return broken("L2", "a run is made that no recorded operation asks for");
        }
    }
    Ok(())
}

/// What tells something, but is not the engine's answer about this incarnation.
fn is_hint(before: &State, input: &Input) -> bool {
    match input {
        Input::Event(_) | Input::EngineConnected(_) | Input::EngineLost(_) | Input::Stray(..) => {
            true
        }
        Input::Waited(role, incarnation, WaitOutcome::Exited(ended, _)) => {
            let run = before.record.life.run.as_ref();
            let confirms = *role == Role::Workload
                && matches!(before.course, Course::Halt(_))
                && run
                    .and_then(openshell_core::Run::workload_incarnation)
                    .as_ref()
                    == Some(incarnation)
                && ended == incarnation;
            !confirms
        }
        Input::Waited(..) => true,
        Input::Looked { answer, .. } => {
            matches!(answer, Err(_) | Ok(Sighting::InTransition)) || foreign(before, answer)
        }
        Input::SessionEvent(_, _, SessionEvent::Closed(_) | SessionEvent::Link(_)) => true,
        _ => false,
    }
}

fn foreign(before: &State, answer: &Result<Sighting, String>) -> bool {
    let engine = before.record.life.engine.as_ref();
    matches!(answer, Ok(Sighting::Missing(by)) if engine.is_some_and(|engine| engine != by))
}

/// L4, L5, L18: a hint ends nothing, contains nothing, forgets nothing; and no observation moves the phase of a
/// sandbox that is being stopped or deleted.
fn hints(before: &State, input: &Input, made: &Step) -> Held {
    let (old, new) = (&before.record.life, &made.state.record.life);
    let observed = matches!(
        input,
        Input::Event(_)
            | Input::Waited(..)
            | Input::SessionEvent(..)
            | Input::SessionOpened(_)
            | Input::EngineConnected(_)
            | Input::EngineLost(_)
    );
    let hint = is_hint(before, input);
    let stopping = matches!(before.course, Course::Halt(_) | Course::Remove);
    let confirming = matches!(input, Input::Waited(..)) && !hint;
    if observed && stopping && !confirming && old.phase != new.phase {
        return broken(
            "L5",
            format!(
                "{:?} → {:?} while it is being ended, by {}",
                old.phase,
                new.phase,
                input.describe()
            ),
        );
    }
    if !hint {
        return Ok(());
    }
    if old.phase != new.phase && terminal(new.phase) {
        return broken(
            "L4",
            format!("{} by a mere hint: {}", new.phase, input.describe()),
        );
    }
    if !stopping && matches!(made.state.course, Course::Halt(_)) {
        return broken(
            "L4",
            format!("contained by a mere hint: {}", input.describe()),
        );
    }
    if old.run != new.run && matches!(input, Input::Looked { .. }) {
        return broken("L18", "a container is forgotten on another engine's word");
    }
    Ok(())
}

/// L11: a confirmed loss of the supervisor of a run that was watched is a loss, and nothing else; and what is
/// settled of it is what was lost.
fn containment(setup: &Setup, before: &State, input: &Input, made: &Step) -> Held {
    if let Course::Halt(Halt {
        then: Then::Settle(end),
        ..
    }) = &before.course
        && end.cause == Cause::SupervisorLost
        && setup.policy == RestartPolicy::Never
        && made.state.course == Course::Rest
        && !is_command(input)
        && *input != Input::Park
    {
        let life = &made.state.record.life;
        // Unless what is contained turns out to have ended by itself before.
        let own = life.last_exit.as_ref().is_some_and(|exit| {
            exit.generation == life.generation && exit.cause == ExitCause::Main
        });
        if own {
            return Ok(());
        }
        if life.phase != Phase::Error || life.condition.reason != end.reason {
            return broken(
                "L11",
                format!(
                    "a lost supervisor ends as {} / {}",
                    life.phase, life.condition.reason
                ),
            );
        }
    }
    let Input::Looked {
        role: Role::Supervisor,
        serial,
        answer: Ok(Sighting::Exited(..)),
    } = input
    else {
        return Ok(());
    };
    let watched = before.course == Course::Run
        && before.looking.get(&Role::Supervisor) == Some(serial)
        && before.reported.is_none()
        && before.ended.is_none()
        && !before.unseen.contains(&Role::Workload);
    let loss = matches!(&made.state.course, Course::Halt(Halt { then: Then::Settle(end), .. })
        if end.cause == Cause::SupervisorLost && end.reason == Reason::ControlSupervisorExited);
    if watched && !loss {
        return broken(
            "L11",
            "a confirmed loss of the supervisor does not contain the workload",
        );
    }
    Ok(())
}

/// L12: nothing revives what is being deleted.
fn delete_wins(before: &State, made: &Step) -> Held {
    if before.record.life.intent != Intent::Deleted {
        return Ok(());
    }
    let after = &made.state;
    let harmless = made.effects.iter().all(|effect| {
        matches!(
            effect,
            Effect::RemoveAll(..) | Effect::Cancel(_) | Effect::CloseSession(_) | Effect::Forget
        )
    });
    if after.record.life.intent != Intent::Deleted
        || after.course != Course::Remove
        || after.record.life.phase != Phase::Deleting
        || after.record.life.generation != before.record.life.generation
        || !harmless
    {
        return broken("L12", "something else than the removal goes on");
    }
    Ok(())
}

/// L16: whatever is under way ends by itself.
fn bounded(after: &State) -> Held {
    let moves = after.activity.is_some() || !after.looking.is_empty() || !after.timers.is_empty();
    let still = match after.course {
        Course::Rest => true,
        Course::Run => {
            after.session.is_some_and(|s| s.linked) && after.record.life.phase == Phase::Ready
        }
        _ => false,
    };
    if !still && !moves {
        return broken(
            "L16",
            format!("{} waits for nothing", after.record.life.phase),
        );
    }
    let deadline = after.timers.contains_key(&Timer::Deadline);
    match after.course {
        Course::Bring(Stage::Session) if !deadline => {
            broken("L16", "a session is awaited for ever")
        }
        _ => Ok(()),
    }
}

/// L17: what was published as the end is left by an operation or a restart only.
fn published_once(before: &State, input: &Input, made: &Step) -> Held {
    let (old, new) = (&before.record.life, &made.state.record.life);
    if old.phase == new.phase || !terminal(old.phase) {
        return Ok(());
    }
    let excused = new.operation.is_some()
        || new.restart.next.is_some()
        || !made.finished.is_empty()
        || is_command(input);
    if !excused {
        return broken(
            "L17",
            format!(
                "{} is left for {} without an operation, by {}",
                old.phase,
                new.phase,
                input.describe()
            ),
        );
    }
    Ok(())
}

/// L8, L9: who begins a run that nobody asked for has a reason.
pub(super) fn new_run(
    setup: &Setup,
    world: &World,
    before: &State,
    input: &Input,
    made: &Step,
) -> Held {
    let new = made.state.record.life.generation != before.record.life.generation;
    let goes_on = matches!(
        &before.course,
        Course::Halt(Halt {
            then: Then::NewRun(_),
            ..
        })
    );
    let due = matches!(input, Input::Timer(Timer::Restart));
    if !new || goes_on || due || is_command(input) {
        return Ok(());
    }
    let never = setup.policy == RestartPolicy::Never;
    let life = &before.record.life;
    let reported = life
        .last_exit
        .as_ref()
        .is_some_and(|exit| exit.generation == life.generation && exit.cause == ExitCause::Main);
    let settled = match world.oracle.ended {
        // An engine that was away writes such a 0 itself: unless it was reported, nobody can tell.
        Some(0) if world.oracle.disturbed && !reported => false,
        Some(0) => setup.policy != RestartPolicy::Always,
        Some(_) => never,
        None => false,
    };
    if settled {
        return broken("L9", "main had ended by itself, and a new run begins");
    }
    if never && !world.oracle.disturbed && !world.oracle.another {
        return broken(
            "L8",
            "a run begins that neither a user nor an outage asked for",
        );
    }
    Ok(())
}

/// What is remembered of a step.
pub(super) fn note(world: &mut World, before: &State, made: &Step) {
    if made.state.record.life.generation != before.record.life.generation {
        world.oracle.ended = None;
        world.oracle.disturbed = false;
        world.oracle.another = false;
    }
    if made.state.record.life.phase == Phase::Ready {
        world.oracle.another = false;
    }
}

/// What must hold of every state of the machine, whatever the world: what is late changes nothing (L3), every
/// command leads somewhere (L7).
pub(super) fn state(setup: &Setup, state: &State, now: u8) -> Held {
    for which in Stale::ALL {
        let Some(input) = stale::input(state, which, false) else {
            continue;
        };
        let made = step(setup, state, &input, now)?;
        if made.state != *state || !made.effects.is_empty() {
            return broken(
                "L3",
                format!("something late changes something: {}", input.describe()),
            );
        }
        if made.verdict == Verdict::NeedsALook {
            return broken(
                "L3",
                format!(
                    "the engine is asked because of something late: {}",
                    input.describe()
                ),
            );
        }
    }
    for command in Command::ALL {
        no_trap(setup, state, command, now)?;
    }
    Ok(())
}

fn no_trap(setup: &Setup, state: &State, command: Command, now: u8) -> Held {
    let made = step(setup, state, &Input::Command(command), now)?;
    let (life, course) = (&made.state.record.life, &made.state.course);
    let deleted = state.record.life.intent == Intent::Deleted;
    let leads = match command {
        Command::Delete => life.intent == Intent::Deleted && *course == Course::Remove,
        _ if deleted => matches!(made.answer, Answer::Refused(_)) && made.state == *state,
        Command::Start | Command::Restart if state.record.life.hold.is_some() => {
            matches!(made.answer, Answer::Refused(_)) && made.state == *state
        }
        Command::Start | Command::Restart => {
            life.intent == Intent::Running && !matches!(course, Course::Rest | Course::Remove)
        }
        Command::Stop => {
            life.intent == Intent::Stopped
                && (life.phase == Phase::Stopped
                    || matches!(
                        course,
                        Course::Halt(Halt {
                            then: Then::Stopped,
                            ..
                        })
                    ))
        }
    };
    if leads {
        return Ok(());
    }
    broken(
        "L7",
        format!(
            "from {} `{}` leads nowhere",
            state.record.life.phase,
            command.as_str()
        ),
    )
}
