//! What happens between the two halves, and what the supervisor says of it.

use std::sync::Arc;

use openshell_core::{Generation, Phase};
use openshell_lifecycle::machine::{Answer, Course, Input, Opened};
use openshell_lifecycle::ports::{MainReport, SessionEvent};

use super::action::Action;
use super::apply::Done;
use super::engine::{TERMINATED, end_supervisor, end_workload};
use super::time::{LONG_AGO, RECENTLY, at};
use super::wiring::{Setup, Violation, tell};
use super::world::{Link, Main, Supervisor, World, instance};

/// One thing happens there.
pub(super) fn happen(setup: &Setup, world: &mut World, action: Action) -> Done {
    let run = world.present();
    match action {
        Action::MainStarts => return main_starts(world, run),
        Action::MainEnds(code) => {
            end_workload(world, code, true);
            // Of a run that is being stopped, or that ends as if by a signal, nobody can say by whose will.
            let stopping = world.cell().is_some_and(|cell| {
                cell.draining || matches!(cell.machine.state.course, Course::Halt(_))
            });
            let stopping = stopping
                || world
                    .stored()
                    .is_some_and(|r| matches!(r.life.phase, Phase::Error | Phase::Stopping));
            let told = stopping || world.oracle.another;
            world.oracle.ended = (code != TERMINATED && !told).then_some(code);
        }
        Action::WorkloadEnds => end_workload(world, TERMINATED, false),
        Action::LivesLong => lives_long(world),
        Action::Hello => return hello(setup, world, run, true),
        Action::HelloUnenforced => return hello(setup, world, run, false),
        Action::TellStarted => {
            change(world, run, |s| s.told_started = true);
            return say(setup, world, run, SessionEvent::MainStarted(at(RECENTLY)));
        }
        Action::TellEnded => {
            let main = world.supervisor(run).map(|s| s.main);
            if let Some(Main::Ended(code)) = main {
                let event = SessionEvent::MainExited(code.into(), at(RECENTLY), String::new());
                say(setup, world, run, event)?;
                change(world, run, |s| s.acknowledged = true);
            }
        }
        Action::TellLink => {
            let linked = world.supervisor(run).is_some_and(|s| s.link == Link::Up);
            change(world, run, |s| s.told_linked = linked);
            return say(setup, world, run, SessionEvent::Link(linked));
        }
        Action::LinkLost => change(world, run, |s| s.link = Link::Lost),
        Action::LinkBack => change(world, run, |s| s.link = Link::Up),
        Action::Break => {
            change(world, run, |s| {
                s.session = false;
                s.closed = true;
            });
            if let Some(cell) = world.cell_mut() {
                cell.handle = cell.handle.map(|(of, _)| (of, false));
            }
        }
        Action::Closed => return closed(setup, world, run),
        Action::GivesUp => {
            let event = SessionEvent::Failed("StartFailed".to_owned(), "lost".to_owned());
            say(setup, world, run, event)?;
            end_supervisor(world, run, 70);
        }
        Action::Leaves => end_supervisor(world, run, 0),
        _ => {}
    }
    Ok(())
}

fn change(world: &mut World, run: u8, change: impl FnOnce(&mut Supervisor)) {
    if let Some(supervisor) = world.supervisor_mut(run) {
        change(supervisor);
    }
}

fn say(setup: &Setup, world: &mut World, run: u8, event: SessionEvent) -> Done {
    let input = Input::SessionEvent(Generation(run.into()), instance(run), event);
    tell(setup, world, &input).map(|_| ())
}

fn main_starts(world: &mut World, run: u8) -> Done {
    if world.oracle.mains & (1 << run) != 0 {
        let what = format!("main of run {run} is started a second time");
        return Err(Violation::new("L10", what));
    }
    world.oracle.mains |= 1 << run;
    if let Some(workload) = world.workload.as_mut() {
        workload.main = Main::Running;
    }
    change(world, run, |s| s.main = Main::Running);
    Ok(())
}

fn lives_long(world: &mut World) {
    if let Some(cell) = world.cell_mut() {
        let machine = Arc::make_mut(&mut cell.machine);
        if let Some(run) = machine.state.record.life.run.as_mut() {
            run.ready_at = run.ready_at.map(|_| at(LONG_AGO));
            run.main_started = run.main_started.map(|_| at(LONG_AGO));
        }
        machine.hash = 0;
    }
}

fn hello(setup: &Setup, world: &mut World, run: u8, enforced: bool) -> Done {
    let Some(supervisor) = world.supervisor(run).copied() else {
        return Ok(());
    };
    if supervisor.link == Link::Awaited {
        change(world, run, |s| s.link = Link::Up);
    }
    let main = match supervisor.main {
        Main::NotStarted => MainReport::NotStarted,
        Main::Running => MainReport::Running(at(RECENTLY)),
        Main::Ended(code) => MainReport::Exited(code.into(), at(RECENTLY)),
    };
    let input = Input::SessionOpened(Opened {
        generation: Generation(run.into()),
        instance: instance(run),
        enforced,
        main,
    });
    // The handle is in place before the decision's orders are given to it.
    let earlier = world
        .cell_mut()
        .and_then(|cell| cell.handle.replace((run, true)));
    match tell(setup, world, &input)? {
        Answer::SessionRefused(_) => {
            if let Some(cell) = world.cell_mut() {
                cell.handle = earlier;
            }
        }
        _ => change(world, run, |s| {
            s.session = true;
            s.planned = true;
            s.told_started = s.main != Main::NotStarted;
            s.told_linked = true;
            s.acknowledged = matches!(s.main, Main::Ended(_));
        }),
    }
    Ok(())
}

fn closed(setup: &Setup, world: &mut World, run: u8) -> Done {
    change(world, run, |s| s.closed = false);
    let Some(cell) = world.cell_mut() else {
        return Ok(());
    };
    match cell.handle {
        // It is the end of an earlier session of the same instance.
        Some((of, true)) if of == run => return Ok(()),
        Some((of, false)) if of == run => cell.handle = None,
        _ => {}
    }
    say(setup, world, run, SessionEvent::Closed("eof".to_owned()))
}
