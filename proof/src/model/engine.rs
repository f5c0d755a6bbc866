//! The engine: what calls do, and what it answers.

use openshell_core::EngineId;
use openshell_lifecycle::driver::{
    DriverError, DriverErrorKind, Launched, Prepared, Role, Sighting, StopOutcome,
};
use openshell_lifecycle::machine::{Input, Outcome, Work};

use super::action::{Odd, Trouble};
use super::wiring::Violation;
use super::world::{
    Call, ENGINE, FOREIGN, Link, Look, Main, Reply, Seen, Stage, Status, Supervisor, Workload,
    World, exit, id, incarnation, sighting, small,
};

/// As engines report a process that was told to end.
pub(super) const TERMINATED: u8 = 143;
/// … that was killed.
pub(super) const KILLED: u8 = 137;
/// … whose end it has missed.
pub(super) const MISSED: u8 = 255;

/// The engine does what a call asks.
pub(super) fn perform(world: &mut World, index: usize) -> Result<(), Violation> {
    let Some(call) = world.calls.get(index).cloned() else {
        return Ok(());
    };
    let reply = match call.work {
        Work::Image => Reply::Done,
        Work::Prepare => prepare(world, &call),
        Work::Launch => launch(world, &call)?,
        Work::Stop => stop(world, &call),
        Work::Remove => {
            world.workload = None;
            world.supervisors.clear();
            Reply::Done
        }
    };
    answered(world, index, reply);
    Ok(())
}

fn answered(world: &mut World, index: usize, reply: Reply) {
    if let Some(call) = world.calls.get_mut(index) {
        call.stage = Stage::Answered(reply);
    }
}

fn run_of(call: &Call) -> u8 {
    small(call.ticket.generation.0)
}

fn prepare(world: &mut World, call: &Call) -> Reply {
    let run = run_of(call);
    let workload = match (call.workload, world.workload) {
        (Some(kept), Some(workload)) if workload.number == kept => Workload { run, ..workload },
        (Some(_), _) => return Reply::RuntimeMissing,
        // One that an interrupted prepare has left is replaced.
        (None, _) => Workload {
            number: run,
            status: Status::Created,
            run,
            main: Main::NotStarted,
            frozen: false,
            meddled: false,
        },
    };
    world.workload = Some(workload);
    world.supervisors.retain(|s| s.run != run);
    world.supervisors.push(Supervisor::new(run));
    Reply::Prepared {
        workload: workload.number,
    }
}

fn launch(world: &mut World, call: &Call) -> Result<Reply, Violation> {
    for role in [Role::Workload, Role::Supervisor] {
        if call.stage != Stage::Half(role) {
            start(world, call, role)?;
        }
    }
    let started = |status: Option<Status>| match status {
        Some(Status::Running(started) | Status::Exited { started, .. }) => Some(started),
        _ => None,
    };
    let workload = call
        .workload
        .and_then(|n| started(world.status(Role::Workload, n)));
    let supervisor = started(world.status(Role::Supervisor, run_of(call)));
    match (workload, supervisor) {
        (Some(workload), Some(supervisor)) => Ok(Reply::Launched {
            workload,
            supervisor,
        }),
        _ => {
            end_both(world, run_of(call));
            Ok(Reply::RuntimeMissing)
        }
    }
}

/// A launch that fails leaves neither running.
fn end_both(world: &mut World, run: u8) {
    let now = world.now;
    if let Some(workload) = world.workload.as_mut() {
        workload.status.end(KILLED, now);
    }
    if let Some(supervisor) = world.supervisor_mut(run) {
        supervisor.status.end(KILLED, now);
    }
}

/// Starts one half; what runs already is left as it is.
pub(super) fn start(world: &mut World, call: &Call, role: Role) -> Result<(), Violation> {
    let (now, run) = (world.now, run_of(call));
    match role {
        Role::Supervisor => {
            if let Some(supervisor) = world.supervisor_mut(run)
                && !supervisor.status.runs()
            {
                supervisor.status = Status::Running(now);
            }
        }
        Role::Workload => {
            let Some(workload) = world.workload.as_mut() else {
                return Ok(());
            };
            if call.workload != Some(workload.number) || workload.status.runs() {
                return Ok(());
            }
            workload.status = Status::Running(now);
            workload.main = Main::NotStarted;
            workload.frozen = false;
            workload.meddled = false;
            let bit = 1 << run;
            if world.oracle.launched & bit != 0 {
                let what = format!("the workload of run {run} is launched a second time");
                return Err(Violation::new("L10", what));
            }
            world.oracle.launched |= bit;
        }
    }
    Ok(())
}

fn stop(world: &mut World, call: &Call) -> Reply {
    let code = if call.graceful { TERMINATED } else { KILLED };
    let Some(workload) = world.workload.filter(|w| Some(w.number) == call.workload) else {
        return Reply::NoSuchContainer;
    };
    if workload.status.runs() {
        end_workload(world, code, call.graceful && workload.main == Main::Running);
    }
    match world.workload.map(|w| w.status) {
        Some(Status::Exited { code, finished, .. }) => Reply::NotRunning { code, finished },
        _ => Reply::NeverStarted,
    }
}

/// The workload's process ends; its supervisor learns main's status, or only that the link is gone.
pub(super) fn end_workload(world: &mut World, code: u8, told: bool) {
    let now = world.now;
    let Some(workload) = world.workload.as_mut() else {
        return;
    };
    workload.status.end(code, now);
    workload.meddled = false;
    if workload.main == Main::Running {
        workload.main = Main::Ended(code);
    }
    let run = workload.run;
    if let Some(supervisor) = world.supervisor_mut(run)
        && supervisor.status.runs()
        && supervisor.link == Link::Up
    {
        supervisor.link = Link::Lost;
        if told {
            supervisor.main = Main::Ended(code);
        }
    }
}

pub(super) fn end_supervisor(world: &mut World, run: u8, code: u8) {
    let now = world.now;
    let mut broken = false;
    if let Some(supervisor) = world.supervisor_mut(run) {
        supervisor.status.end(code, now);
        broken = std::mem::take(&mut supervisor.session);
        supervisor.closed |= broken;
    }
    if broken && let Some(cell) = world.cell_mut() {
        cell.handle = cell.handle.map(|(of, open)| (of, open && of != run));
    }
}

/// What goes wrong with a call.
pub(super) fn trouble(world: &mut World, index: usize, trouble: Trouble) -> Result<(), Violation> {
    let reply = match trouble {
        Trouble::Refused => Reply::Refused,
        Trouble::Unreachable => Reply::Unreachable,
        Trouble::Lost => {
            perform(world, index)?;
            Reply::Unreachable
        }
    };
    if matches!(reply, Reply::Refused)
        && world
            .calls
            .get(index)
            .is_some_and(|c| c.work == Work::Launch)
    {
        let run = world.calls.get(index).map_or(0, run_of);
        end_both(world, run);
    }
    if reply == Reply::Unreachable {
        world.oracle.disturbed = true;
    }
    answered(world, index, reply);
    Ok(())
}

/// A call that did not reach the engine, or whose answer did not come back.
pub(super) fn unreachable() -> DriverError {
    DriverError::new(DriverErrorKind::Unreachable, "no answer")
}

/// An answer as the machine hears it.
pub(super) fn outcome(call: &Call, reply: Reply) -> Input {
    let run = run_of(call);
    let failed = |kind, text: &str| DriverError::new(kind, text);
    let error = match reply {
        Reply::Refused if call.work == Work::Image => {
            Some(failed(DriverErrorKind::ImagePull, "no such image"))
        }
        Reply::Refused => Some(failed(DriverErrorKind::Engine, "refused")),
        Reply::Unreachable => Some(unreachable()),
        Reply::RuntimeMissing => Some(failed(DriverErrorKind::RuntimeMissing, "gone")),
        _ => None,
    };
    let stopped = match reply {
        Reply::NotRunning { code, finished } => StopOutcome::NotRunning(exit(code, finished)),
        Reply::NeverStarted => StopOutcome::NeverStarted,
        _ => StopOutcome::Missing,
    };
    let prepared = Prepared {
        workload: id(
            Role::Workload,
            match reply {
                Reply::Prepared { workload } => workload,
                _ => 0,
            },
        ),
        supervisor: id(Role::Supervisor, run),
        engine: EngineId(ENGINE.to_owned()),
    };
    let (workload, supervisor) = match reply {
        Reply::Launched {
            workload,
            supervisor,
        } => (workload, supervisor),
        _ => (0, 0),
    };
    let launched = Launched {
        workload: incarnation(Role::Workload, call.workload.unwrap_or(0), workload),
        supervisor: incarnation(Role::Supervisor, run, supervisor),
    };
    let outcome = match call.work {
        Work::Image => Outcome::Image(error.map_or(Ok(()), Err)),
        Work::Prepare => Outcome::Prepared(error.map_or(Ok(prepared), Err)),
        Work::Launch => Outcome::Launched(error.map_or(Ok(launched), Err)),
        Work::Stop => Outcome::Stopped(error.map_or(Ok(stopped), Err)),
        Work::Remove => Outcome::Removed(error.map_or(Ok(()), Err)),
    };
    Input::Outcome(call.ticket, outcome)
}

/// What the engine answers to a question now.
pub(super) fn see(world: &World, look: &Look, odd: Option<Odd>) -> Seen {
    match odd {
        Some(Odd::Unknown) => Seen::Unknown,
        Some(Odd::InTransition) => Seen::InTransition,
        Some(Odd::Foreign) => Seen::Foreign,
        None if !world.engine => Seen::Unknown,
        None => world
            .status(look.role, look.number)
            .map_or(Seen::Missing, Seen::Status),
    }
}

/// What was seen, as the machine hears it.
pub(super) fn answer(look: &Look, seen: Seen) -> Result<Sighting, String> {
    match seen {
        Seen::Status(status) => Ok(sighting(look.role, look.number, status)),
        Seen::Missing => Ok(Sighting::Missing(EngineId(ENGINE.to_owned()))),
        Seen::Foreign => Ok(Sighting::Missing(EngineId(FOREIGN.to_owned()))),
        Seen::InTransition => Ok(Sighting::InTransition),
        Seen::Unknown => Err("no answer".to_owned()),
    }
}
