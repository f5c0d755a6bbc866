//! What can happen in a world.

use openshell_core::{Intent, Phase};
use openshell_lifecycle::driver::Role;
use openshell_lifecycle::machine::{Command, Course, State, Timer, Work};

use super::action::{Action, Odd, Restore, Stale, Trouble};
use super::apply::costs;
use super::time::{is_long_ago, moment};
use super::wiring::{Setup, recorded};
use super::world::{Gateway, Link, Main, Stage, Status, Supervisor, World, id, number};
use crate::faults::Fault;

const ROLES: [Role; 2] = [Role::Workload, Role::Supervisor];

/// Every action that is possible.
pub(super) fn enabled(setup: &Setup, world: &World) -> Vec<Action> {
    let mut list = Vec::with_capacity(48);
    match &world.gateway {
        Gateway::Gone => return list,
        Gateway::Down(_) => list.push(Action::Return),
        Gateway::Up(cell) => {
            let state = &cell.machine.state;
            commands(&mut list, state, cell.draining);
            calls(&mut list, setup, world);
            observations(&mut list, world, state, cell.connected);
            timers(&mut list, setup, state);
            late(&mut list, setup);
        }
    }
    engine(&mut list, world);
    workload(&mut list, world);
    if let Some(supervisor) = world.supervisor(world.present()).copied() {
        speaks(&mut list, world, &supervisor);
    }
    if world.luck == 0 {
        list.retain(|action| !costs(world, *action));
    }
    list
}

fn commands(list: &mut Vec<Action>, state: &State, draining: bool) {
    list.push(Action::Crash);
    if draining {
        return;
    }
    list.push(Action::Park);
    if state.record.life.intent != Intent::Deleted {
        list.extend(Command::ALL.map(Action::Command));
        list.push(if state.record.life.hold.is_some() {
            Action::Release
        } else {
            Action::Hold
        });
    }
}

fn index(at: usize) -> u8 {
    u8::try_from(at).unwrap_or(u8::MAX)
}

fn calls(list: &mut Vec<Action>, setup: &Setup, world: &World) {
    for (at, call) in world.calls.iter().enumerate() {
        let at = index(at);
        if let Stage::Answered(_) = call.stage {
            list.push(Action::Answer(at));
            continue;
        }
        if call.work == Work::Stop && setup.has(Fault::StopUnconfirmed) {
            list.push(Action::Answer(at));
        }
        list.push(Action::Trouble(at, Trouble::Unreachable));
        if !world.engine {
            continue;
        }
        list.extend([
            Action::Do(at),
            Action::Trouble(at, Trouble::Refused),
            Action::Trouble(at, Trouble::Lost),
        ]);
        // Without a crash or a lost answer it makes no difference which half is started first.
        if call.work == Work::Launch && call.stage == Stage::Begun && world.luck > 0 {
            list.extend(ROLES.map(|role| Action::Half(at, role)));
        }
    }
    for (at, look) in world.looks.iter().enumerate() {
        let at = index(at);
        if look.seen.is_some() {
            list.push(Action::Saw(at));
            continue;
        }
        list.push(Action::See(at));
        if world.engine {
            let odd = [Odd::Unknown, Odd::InTransition, Odd::Foreign];
            list.extend(odd.map(|odd| Action::SeeOdd(at, odd)));
        }
    }
    for run in &world.retiring {
        list.push(Action::RetireFails(*run));
        if world.engine {
            list.push(Action::Retire(*run));
        }
    }
}

fn observations(list: &mut Vec<Action>, world: &World, state: &State, connected: bool) {
    match (connected, world.engine) {
        (false, true) => list.push(Action::Connected),
        (true, _) => list.push(Action::MonitorLost),
        (false, false) => {}
    }
    for (incarnation, role) in &state.watching {
        let present = world.status(*role, number(&incarnation.container));
        let runs = matches!(present, Some(Status::Running(started)) if moment(started) == incarnation.started_at);
        if !world.engine || !runs {
            list.push(Action::Waited(*role));
        }
        if world.engine {
            list.push(Action::WaitBroken(*role));
        }
    }
    if !connected || !world.engine {
        return;
    }
    for role in ROLES {
        let recorded = recorded(state, role);
        match recorded.map(|number| world.status(role, number)) {
            Some(Some(Status::Exited { .. })) => list.push(Action::Died(role)),
            Some(Some(Status::Running(_)))
                if role == Role::Workload && world.workload.is_some_and(|w| w.meddled) =>
            {
                list.push(Action::Started);
            }
            Some(None) if role == Role::Workload => list.push(Action::Removed),
            _ => {}
        }
    }
    for supervisor in &world.supervisors {
        if !supervisor.status.runs() && !known(state, supervisor.run) {
            list.push(Action::Stray(supervisor.run));
        }
    }
}

fn known(state: &State, run: u8) -> bool {
    let id = id(Role::Supervisor, run);
    state.record.life.retired.contains(&id)
        || state.retiring.contains(&id)
        || recorded(state, Role::Supervisor) == Some(run)
}

fn timers(list: &mut Vec<Action>, setup: &Setup, state: &State) {
    if setup.has(Fault::ClearedTimer) {
        list.extend(Timer::ALL.map(Action::Timer));
    } else {
        list.extend(state.timers.keys().copied().map(Action::Timer));
    }
    let run = state.record.life.run.as_ref();
    let ready = state.course == Course::Run && state.record.life.phase == Phase::Ready;
    if ready
        && run
            .and_then(|run| run.ready_at)
            .is_some_and(|at| !is_long_ago(at))
    {
        list.push(Action::LivesLong);
    }
}

fn late(list: &mut Vec<Action>, setup: &Setup) {
    let of = |stale: &Stale| match stale {
        Stale::Exit(_) | Stale::Died(_) | Stale::MainEnded | Stale::Closed => {
            setup.has(Fault::StaleAsCurrent)
        }
        Stale::Answer | Stale::Look(_) => setup.has(Fault::OldAnswerAsCurrent),
        Stale::Hello => setup.has(Fault::OldSessionAsCurrent),
    };
    list.extend(Stale::ALL.into_iter().filter(of).map(Action::Stale));
}

fn engine(list: &mut Vec<Action>, world: &World) {
    if !world.engine {
        list.push(Action::EngineUp);
        return;
    }
    list.extend([
        Action::EngineDown(Restore::Live),
        Action::EngineDown(Restore::Lost),
    ]);
    if let Some(workload) = &world.workload {
        list.push(Action::Vanish);
        list.push(if workload.status.runs() {
            Action::Kill(Role::Workload)
        } else {
            Action::Meddle
        });
    }
    if world
        .supervisor(world.present())
        .is_some_and(|s| s.status.runs())
    {
        list.push(Action::Kill(Role::Supervisor));
    }
}

fn workload(list: &mut Vec<Action>, world: &World) {
    let Some(workload) = world.workload.filter(|w| w.status.runs()) else {
        return;
    };
    let Some(supervisor) = world.supervisor(workload.run).filter(|s| s.status.runs()) else {
        list.push(Action::WorkloadEnds);
        return;
    };
    if supervisor.link != Link::Up || workload.run != world.present() || workload.meddled {
        return;
    }
    match workload.main {
        Main::NotStarted if supervisor.planned && supervisor.main == Main::NotStarted => {
            list.push(Action::MainStarts);
        }
        Main::Running if !workload.frozen => {
            list.extend([0, 17, 143].map(Action::MainEnds));
        }
        _ => {}
    }
}

fn speaks(list: &mut Vec<Action>, world: &World, supervisor: &Supervisor) {
    let cell = world.cell();
    if supervisor.closed && cell.is_some() {
        list.push(Action::Closed);
    }
    if !supervisor.status.runs() {
        return;
    }
    let there = world
        .workload
        .is_some_and(|w| w.status.runs() && w.run == supervisor.run && !w.meddled);
    match supervisor.link {
        Link::Up => list.push(Action::LinkLost),
        Link::Lost if there => list.push(Action::LinkBack),
        _ => {}
    }
    let ended = matches!(supervisor.main, Main::Ended(_));
    if ended && supervisor.acknowledged {
        list.push(Action::Leaves);
    }
    let Some(cell) = cell else { return };
    if !there && !ended {
        list.push(Action::GivesUp);
    }
    if supervisor.session {
        list.push(Action::Break);
        if supervisor.told_linked != (supervisor.link == Link::Up) {
            list.push(Action::TellLink);
        }
        if supervisor.main != Main::NotStarted && !supervisor.told_started {
            list.push(Action::TellStarted);
        } else if ended && !supervisor.acknowledged {
            list.push(Action::TellEnded);
        }
    } else if !cell.draining && (supervisor.link != Link::Awaited || there) {
        list.push(Action::Hello);
        if supervisor.link == Link::Awaited {
            list.push(Action::HelloUnenforced);
        }
    }
}
