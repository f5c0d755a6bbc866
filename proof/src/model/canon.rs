//! Equal situations are one: forgets what no decision depends on, and closes up moments and serials.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use openshell_core::{Incarnation, Timestamp};
use openshell_lifecycle::driver::Sighting;
use openshell_lifecycle::machine::{Course, End, Halt, State, Then};

use super::time::{LONG_AGO, RECENTLY, SOME_TIME, Ticks, at, is_long_ago, moment, tick};
use super::world::{Gateway, Machine, Reply, Seen, Stage, Status, World};

/// More tries than this make no difference to what is decided.
const TRIES: u32 = 3;
/// More restarts in a row than this only wait longer.
const RESTARTS: u32 = 2;

/// Forgets what no decision depends on.
pub(super) fn forget(state: &mut State) {
    let some_time = at(SOME_TIME);
    let life = &mut state.record.life;
    life.condition.message.clear();
    life.condition.since = some_time;
    if let Some(operation) = life.operation.as_mut() {
        operation.deadline = some_time;
    }
    if let Some(run) = life.run.as_mut() {
        for time in [&mut run.main_started, &mut run.ready_at] {
            if let Some(time) = time.as_mut() {
                *time = at(if is_long_ago(*time) {
                    LONG_AGO
                } else {
                    RECENTLY
                });
            }
        }
    }
    life.restart.count = life.restart.count.min(RESTARTS);
    if let Some(next) = life.restart.next.as_mut() {
        *next = some_time;
    }
    if let Some(exit) = life.last_exit.as_mut() {
        exit.at = some_time;
    }
    if let Some(hold) = life.hold.as_mut() {
        hold.since = some_time;
    }
    if let Some(outage) = state.outage.as_mut() {
        outage.cause.clear();
    }
    if let Some(reported) = state.reported.as_mut() {
        reported.at = some_time;
    }
    for due in state.timers.values_mut() {
        *due = some_time;
    }
    state.tries = state.tries.min(TRIES);
    if let Course::Halt(Halt {
        then: Then::Settle(end),
        ..
    }) = &mut state.course
    {
        forget_end(end);
    }
}

fn forget_end(end: &mut End) {
    end.message.clear();
    if let Some((_, _, time)) = end.exit.as_mut() {
        *time = at(SOME_TIME);
    }
}

/// Visits every moment whose place in the order counts.
fn moments(state: &mut State, visit: &mut impl FnMut(&mut Timestamp)) {
    let life = &mut state.record.life;
    if let Some(operation) = life.operation.as_mut() {
        visit(&mut operation.started);
    }
    if let Some(run) = life.run.as_mut() {
        run.workload_started.iter_mut().for_each(&mut *visit);
        run.supervisor_started.iter_mut().for_each(&mut *visit);
    }
    let ended = [&mut state.ended, &mut state.supervisor_ended];
    for ended in ended.into_iter().flatten() {
        visit(&mut ended.finished_at);
    }
    if let Some(over) = state.outage.as_mut().and_then(|o| o.over.as_mut()) {
        visit(over);
    }
    let watching = std::mem::take(&mut state.watching);
    state.watching = watching
        .into_iter()
        .map(|(mut incarnation, role)| {
            visit(&mut incarnation.started_at);
            (incarnation, role)
        })
        .collect();
    if let Course::Halt(Halt {
        then: Then::Park(since),
        ..
    }) = &mut state.course
    {
        visit(since);
    }
    if let Course::Prove(proof) = &mut state.course {
        for sighting in [&mut proof.workload, &mut proof.supervisor] {
            match sighting {
                Some(Sighting::Running(Incarnation { started_at, .. })) => visit(started_at),
                Some(Sighting::Exited(Incarnation { started_at, .. }, exit)) => {
                    visit(started_at);
                    visit(&mut exit.finished_at);
                }
                _ => {}
            }
        }
    }
}

impl Machine {
    /// A state with what is derived from it; it is forgotten what no decision depends on.
    pub(super) fn new(mut state: State) -> Self {
        forget(&mut state);
        let mut ticks = Ticks::default();
        moments(&mut state, &mut |time| {
            if let Some(tick) = tick(*time) {
                ticks.add(tick);
            }
        });
        Self {
            state,
            ticks,
            hash: 0,
        }
    }

    fn serials(&self) -> impl Iterator<Item = u64> {
        let activity = self.state.activity.map(|a| a.ticket.serial);
        activity
            .into_iter()
            .chain(self.state.looking.values().copied())
    }
}

fn status_moments(status: &mut Status, visit: &mut impl FnMut(&mut u8)) {
    match status {
        Status::Created => {}
        Status::Running(started) => visit(started),
        Status::Exited {
            started, finished, ..
        } => {
            visit(started);
            visit(finished);
        }
    }
}

/// Visits every moment outside the gateway.
fn outer_moments(world: &mut World, visit: &mut impl FnMut(&mut u8)) {
    if let Some(workload) = world.workload.as_mut() {
        status_moments(&mut workload.status, visit);
    }
    for supervisor in &mut world.supervisors {
        status_moments(&mut supervisor.status, visit);
    }
    for call in &mut world.calls {
        match &mut call.stage {
            Stage::Answered(Reply::Launched {
                workload,
                supervisor,
            }) => {
                visit(workload);
                visit(supervisor);
            }
            Stage::Answered(Reply::NotRunning { finished, .. }) => visit(finished),
            _ => {}
        }
    }
    for look in &mut world.looks {
        if let Some(Seen::Status(status)) = &mut look.seen {
            status_moments(status, visit);
        }
    }
}

/// The gateway's machine and what the store holds where it differs.
fn machines(gateway: &mut Gateway) -> impl Iterator<Item = &mut Arc<Machine>> {
    let (first, second) = match gateway {
        Gateway::Up(cell) => (Some(&mut cell.machine), cell.stored.as_mut()),
        Gateway::Down(machine) => (Some(machine), None),
        Gateway::Gone => (None, None),
    };
    first.into_iter().chain(second)
}

/// Brings a world into the one form that equal situations share.
pub(super) fn canonical(world: &mut World) {
    strip(world);
    close_times(world);
    close_serials(world);
    for machine in machines(&mut world.gateway) {
        if machine.hash == 0 {
            let hash = fingerprint(&machine.state);
            Arc::make_mut(machine).hash = hash;
        }
    }
}

/// What counts of supervisors and questions that belong to nothing any more.
fn strip(world: &mut World) {
    let present = world.present();
    let held = world.workload.filter(|w| w.status.runs()).map(|w| w.run);
    for supervisor in &mut world.supervisors {
        if supervisor.run != present && Some(supervisor.run) != held {
            *supervisor = supervisor.bare();
        }
    }
    if let Gateway::Up(cell) = &world.gateway {
        let looking = &cell.machine.state.looking;
        world
            .looks
            .retain(|look| looking.get(&look.role) == Some(&look.serial));
    }
    world.looks.sort_by_key(|look| look.serial);
    world.retiring.sort_unstable();
    world.supervisors.sort_by_key(|s| s.run);
}

fn close_times(world: &mut World) {
    let mut ticks = Ticks::default();
    for machine in machines(&mut world.gateway) {
        ticks.0 |= machine.ticks.0;
    }
    outer_moments(world, &mut |tick| ticks.add(*tick));
    world.now = u8::try_from(ticks.count()).unwrap_or(u8::MAX);
    if ticks.closed() {
        return;
    }
    outer_moments(world, &mut |tick| *tick = ticks.rank(*tick));
    for machine in machines(&mut world.gateway) {
        let ranked = Ticks(
            (0..64)
                .filter(|t| machine.ticks.0 >> t & 1 == 1)
                .fold(0, |mask, t| mask | 1 << ticks.rank(t)),
        );
        if ranked == machine.ticks {
            continue;
        }
        let machine = Arc::make_mut(machine);
        moments(&mut machine.state, &mut |time| {
            if let Some(tick) = tick(*time) {
                *time = moment(ticks.rank(tick));
            }
        });
        machine.ticks = ranked;
        machine.hash = 0;
    }
}

fn close_serials(world: &mut World) {
    let mut serials: BTreeSet<u64> = world.calls.iter().map(|call| call.ticket.serial).collect();
    serials.extend(world.looks.iter().map(|look| look.serial));
    if let Gateway::Up(cell) = &world.gateway {
        serials.extend(cell.machine.serials());
    }
    let rank = |serial: u64| serials.range(..serial).count() as u64 + 1;
    for call in &mut world.calls {
        call.ticket.serial = rank(call.ticket.serial);
    }
    for look in &mut world.looks {
        look.serial = rank(look.serial);
    }
    let Gateway::Up(cell) = &mut world.gateway else {
        return;
    };
    let last = serials.len() as u64;
    let state = &cell.machine.state;
    if state.serial == last && cell.machine.serials().all(|serial| rank(serial) == serial) {
        return;
    }
    let machine = Arc::make_mut(&mut cell.machine);
    machine.hash = 0;
    machine.state.serial = last;
    if let Some(activity) = machine.state.activity.as_mut() {
        activity.ticket.serial = rank(activity.ticket.serial);
    }
    for serial in machine.state.looking.values_mut() {
        *serial = rank(*serial);
    }
}

/// By what a situation is told from another. Fixed keys: the same in every run.
pub(super) fn fingerprint(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests;
