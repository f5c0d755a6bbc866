//! One thing happens: to the engine, to a supervisor, to the gateway.

use std::sync::Arc;

use openshell_core::{EngineId, Generation, Phase};
use openshell_lifecycle::driver::{EngineEvent, EngineEventKind, Role, WaitOutcome};
use openshell_lifecycle::machine::{Answer, Command, Course, Input};

use super::action::{Action, Restore, Trouble};
use super::canon::canonical;
use super::engine::{self, KILLED, MISSED, TERMINATED, end_supervisor, end_workload};
use super::inside;
use super::stale;
use super::time::moment;
use super::truth;
use super::wiring::{Setup, Violation, crash, recorded, tell};
use super::world::{
    Asked, Cell, ENGINE, Gateway, Main, Reply, Seen, Stage, Status, World, exit, id,
};
use crate::faults::Fault;

pub(super) type Done = Result<(), Violation>;

/// What the world is after an action, in its canonical form.
pub(super) fn apply(setup: &Setup, world: &World, action: Action) -> Result<World, Violation> {
    let mut world = world.clone();
    happen(setup, &mut world, action)?;
    canonical(&mut world);
    truth::world(&world)?;
    Ok(world)
}

fn happen(setup: &Setup, world: &mut World, action: Action) -> Done {
    if costs(world, action) {
        world.luck = world.luck.saturating_sub(1);
    }
    match action {
        Action::Command(_) | Action::Hold | Action::Release => return ask(setup, world, action),
        Action::Park => {
            if let Some(cell) = world.cell_mut() {
                cell.draining = true;
            }
            tell(setup, world, &Input::Park)?;
        }
        Action::Crash => crash(setup, world),
        Action::Return => return restart(setup, world),
        Action::Timer(timer) => {
            let input = timer_input(setup, world, timer);
            tell(setup, world, &input)?;
        }
        Action::Stale(which) => {
            if let Some(input) = world.state().and_then(|s| stale::input(s, which, true)) {
                tell(setup, world, &input)?;
            }
        }
        Action::Do(_)
        | Action::Half(..)
        | Action::Answer(_)
        | Action::Trouble(..)
        | Action::See(_)
        | Action::SeeOdd(..)
        | Action::Saw(_)
        | Action::Retire(_)
        | Action::RetireFails(_)
        | Action::Stray(_) => return call(setup, world, action),
        Action::EngineDown(_)
        | Action::EngineUp
        | Action::Connected
        | Action::MonitorLost
        | Action::Kill(_)
        | Action::Vanish
        | Action::Meddle
        | Action::Waited(_)
        | Action::WaitBroken(_)
        | Action::Died(_)
        | Action::Started
        | Action::Removed => return outside(setup, world, action),
        _ => return inside::happen(setup, world, action),
    }
    Ok(())
}

/// Whether it is one of the things that go wrong, of which there are only so many.
pub(super) const fn costs(world: &World, action: Action) -> bool {
    match action {
        // An engine that is away fails everything.
        Action::Trouble(_, Trouble::Unreachable) | Action::RetireFails(_) | Action::MonitorLost => {
            world.engine
        }
        // A gateway that was told to end does.
        Action::Crash => match &world.gateway {
            Gateway::Up(cell) => !cell.draining,
            _ => true,
        },
        Action::Hold
        | Action::Park
        | Action::Trouble(..)
        | Action::SeeOdd(..)
        | Action::EngineDown(_)
        | Action::Kill(_)
        | Action::Vanish
        | Action::Meddle
        | Action::WaitBroken(_)
        | Action::MainEnds(TERMINATED)
        | Action::HelloUnenforced
        | Action::LinkLost
        | Action::Break => true,
        _ => false,
    }
}

fn ask(setup: &Setup, world: &mut World, action: Action) -> Done {
    let (input, asked) = match action {
        Action::Command(command) => {
            let asked = match command {
                Command::Start | Command::Restart => Asked::Run,
                Command::Stop => Asked::Rest,
                Command::Delete => Asked::Vanish,
            };
            (Input::Command(command), asked)
        }
        Action::Hold => {
            let (by, reason) = (String::new(), String::new());
            (Input::Hold { by, reason }, Asked::Rest)
        }
        _ => (Input::Release, world.oracle.asked),
    };
    let unknown = world.state().is_some_and(|state| {
        matches!(state.course, Course::Prove(_)) || state.record.life.phase == Phase::Unknown
    });
    if tell(setup, world, &input)? == Answer::Accepted {
        world.oracle.another |= unknown && asked == Asked::Run;
        world.oracle.asked = asked;
        world.oracle.ended = None;
        world.oracle.held = match action {
            Action::Hold => true,
            Action::Release => false,
            _ => world.oracle.held,
        };
    }
    Ok(())
}

fn timer_input(
    setup: &Setup,
    world: &mut World,
    timer: openshell_lifecycle::machine::Timer,
) -> Input {
    if setup.has(Fault::ClearedTimer)
        && let Some(cell) = world.cell_mut()
    {
        let machine = Arc::make_mut(&mut cell.machine);
        machine.state.timers.insert(timer, moment(0));
    }
    Input::Timer(timer)
}

fn restart(setup: &Setup, world: &mut World) -> Done {
    let Gateway::Down(stored) = &world.gateway else {
        return Ok(());
    };
    world.gateway = Gateway::Up(Cell {
        machine: Arc::clone(stored),
        handle: None,
        connected: false,
        draining: false,
        stored: None,
    });
    tell(setup, world, &Input::Restore).map(|_| ())
}

fn call(setup: &Setup, world: &mut World, action: Action) -> Done {
    match action {
        Action::Do(index) => {
            let kept = world.workload;
            engine::perform(world, index.into())?;
            if setup.has(Fault::LeaveWorkload) && world.workload.is_none() {
                world.workload = kept;
            }
        }
        Action::Half(index, role) => {
            if let Some(call) = world.calls.get(usize::from(index)).cloned() {
                engine::start(world, &call, role)?;
                world.calls[usize::from(index)].stage = Stage::Half(role);
            }
        }
        Action::Trouble(index, what) => engine::trouble(world, index.into(), what)?,
        Action::Answer(index) => {
            let call = world.calls.remove(index.into());
            return answered(setup, world, &call);
        }
        Action::See(index) => see(world, index, None),
        Action::SeeOdd(index, odd) => see(world, index, Some(odd)),
        Action::Saw(index) => {
            let look = world.looks.remove(index.into());
            let seen = distort(setup, look.seen.unwrap_or(Seen::Unknown));
            let answer = engine::answer(&look, seen);
            let input = Input::Looked {
                role: look.role,
                serial: look.serial,
                answer,
            };
            tell(setup, world, &input)?;
        }
        Action::Retire(run) => {
            world.retiring.retain(|r| *r != run);
            world.supervisors.retain(|s| s.run != run);
            tell(
                setup,
                world,
                &Input::Retired(id(Role::Supervisor, run), Ok(())),
            )?;
        }
        Action::RetireFails(run) => {
            world.retiring.retain(|r| *r != run);
            let result = if setup.has(Fault::RetireFailureAsSuccess) {
                Ok(())
            } else {
                Err(engine::unreachable())
            };
            tell(
                setup,
                world,
                &Input::Retired(id(Role::Supervisor, run), result),
            )?;
        }
        Action::Stray(run) => {
            let generation = Generation(run.into());
            tell(
                setup,
                world,
                &Input::Stray(id(Role::Supervisor, run), generation),
            )?;
        }
        _ => {}
    }
    Ok(())
}

/// What a planted fault makes of an answer on its way.
fn distort(setup: &Setup, seen: Seen) -> Seen {
    match seen {
        Seen::Unknown if setup.has(Fault::UnknownAsMissing) => Seen::Missing,
        Seen::Foreign if setup.has(Fault::ForeignAsOwn) => Seen::Missing,
        other => other,
    }
}

fn see(world: &mut World, index: u8, odd: Option<super::action::Odd>) {
    let Some(look) = world.looks.get(usize::from(index)) else {
        return;
    };
    let seen = engine::see(world, look, odd);
    world.looks[usize::from(index)].seen = Some(seen);
}

fn answered(setup: &Setup, world: &mut World, call: &super::world::Call) -> Done {
    use openshell_lifecycle::machine::Work;
    let reply = match call.stage {
        Stage::Answered(reply) => reply,
        Stage::Begun | Stage::Half(_) => Reply::NotRunning {
            code: TERMINATED,
            finished: 0,
        },
    };
    if reply == Reply::Unreachable && call.work == Work::Launch && setup.has(Fault::LaunchTwice) {
        let mut again = call.clone();
        again.stage = Stage::Begun;
        world.calls.push(again);
        return Ok(());
    }
    let reply = match (call.work, reply) {
        (Work::Stop, Reply::Refused | Reply::Unreachable)
            if setup.has(Fault::StopFailureAsSuccess) =>
        {
            Reply::NeverStarted
        }
        (_, reply) => reply,
    };
    tell(setup, world, &engine::outcome(call, reply)).map(|_| ())
}

fn outside(setup: &Setup, world: &mut World, action: Action) -> Done {
    match action {
        Action::EngineDown(restore) => engine_down(world, restore),
        Action::EngineUp => world.engine = true,
        Action::Connected => {
            if let Some(cell) = world.cell_mut() {
                cell.connected = true;
            }
            tell(
                setup,
                world,
                &Input::EngineConnected(EngineId(ENGINE.to_owned())),
            )?;
        }
        Action::MonitorLost => {
            if let Some(cell) = world.cell_mut() {
                cell.connected = false;
            }
            world.oracle.disturbed = true;
            tell(setup, world, &Input::EngineLost("broken".to_owned()))?;
        }
        Action::Kill(Role::Workload) => end_workload(world, KILLED, false),
        Action::Kill(Role::Supervisor) => {
            let run = world.present();
            end_supervisor(world, run, KILLED);
        }
        Action::Vanish => {
            end_workload(world, KILLED, false);
            world.workload = None;
            world.oracle.ended = None;
        }
        Action::Meddle => {
            let now = world.now;
            if let Some(workload) = world.workload.as_mut() {
                workload.status = Status::Running(now);
                workload.main = Main::NotStarted;
                workload.frozen = false;
                workload.meddled = true;
            }
            world.oracle.disturbed = true;
            world.oracle.ended = None;
        }
        Action::Waited(role) => return waited(setup, world, role, false),
        Action::WaitBroken(role) => return waited(setup, world, role, true),
        Action::Died(role) => return died(setup, world, role),
        Action::Started => {
            let now = world.now;
            return event(setup, world, Role::Workload, EngineEventKind::Started, now);
        }
        Action::Removed => return event(setup, world, Role::Workload, EngineEventKind::Removed, 0),
        _ => {}
    }
    Ok(())
}

fn engine_down(world: &mut World, restore: Restore) {
    world.engine = false;
    world.oracle.disturbed = true;
    for call in &mut world.calls {
        if let Stage::Half(_) = call.stage {
            call.stage = Stage::Answered(Reply::Unreachable);
        }
    }
    if restore == Restore::Lost {
        end_workload(world, MISSED, false);
        for run in world.supervisors.iter().map(|s| s.run).collect::<Vec<_>>() {
            end_supervisor(world, run, MISSED);
        }
    }
}

fn waited(setup: &Setup, world: &mut World, role: Role, broken: bool) -> Done {
    let watched = world.state().and_then(|state| {
        let watched = state.watching.iter().find(|(_, of)| **of == role);
        watched.map(|(incarnation, _)| incarnation.clone())
    });
    let Some(watched) = watched else {
        return Ok(());
    };
    world.oracle.disturbed |= broken;
    let number = super::world::number(&watched.container);
    let outcome = match world.status(role, number) {
        _ if (broken || !world.engine) && setup.has(Fault::BrokenWaitAsExit) => {
            WaitOutcome::Exited(watched.clone(), exit(KILLED, world.now))
        }
        _ if broken || !world.engine => WaitOutcome::Lost("broken".to_owned()),
        Some(Status::Exited {
            started,
            code,
            finished,
        }) if moment(started) == watched.started_at => {
            WaitOutcome::Exited(watched.clone(), exit(code, finished))
        }
        _ => WaitOutcome::Superseded,
    };
    tell(setup, world, &Input::Waited(role, watched, outcome)).map(|_| ())
}

fn died(setup: &Setup, world: &mut World, role: Role) -> Done {
    let number = world.state().and_then(|state| recorded(state, role));
    let status = number.and_then(|number| world.status(role, number));
    let Some(Status::Exited { code, finished, .. }) = status else {
        return Ok(());
    };
    let kind = EngineEventKind::Died { code: code.into() };
    event(setup, world, role, kind, finished)
}

fn event(setup: &Setup, world: &mut World, role: Role, kind: EngineEventKind, time: u8) -> Done {
    let Some((number, sandbox)) = world
        .state()
        .and_then(|s| Some((recorded(s, role)?, s.record.meta.id)))
    else {
        return Ok(());
    };
    let event = EngineEvent {
        sandbox,
        role,
        container: id(role, number),
        kind,
        time: moment(time),
    };
    tell(setup, world, &Input::Event(event)).map(|_| ())
}
