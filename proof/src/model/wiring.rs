//! The model's copy of the fence's shell: one step, made durable, then its effects. Here the faults are planted.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use openshell_core::{OperationId, RestartPolicy, SandboxMeta, SandboxSpec};
use openshell_lifecycle::FenceConfig;
use openshell_lifecycle::driver::Role;
use openshell_lifecycle::machine::{self, Answer, Context, Effect, Input, State, Step, Work};
use uuid::Uuid;

use super::canon::canonical;
use super::plant;
use super::rules;
use super::time::moment;
use super::world::{
    Asked, Call, Cell, Gateway, Look, Machine, Oracle, Stage, World, number, small,
};
use crate::faults::Fault;

/// What is explored.
#[derive(Clone, Debug)]
pub(super) struct Setup {
    pub(super) policy: RestartPolicy,
    pub(super) fault: Option<Fault>,
    pub(super) config: FenceConfig,
    /// So many runs.
    pub(super) runs: u8,
    /// So much may go wrong.
    pub(super) luck: u8,
}

impl Setup {
    pub(super) fn has(&self, fault: Fault) -> bool {
        self.fault == Some(fault)
    }
}

/// A promise that was broken.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Violation {
    pub(super) rule: &'static str,
    pub(super) what: String,
}

impl Violation {
    pub(super) fn new(rule: &'static str, what: impl Into<String>) -> Self {
        Self {
            rule,
            what: what.into(),
        }
    }
}

/// The production machine, with a panic as a broken promise.
pub(super) fn step(
    setup: &Setup,
    state: &State,
    input: &Input,
    now: u8,
) -> Result<Step, Violation> {
    let context = Context {
        now: moment(now),
        operation: OperationId::from_uuid(Uuid::nil()),
        config: &setup.config,
    };
    catch_unwind(AssertUnwindSafe(|| machine::step(state, input, context)))
        .map_err(|_| Violation::new("L7", "the machine panicked"))
}

/// Has the machine decide about an input, makes the decision durable, and has its effects begin.
pub(super) fn tell(setup: &Setup, world: &mut World, input: &Input) -> Result<Answer, Violation> {
    let Some(cell) = world.cell() else {
        return Ok(Answer::Accepted);
    };
    let before = Arc::clone(&cell.machine);
    let mut made = step(setup, &before.state, input, world.now)?;
    plant::misjudge(setup, &before.state, input, &mut made);
    rules::transition(setup, &before.state, input, &made)?;
    rules::new_run(setup, world, &before.state, input, &made)?;
    rules::note(world, &before.state, &made);
    let answer = made.answer.clone();
    commit(setup, world, &before, made);
    Ok(answer)
}

/// Where everything begins: a create has just been accepted.
pub(super) fn first(setup: &Setup, meta: SandboxMeta, spec: SandboxSpec) -> World {
    let context = Context {
        now: moment(0),
        operation: OperationId::from_uuid(Uuid::nil()),
        config: &setup.config,
    };
    let step = machine::create(meta, spec, context);
    let machine = Arc::new(Machine::new(step.state.clone()));
    let mut world = World {
        gateway: Gateway::Up(Cell {
            machine: Arc::clone(&machine),
            handle: None,
            connected: false,
            draining: false,
            stored: None,
        }),
        engine: true,
        workload: None,
        supervisors: Vec::new(),
        calls: Vec::new(),
        looks: Vec::new(),
        retiring: Vec::new(),
        luck: setup.luck,
        oracle: Oracle {
            launched: 0,
            mains: 0,
            asked: Asked::Run,
            held: false,
            another: false,
            ended: None,
            disturbed: false,
        },
        now: 1,
    };
    commit(setup, &mut world, &machine, step);
    canonical(&mut world);
    world
}

fn commit(setup: &Setup, world: &mut World, before: &Arc<Machine>, step: Step) {
    let Step {
        mut state, effects, ..
    } = step;
    if setup.has(Fault::NoTimers) {
        state.timers.clear();
    }
    let gone = effects.contains(&Effect::Forget);
    let launches = effects.iter().any(|e| matches!(e, Effect::Launch(..)));
    let machine = Arc::new(Machine::new(state));
    let Some(cell) = world.cell_mut() else { return };
    let earlier = cell.stored.take();
    if setup.has(Fault::ForgetWriteAhead) && launches {
        cell.stored = Some(earlier.unwrap_or_else(|| Arc::clone(before)));
    }
    if setup.has(Fault::ForgetContainers) {
        cell.stored = without_containers(before, &machine).or(cell.stored.take());
    }
    cell.machine = machine;
    for effect in effects {
        enact(setup, world, effect);
    }
    if gone {
        world.gateway = Gateway::Gone;
    }
}

/// The record as it was before the engine answered a prepare.
fn without_containers(before: &Arc<Machine>, after: &Machine) -> Option<Arc<Machine>> {
    let supervisor = |state: &State| {
        let run = state.record.life.run.as_ref();
        run.and_then(|run| run.supervisor.clone())
    };
    (supervisor(&before.state).is_none() && supervisor(&after.state).is_some())
        .then(|| Arc::clone(before))
}

fn enact(setup: &Setup, world: &mut World, effect: Effect) {
    match effect {
        Effect::PrepareImage(ticket) => call(world, ticket, Work::Image, None, false),
        Effect::PrepareRun(ticket) => {
            let run = world.state().and_then(|s| s.record.life.run.as_ref());
            let existing = run.and_then(|run| run.workload.as_ref()).map(number);
            call(world, ticket, Work::Prepare, existing, false);
        }
        Effect::Launch(ticket, prepared) => {
            let workload = number(&prepared.workload);
            call(world, ticket, Work::Launch, Some(workload), false);
        }
        Effect::StopWorkload(ticket, container, grace) => {
            let workload = number(&container);
            call(world, ticket, Work::Stop, Some(workload), !grace.is_zero());
        }
        Effect::RemoveAll(ticket, _) => call(world, ticket, Work::Remove, None, false),
        Effect::Cancel(ticket) => world.calls.retain(|c| c.ticket.serial != ticket.serial),
        Effect::RemoveSupervisor(container, _) => world.retiring.push(number(&container)),
        Effect::Look(role, container, serial) => world.looks.push(Look {
            role,
            number: number(&container),
            serial,
            seen: None,
        }),
        Effect::Freeze(frozen) => freeze(setup, world, frozen),
        Effect::CloseSession(_) => close_session(world),
        Effect::Forget => {}
    }
}

fn call(
    world: &mut World,
    ticket: machine::Ticket,
    work: Work,
    workload: Option<u8>,
    graceful: bool,
) {
    world.calls.push(Call {
        ticket,
        work,
        workload,
        graceful,
        stage: Stage::Begun,
    });
}

fn freeze(setup: &Setup, world: &mut World, frozen: bool) {
    if !frozen && setup.has(Fault::LoseThaw) {
        return;
    }
    let handle = world.cell().and_then(|cell| cell.handle);
    if let (Some((run, true)), Some(workload)) = (handle, world.workload.as_mut())
        && workload.run == run
        && workload.status.runs()
    {
        workload.frozen = frozen;
    }
}

fn close_session(world: &mut World) {
    let handle = world.cell_mut().and_then(|cell| cell.handle.take());
    if let Some((run, true)) = handle
        && let Some(supervisor) = world.supervisor_mut(run)
    {
        supervisor.session = false;
        supervisor.closed = true;
    }
}

/// The gateway process ends where it stands.
pub(super) fn crash(setup: &Setup, world: &mut World) {
    let Gateway::Up(cell) = &world.gateway else {
        return;
    };
    let stored = cell.stored.as_ref().unwrap_or(&cell.machine);
    let mut record = stored.state.record.clone();
    let life = &mut record.life;
    if setup.has(Fault::ForgetIntent) {
        life.intent = openshell_core::Intent::Running;
    }
    if setup.has(Fault::ForgetRun) {
        life.run = None;
    }
    if setup.has(Fault::ForgetRetired) {
        life.retired.clear();
    }
    world.gateway = Gateway::Down(Arc::new(Machine::new(State::new(record))));
    world.calls.clear();
    world.looks.clear();
    world.retiring.clear();
    for supervisor in &mut world.supervisors {
        supervisor.session = false;
        supervisor.closed = false;
    }
    world.oracle.disturbed = true;
}

/// The container that a record names for a half.
pub(super) fn recorded(state: &State, role: Role) -> Option<u8> {
    let run = state.record.life.run.as_ref()?;
    match role {
        Role::Workload => run.workload.as_ref(),
        Role::Supervisor => run.supervisor.as_ref(),
    }
    .map(number)
}

/// The run that a machine is in.
pub(super) fn present(state: &State) -> u8 {
    small(state.record.life.generation.0)
}
