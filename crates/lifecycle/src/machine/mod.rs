//! The machine: what a sandbox's life does with every input. Pure: no clock, no look-ups, no randomness; the
//! same function runs in production, in the model check and in the simulation.
//!
//! ```text
//!            create                                            Ready
//!              │    ┌───────────────── Bring ─────────────┐   ┌─────┐
//!              ├───▶│ Image ─▶ Prepare ─▶ Launch ─▶ Session├──▶│ Run │◀── session back ──┐
//!    start,    │    └──┬──────────┬─────────┬─────────┬───┘   └┬───┬┘                   │
//!    restart   │       │  failed, or stop, restart   │         │   └── session closed ──┘
//!    due       │       ▼          ▼         ▼         ▼        │ stop, restart, supervisor lost
//!              │    ┌────────────────── Halt ──────────────┐   │
//!              │    │ the workload is stopped, confirmed    │◀──┤ main exited, confirmed: nothing to halt
//!              │    └──┬──────────────┬──────────────┬─────┘   │
//!              │    NewRun         Settle         Stopped      │
//!              │       │   (restart::decide)         │         │
//!              ├───────┴──────┬───────┴───────┐      │         │
//!              │           restart        Completed, │         │
//!              │           at once        Error      ▼         │
//!              │              or          ┌────────────────┐   │
//!              └───────────── later ──────│      Rest      │   │
//!                                         └────────────────┘   │
//!    Prove: the engine is asked what became of a recorded run (gateway start, lost answer, engine back);
//!           leads to Run (adopted), Halt, or a settled end.
//!    Remove: from everywhere, by delete; leads out of existence.
//! ```
//!
//! A step changes the state by one input and then asks `drive` for the next engine call: there is at most one
//! in flight that changes something, and its outcome comes back with its ticket. What speaks of another run, or
//! of a call that was given up, changes nothing.

mod command;
mod drive;
mod effect;
mod exit;
mod input;
mod observe;
mod outcome;
mod prove;
mod session;
mod settle;
mod state;
mod timer;

use std::time::Duration;

use openshell_core::journal::Verdict;
use openshell_core::{
    Condition, ContainerId, Generation, Intent, Life, Operation, OperationId, OperationKind, Phase,
    Reason, Restart, Run, SandboxMeta, SandboxRecord, SandboxSpec, Timestamp,
};

pub use effect::{Answer, Effect, Step};
pub use exit::{Classified, Facts, Supervisor, classify};
pub use input::{Command, Input, MainEnd, Opened, Outcome, Ticket};
pub use state::{
    Activity, Course, End, Halt, Outage, Proof, Session, Stage, State, Then, Timer, Work,
};

use crate::config::FenceConfig;
use crate::time::after;

/// What a step may know beside its state and its input.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// Now.
    pub now: Timestamp,
    /// An id, should the step begin an operation.
    pub operation: OperationId,
    /// The bounds.
    pub config: &'a FenceConfig,
}

/// The first step of a life.
pub fn create(meta: SandboxMeta, spec: SandboxSpec, context: Context<'_>) -> Step {
    let record = SandboxRecord {
        meta,
        spec,
        life: Life {
            intent: Intent::Running,
            phase: Phase::Provisioning,
            condition: Condition {
                reason: Reason::Accepted,
                message: "accepted".to_owned(),
                since: context.now,
            },
            generation: Generation::default(),
            run: None,
            operation: None,
            restart: Restart::default(),
            last_exit: None,
            engine: None,
            retired: Vec::new(),
            hold: None,
        },
        resource_version: 0,
    };
    let mut turn = Turn::new(&State::new(record), context);
    turn.verdict = Verdict::Accepted;
    turn.begin_run(OperationKind::Create, "accepted");
    turn.note = "the sandbox is being made".to_owned();
    drive::drive(&mut turn);
    turn.finish(None)
}

/// Every further step.
pub fn step(state: &State, input: &Input, context: Context<'_>) -> Step {
    let mut turn = Turn::new(state, context);
    match input {
        Input::Command(command) => command::on_command(&mut turn, *command),
        Input::Hold { by, reason } => command::on_hold(&mut turn, by, reason),
        Input::Release => command::on_release(&mut turn),
        Input::ClockMoved(by) => timer::on_clock_moved(&mut turn, *by),
        Input::Restore => prove::on_restore(&mut turn),
        Input::Park => command::on_park(&mut turn),
        Input::Outcome(ticket, outcome) => outcome::on_outcome(&mut turn, *ticket, outcome),
        Input::Progress(ticket, text) => outcome::on_progress(&mut turn, *ticket, text),
        Input::Retired(container, result) => outcome::on_retired(&mut turn, container, result),
        Input::Stray(container, generation) => {
            outcome::on_stray(&mut turn, container, *generation);
        }
        Input::Looked {
            role,
            serial,
            answer,
        } => observe::on_looked(&mut turn, *role, *serial, answer),
        Input::Waited(role, incarnation, outcome) => {
            observe::on_waited(&mut turn, *role, incarnation, outcome);
        }
        Input::Event(event) => observe::on_event(&mut turn, event),
        Input::EngineConnected(engine) => observe::on_connected(&mut turn, engine),
        Input::EngineLost(why) => observe::on_lost(&mut turn, why),
        Input::SessionOpened(opened) => session::on_opened(&mut turn, opened),
        Input::SessionEvent(generation, instance, event) => {
            session::on_event(&mut turn, *generation, *instance, event);
        }
        Input::Timer(timer) => timer::on_timer(&mut turn, *timer),
    }
    session::maybe_ready(&mut turn);
    drive::drive(&mut turn);
    turn.finish(Some(state))
}

/// One step being made.
pub(crate) struct Turn<'a> {
    pub(crate) s: State,
    pub(crate) effects: Vec<Effect>,
    pub(crate) verdict: Verdict,
    pub(crate) note: String,
    pub(crate) answer: Answer,
    pub(crate) finished: Vec<(OperationKind, &'static str)>,
    pub(crate) context: Context<'a>,
}

impl<'a> Turn<'a> {
    fn new(state: &State, context: Context<'a>) -> Self {
        Self {
            s: state.clone(),
            effects: Vec::new(),
            verdict: Verdict::Applied,
            note: String::new(),
            answer: Answer::Accepted,
            finished: Vec::new(),
            context,
        }
    }

    fn finish(self, before: Option<&State>) -> Step {
        let changed = before.is_none_or(|b| b.record != self.s.record);
        let heard = !matches!(self.verdict, Verdict::Applied) || !self.note.is_empty();
        let note = if self.note.is_empty() && changed {
            self.s.record.life.condition.message.clone()
        } else {
            self.note
        };
        Step {
            state: self.s,
            effects: self.effects,
            verdict: self.verdict,
            note,
            journaled: changed || heard,
            answer: self.answer,
            finished: self.finished,
        }
    }

    pub(crate) const fn now(&self) -> Timestamp {
        self.context.now
    }

    pub(crate) fn life(&mut self) -> &mut Life {
        &mut self.s.record.life
    }

    pub(crate) fn run(&self) -> Option<&Run> {
        self.s.record.life.run.as_ref()
    }

    pub(crate) fn phase(&self) -> Phase {
        self.s.record.life.phase
    }

    /// Says what was made of the input.
    pub(crate) fn say(&mut self, verdict: Verdict, note: impl Into<String>) {
        self.verdict = verdict;
        self.note = note.into();
    }

    /// Moves to a phase. The one place where a phase changes.
    pub(crate) fn enter(&mut self, phase: Phase, reason: Reason, message: impl Into<String>) {
        let now = self.now();
        let life = self.life();
        let since = if life.phase == phase && life.condition.reason == reason {
            life.condition.since
        } else {
            now
        };
        life.phase = phase;
        life.condition = Condition {
            reason,
            message: message.into(),
            since,
        };
    }

    /// Changes the reason, not the phase.
    pub(crate) fn explain(&mut self, reason: Reason, message: impl Into<String>) {
        let phase = self.phase();
        self.enter(phase, reason, message);
    }

    pub(crate) fn set_timer(&mut self, timer: Timer, in_: Duration) {
        self.s.timers.insert(timer, after(self.context.now, in_));
    }

    pub(crate) fn clear_timer(&mut self, timer: Timer) {
        self.s.timers.remove(&timer);
    }

    /// Takes up an operation; one that was in flight is superseded by it.
    pub(crate) fn begin_operation(&mut self, kind: OperationKind, bound: Duration) {
        self.end_operation("superseded");
        let now = self.now();
        let deadline = after(now, bound);
        let id = self.context.operation;
        self.life().operation = Some(Operation {
            id,
            kind,
            started: now,
            deadline,
        });
        self.s.timers.insert(Timer::Deadline, deadline);
    }

    pub(crate) fn end_operation(&mut self, outcome: &'static str) {
        if let Some(operation) = self.life().operation.take() {
            self.finished.push((operation.kind, outcome));
        }
    }

    /// Gives up the call in flight, if that leaves nothing behind.
    pub(crate) fn cancel_activity(&mut self) {
        if let Some(activity) = self.s.activity
            && activity.work.cancellable()
        {
            self.effects.push(Effect::Cancel(activity.ticket));
            self.s.activity = None;
        }
    }

    /// Begins a new run. The earlier one is over: its workload is confirmed not to run.
    pub(crate) fn begin_run(&mut self, kind: OperationKind, message: &str) {
        self.run_over();
        let generation = self.life().generation.next();
        let workload = self.life().run.take().and_then(|run| run.workload);
        let stage = if workload.is_some() {
            Stage::Prepare
        } else {
            Stage::Image
        };
        let life = self.life();
        life.generation = generation;
        life.restart.next = None;
        life.run = Some(Run {
            workload,
            ..Run::new(generation)
        });
        self.s.tries = 0;
        self.s.idle = true;
        self.s.timers.clear();
        self.begin_operation(kind, self.context.config.provisioning);
        self.s.course = Course::Bring(stage);
        let phase = match kind {
            OperationKind::Create => Phase::Provisioning,
            _ => Phase::Starting,
        };
        self.enter(phase, Reason::Accepted, message);
    }

    /// Ends what belongs to the present run and to nothing after it.
    pub(crate) fn run_over(&mut self) {
        let supervisor = self.life().run.as_mut().and_then(|run| {
            run.workload_started = None;
            run.supervisor_started = None;
            run.supervisor.take()
        });
        if let Some(supervisor) = supervisor {
            self.life().retired.push(supervisor);
        }
        if self.s.session.take().is_some() {
            self.effects.push(Effect::CloseSession("the run has ended"));
        }
        self.s.reported = None;
        self.s.ended = None;
        self.s.supervisor_ended = None;
        self.s.outage = None;
        self.s.watching.clear();
        self.s.looking.clear();
        self.s.unseen.clear();
        self.s.adopting = false;
        self.s.frozen = false;
        self.s.tries = 0;
        self.s.timers.clear();
    }

    /// Everything recorded of this sandbox, for a removal.
    pub(crate) fn containers(&self) -> crate::driver::Containers {
        let run = self.run();
        crate::driver::Containers {
            workload: run.and_then(|r| r.workload.clone()),
            supervisor: run
                .and_then(|r| r.supervisor.clone())
                .or_else(|| self.s.record.life.retired.last().cloned()),
        }
    }

    /// Notes that the engine cannot be asked; answers with the first sign of it, which stays the cause.
    pub(crate) fn out_of_sight(&mut self, why: &str) -> String {
        let outage = self.s.outage.get_or_insert_with(|| state::Outage {
            cause: why.to_owned(),
            over: None,
        });
        outage.over = None;
        outage.cause.clone()
    }

    pub(crate) fn workload_id(&self) -> Option<ContainerId> {
        self.run().and_then(|r| r.workload.clone())
    }
}

#[cfg(test)]
mod tests;
