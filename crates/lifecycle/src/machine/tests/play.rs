//! A machine with a pure, obedient engine: effects queue up until a test lets them come out.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use openshell_core::{
    ContainerId, EngineId, Generation, ImageRef, Incarnation, OperationId, Phase, Reason,
    RestartPolicy, SandboxId, SandboxMeta, SandboxName, SandboxSpec, SupervisorInstance, Timestamp,
    WorkspaceName,
};
use uuid::Uuid;

use crate::config::FenceConfig;
use crate::driver::{
    DriverError, DriverErrorKind, EngineExit, Launched, Prepared, Role, Sighting, StopOutcome,
    WaitOutcome,
};
use crate::machine::{
    Command, Context, Effect, Input, Opened, Outcome, State, Step, Ticket, create, step,
};
use crate::ports::{MainReport, SessionEvent};
use crate::time::after;

#[derive(Clone, PartialEq, Eq, Debug)]
enum Status {
    Created,
    Running(Timestamp),
    Exited(Timestamp, EngineExit),
}

/// What goes wrong with an effect that a test lets come out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Luck {
    /// Nothing.
    Good,
    /// The engine refuses.
    Refused,
    /// Nothing is done, and nothing is known.
    Unreachable,
    /// It is done, and nothing is known.
    Lost,
}

#[derive(Clone)]
pub(super) struct Play {
    pub(super) state: State,
    pub(super) now: Timestamp,
    pub(super) pending: VecDeque<Effect>,
    pub(super) gone: bool,
    /// Somebody has started a half from outside.
    pub(super) outside: bool,
    pub(super) phases: Vec<Phase>,
    /// How often the workload was started in each generation.
    pub(super) launched: BTreeMap<Generation, u32>,
    engine: BTreeMap<ContainerId, Status>,
    config: FenceConfig,
    ids: u128,
}

pub(super) fn instance(generation: Generation) -> SupervisorInstance {
    SupervisorInstance::from_uuid(Uuid::from_u128(1000 + u128::from(generation.0)))
}

impl Play {
    pub(super) fn new(policy: RestartPolicy) -> Self {
        let now = Timestamp::from_second(1_767_225_600).expect("a valid time");
        let config = FenceConfig::default();
        let meta = SandboxMeta {
            id: SandboxId::from_uuid(Uuid::from_u128(1)),
            name: SandboxName::new("a").expect("a valid name"),
            workspace: WorkspaceName::default_workspace(),
            labels: BTreeMap::new(),
            annotations: BTreeMap::new(),
            created: now,
            template: None,
        };
        let spec = SandboxSpec {
            image: Some(ImageRef("busybox".to_owned())),
            restart_policy: policy,
            ..SandboxSpec::default()
        };
        let context = Context {
            now,
            operation: OperationId::from_uuid(Uuid::from_u128(2)),
            config: &config,
        };
        let first = create(meta, spec, context);
        Self {
            phases: vec![first.state.record.life.phase],
            state: first.state,
            now,
            pending: first.effects.into(),
            gone: false,
            outside: false,
            launched: BTreeMap::new(),
            engine: BTreeMap::new(),
            config,
            ids: 10,
        }
    }

    pub(super) fn phase(&self) -> Phase {
        self.state.record.life.phase
    }

    pub(super) fn generation(&self) -> Generation {
        self.state.record.life.generation
    }

    pub(super) fn tell(&mut self, input: &Input) -> Step {
        self.ids += 1;
        let context = Context {
            now: self.now,
            operation: OperationId::from_uuid(Uuid::from_u128(self.ids)),
            config: &self.config,
        };
        let step = step(&self.state, input, context);
        self.state = step.state.clone();
        if self.phases.last() != Some(&self.phase()) {
            self.phases.push(self.phase());
        }
        for effect in &step.effects {
            match effect {
                Effect::Cancel(ticket) => self.pending.retain(|e| ticket_of(e) != Some(*ticket)),
                Effect::Forget => self.gone = true,
                Effect::Freeze(_) | Effect::CloseSession(_) => {}
                other => self.pending.push_back(other.clone()),
            }
        }
        step
    }

    pub(super) fn command(&mut self, command: Command) -> Step {
        self.tell(&Input::Command(command))
    }

    /// Lets the oldest effect come out.
    pub(super) fn come_out(&mut self, luck: Luck) -> Option<Step> {
        let effect = self.pending.pop_front()?;
        let input = self.outcome(effect, luck);
        Some(self.tell(&input))
    }

    /// Lets everything come out, and supervisors do their part, until nothing is in flight.
    pub(super) fn settle(&mut self) {
        for _ in 0..1000 {
            if self.gone {
                return;
            }
            self.observe();
            if self.come_out(Luck::Good).is_none() && !self.supervise() {
                return;
            }
        }
        panic!("it never settles: {:#?}", self.state);
    }

    /// The same, and time passes too.
    pub(super) fn rest(&mut self) {
        for _ in 0..200 {
            self.settle();
            if self.gone || !self.fire_next() {
                return;
            }
        }
        panic!("it never rests: {:#?}", self.state);
    }

    /// Lets the earliest timer fall due.
    pub(super) fn fire_next(&mut self) -> bool {
        let next = self.state.timers.iter().min_by_key(|(_, due)| **due);
        let Some((timer, due)) = next.map(|(t, d)| (*t, *d)) else {
            return false;
        };
        self.now = self.now.max(due);
        self.tell(&Input::Timer(timer));
        true
    }

    /// Every wait that has an end to tell, tells it.
    pub(super) fn observe(&mut self) {
        let watching = self.state.watching.clone();
        for (incarnation, role) in watching {
            let outcome = match self.engine.get(&incarnation.container) {
                Some(Status::Running(at)) if *at == incarnation.started_at => continue,
                Some(Status::Exited(at, exit)) if *at == incarnation.started_at => {
                    WaitOutcome::Exited(incarnation.clone(), exit.clone())
                }
                _ => WaitOutcome::Superseded,
            };
            self.tell(&Input::Waited(role, incarnation, outcome));
        }
    }

    /// A live supervisor comes into session and starts main.
    pub(super) fn supervise(&mut self) -> bool {
        let running = self.id(Role::Supervisor).is_some_and(|id| self.runs(&id))
            && self.id(Role::Workload).is_some_and(|id| self.runs(&id));
        if !running || self.state.session.is_some() {
            return false;
        }
        let opened = self.open();
        self.tell(&opened);
        let accepted = self.state.session.is_some();
        let started = self.say(SessionEvent::MainStarted(self.now));
        self.tell(&started);
        accepted
    }

    pub(super) fn open(&self) -> Input {
        let generation = self.generation();
        Input::SessionOpened(Opened {
            generation,
            instance: instance(generation),
            enforced: true,
            main: MainReport::NotStarted,
        })
    }

    pub(super) fn say(&self, event: SessionEvent) -> Input {
        let generation = self.generation();
        Input::SessionEvent(generation, instance(generation), event)
    }

    pub(super) fn id(&self, role: Role) -> Option<ContainerId> {
        let run = self.state.record.life.run.as_ref()?;
        match role {
            Role::Workload => run.workload.clone(),
            Role::Supervisor => run.supervisor.clone(),
        }
    }

    pub(super) fn runs(&self, id: &ContainerId) -> bool {
        matches!(self.engine.get(id), Some(Status::Running(_)))
    }

    pub(super) fn anything_runs(&self) -> bool {
        self.engine
            .values()
            .any(|s| matches!(s, Status::Running(_)))
    }

    pub(super) fn containers(&self) -> usize {
        self.engine.len()
    }

    /// A half ends by itself.
    pub(super) fn end(&mut self, role: Role, code: i32) {
        if let Some(id) = self.id(role) {
            self.kill(&id, code);
        }
    }

    /// Somebody starts a half from outside the gateway.
    pub(super) fn start_outside(&mut self, role: Role) {
        if let Some(id) = self.id(role) {
            self.start(&id);
            self.outside = true;
        }
    }

    /// Somebody removes a half behind the gateway's back.
    pub(super) fn remove(&mut self, role: Role) {
        if let Some(id) = self.id(role) {
            self.engine.remove(&id);
        }
    }

    /// The engine goes out of sight: its streams and its waits break.
    pub(super) fn lose_engine(&mut self, why: &str) {
        self.tell(&Input::EngineLost(why.to_owned()));
        for (incarnation, role) in self.state.watching.clone() {
            let lost = WaitOutcome::Lost(why.to_owned());
            self.tell(&Input::Waited(role, incarnation, lost));
        }
    }

    /// The engine is in sight again; the halves' answers are then on their way, the workload's first.
    pub(super) fn find_engine(&mut self) {
        self.tell(&Input::EngineConnected(EngineId("e".to_owned())));
    }

    pub(super) fn pass(&mut self, time: Duration) {
        self.now = after(self.now, time);
    }

    pub(super) fn reason(&self) -> Reason {
        self.state.record.life.condition.reason
    }

    pub(super) fn message(&self) -> &str {
        &self.state.record.life.condition.message
    }

    /// A half ends, at a time of the engine's own.
    pub(super) fn end_at(&mut self, role: Role, code: i32, at: Timestamp) {
        if let Some(id) = self.id(role) {
            self.kill_at(&id, code, at);
        }
    }

    fn kill(&mut self, id: &ContainerId, code: i32) -> Option<EngineExit> {
        self.kill_at(id, code, self.now)
    }

    fn kill_at(
        &mut self,
        id: &ContainerId,
        code: i32,
        finished_at: Timestamp,
    ) -> Option<EngineExit> {
        let status = self.engine.get_mut(id)?;
        if let Status::Running(at) = *status {
            let exit = EngineExit {
                code,
                oom_killed: false,
                finished_at,
            };
            *status = Status::Exited(at, exit);
        }
        match status {
            Status::Exited(_, exit) => Some(exit.clone()),
            _ => None,
        }
    }

    fn start(&mut self, id: &ContainerId) -> Option<Incarnation> {
        let started_at = self.now;
        let status = self.engine.get_mut(id)?;
        *status = Status::Running(started_at);
        Some(Incarnation {
            container: id.clone(),
            started_at,
        })
    }

    pub(super) fn outcome(&mut self, effect: Effect, luck: Luck) -> Input {
        self.now = after(self.now, Duration::from_millis(7));
        let done = matches!(luck, Luck::Good | Luck::Lost);
        let error = match luck {
            Luck::Good => None,
            Luck::Refused => Some(DriverErrorKind::Engine),
            Luck::Unreachable | Luck::Lost => Some(DriverErrorKind::Unreachable),
        };
        let error = error.map(|kind| DriverError::new(kind, "scripted"));
        match effect {
            Effect::PrepareImage(ticket) => {
                Input::Outcome(ticket, Outcome::Image(answer(error, ())))
            }
            Effect::PrepareRun(ticket) => self.prepare(ticket, done, error),
            Effect::Launch(ticket, prepared) => self.launch(ticket, &prepared, done, error),
            Effect::StopWorkload(ticket, id, _) => {
                let exit = if done { self.kill(&id, 137) } else { None };
                let outcome = exit.map_or(StopOutcome::NeverStarted, StopOutcome::NotRunning);
                Input::Outcome(ticket, Outcome::Stopped(answer(error, outcome)))
            }
            Effect::RemoveAll(ticket, _) => {
                if done {
                    self.engine.clear();
                }
                Input::Outcome(ticket, Outcome::Removed(answer(error, ())))
            }
            Effect::RemoveSupervisor(id, _) => {
                if done {
                    self.engine.remove(&id);
                }
                Input::Retired(id, answer(error, ()))
            }
            Effect::Look(role, id, serial) => {
                let answer = error.map_or_else(|| Ok(self.sighting(&id)), |e| Err(e.message));
                Input::Looked {
                    role,
                    serial,
                    answer,
                }
            }
            other => panic!("not an engine call: {other:?}"),
        }
    }

    fn prepare(&mut self, ticket: Ticket, done: bool, error: Option<DriverError>) -> Input {
        let fresh = |n: u128| ContainerId(format!("{n:012}"));
        self.ids += 2;
        let workload = self
            .id(Role::Workload)
            .unwrap_or_else(|| fresh(self.ids - 1));
        let supervisor = fresh(self.ids);
        // What a failed prepare has made, it has removed again.
        if done && error.is_none() {
            self.engine
                .entry(workload.clone())
                .or_insert(Status::Created);
            self.engine.insert(supervisor.clone(), Status::Created);
        }
        let prepared = Prepared {
            workload,
            supervisor,
            engine: EngineId("e".to_owned()),
        };
        Input::Outcome(ticket, Outcome::Prepared(answer(error, prepared)))
    }

    fn launch(
        &mut self,
        ticket: Ticket,
        prepared: &Prepared,
        done: bool,
        error: Option<DriverError>,
    ) -> Input {
        let nothing = || Incarnation {
            container: prepared.workload.clone(),
            started_at: Timestamp::UNIX_EPOCH,
        };
        let mut launched = Launched {
            workload: nothing(),
            supervisor: nothing(),
        };
        if done {
            *self.launched.entry(ticket.generation).or_default() += 1;
            launched.workload = self.start(&prepared.workload).unwrap_or_else(nothing);
            launched.supervisor = self.start(&prepared.supervisor).unwrap_or_else(nothing);
        }
        Input::Outcome(ticket, Outcome::Launched(answer(error, launched)))
    }

    fn sighting(&self, id: &ContainerId) -> Sighting {
        let incarnation = |started_at: Timestamp| Incarnation {
            container: id.clone(),
            started_at,
        };
        match self.engine.get(id) {
            None => Sighting::Missing(EngineId("e".to_owned())),
            Some(Status::Created) => Sighting::Created,
            Some(Status::Running(at)) => Sighting::Running(incarnation(*at)),
            Some(Status::Exited(at, exit)) => Sighting::Exited(incarnation(*at), exit.clone()),
        }
    }

    /// The gateway is killed and started again: only the record is left.
    pub(super) fn crash(&mut self) {
        self.pending.clear();
        self.state = State::new(self.state.record.clone());
        self.tell(&Input::Restore);
    }
}

fn answer<T>(error: Option<DriverError>, value: T) -> Result<T, DriverError> {
    error.map_or(Ok(value), Err)
}

fn ticket_of(effect: &Effect) -> Option<Ticket> {
    match effect {
        Effect::PrepareImage(t)
        | Effect::PrepareRun(t)
        | Effect::Launch(t, _)
        | Effect::StopWorkload(t, ..)
        | Effect::RemoveAll(t, _) => Some(*t),
        _ => None,
    }
}
