//! One sandbox's cell: a task with a bounded mailbox that takes one input at a time, has the machine decide,
//! makes the decision durable, publishes it, and only then acts on it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use openshell_core::{Incarnation, SandboxRecord, SupervisorInstance};
use openshell_store::{RequestKey, StoreError};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::{AbortHandle, JoinSet};
use tracing::{error, warn};

use super::clock::Clock;
use super::commit::Committed;
use super::{CommandError, SessionRefused, Shared};
use crate::config::ShutdownMode;
use crate::driver::ComputeDriver;
use crate::machine::{self, Answer, Context, Course, Input, Opened, State, Ticket, Timer};
use crate::ports::{SessionEvent, SessionHandle, SessionHello};
use crate::time::between;

/// So many inputs may wait for one sandbox.
pub(super) const MAILBOX: usize = 64;
/// The store is tried again after this, doubling …
const STORE_RETRY: Duration = Duration::from_millis(100);
/// … up to this.
const STORE_RETRY_MAX: Duration = Duration::from_secs(5);

/// So many conflicts in a row are not contention but a failing store.
const CONFLICTS: u32 = 16;

type CommandReply = oneshot::Sender<Result<Arc<SandboxRecord>, CommandError>>;
type SessionReply = oneshot::Sender<Result<Arc<SandboxRecord>, SessionRefused>>;

/// What a cell is sent.
pub(super) enum Message {
    /// By a user; with the key of its request, if it is to be taken up once.
    Order(Box<(Input, Option<RequestKey>)>, CommandReply),
    /// By a supervisor: asks to be accepted.
    SessionOpened(SessionHello, SessionReply),
    /// By a supervisor; answered when it is durable.
    SessionEvent(
        openshell_core::Generation,
        SupervisorInstance,
        SessionEvent,
        oneshot::Sender<()>,
    ),
    /// By the engine, or by the fence itself.
    Input(Input),
}

/// Everything that a cell owns; dropping it ends its calls and waits.
pub(super) struct Cell<D> {
    pub(super) shared: Arc<Shared<D>>,
    pub(super) state: State,
    pub(super) published: watch::Sender<Option<Arc<SandboxRecord>>>,
    mailbox: mpsc::Receiver<Message>,
    missed: Arc<AtomicBool>,
    /// Calls and waits in flight; each ends with an input.
    pub(super) tasks: JoinSet<Input>,
    pub(super) calls: BTreeMap<u64, AbortHandle>,
    pub(super) waits: BTreeMap<Incarnation, AbortHandle>,
    pub(super) session: Option<(SupervisorInstance, Arc<dyn SessionHandle>)>,
    pub(super) progress: mpsc::Sender<(Ticket, String)>,
    progressed: mpsc::Receiver<(Ticket, String)>,
    clock: Clock,
    /// The gateway ends: nothing new is begun.
    draining: bool,
    gone: bool,
}

impl<D: ComputeDriver> Cell<D> {
    pub(super) fn new(
        shared: Arc<Shared<D>>,
        state: State,
        published: watch::Sender<Option<Arc<SandboxRecord>>>,
        mailbox: mpsc::Receiver<Message>,
        missed: Arc<AtomicBool>,
    ) -> Self {
        let (progress, progressed) = mpsc::channel(4);
        let clock = Clock::new(&*shared.environment);
        Self {
            shared,
            state,
            published,
            mailbox,
            missed,
            tasks: JoinSet::new(),
            calls: BTreeMap::new(),
            waits: BTreeMap::new(),
            session: None,
            progress,
            progressed,
            clock,
            draining: false,
            gone: false,
        }
    }

    /// Lives until the sandbox is deleted or the gateway ends.
    pub(super) async fn live(mut self, first: Vec<Input>, effects: Vec<machine::Effect>) {
        self.perform(effects);
        for input in first {
            self.take(&input).await;
        }
        while !self.gone {
            if self.draining && self.settled() {
                break;
            }
            self.turn().await;
        }
    }

    async fn turn(&mut self) {
        if let Some(by) = self.clock.moved(&*self.shared.environment) {
            self.take(&Input::ClockMoved(by)).await;
        }
        let (timer, wait) = self.next_timer();
        tokio::select! {
            biased;
            () = self.shared.closing.cancelled(), if !self.draining => self.drain().await,
            Some(done) = self.tasks.join_next() => match done {
                Ok(input) => {
                    if let Input::Outcome(ticket, _) = &input {
                        self.calls.remove(&ticket.serial);
                    }
                    self.take(&input).await;
                }
                // Given up on purpose: a panic inside comes back as an outcome.
                Err(ended) if ended.is_cancelled() => {}
                Err(ended) => error!(sandbox = %self.state.record.meta.id, "a task of the fence failed: {ended}"),
            },
            Some((ticket, text)) = self.progressed.recv() => {
                self.take(&Input::Progress(ticket, text)).await;
            }
            // Before the mailbox: whoever talks much holds no deadline up (L16).
            () = tokio::time::sleep(wait), if timer.is_some() => {
                if let Some(timer) = timer {
                    self.take(&Input::Timer(timer)).await;
                }
            }
            message = self.mailbox.recv() => match message {
                Some(message) => self.receive(message).await,
                None => self.gone = true,
            },
        }
        if self.missed.swap(false, Ordering::Relaxed)
            && let Some(engine) = self.state.record.life.engine.clone()
        {
            self.take(&Input::EngineConnected(engine)).await;
        }
    }

    fn next_timer(&self) -> (Option<Timer>, Duration) {
        let now = self.shared.environment.now();
        self.state
            .timers
            .iter()
            .min_by_key(|(_, due)| **due)
            .map_or((None, Duration::ZERO), |(timer, due)| {
                (Some(*timer), between(now, *due))
            })
    }

    async fn receive(&mut self, message: Message) {
        match message {
            Message::Order(order, reply) => {
                let (input, request) = *order;
                let answer = self.order(&input, request.as_ref()).await;
                // The asker may have gone; what was accepted stays accepted.
                let _ = reply.send(answer);
            }
            Message::SessionOpened(hello, reply) => {
                let answer = self.session_opened(hello).await;
                let _ = reply.send(answer);
            }
            Message::SessionEvent(generation, instance, event, reply) => {
                self.session_event(generation, instance, event).await;
                let _ = reply.send(());
            }
            Message::Input(input) => {
                self.take(&input).await;
            }
        }
    }

    async fn order(
        &mut self,
        input: &Input,
        request: Option<&RequestKey>,
    ) -> Result<Arc<SandboxRecord>, CommandError> {
        if self.draining {
            return Err(CommandError::ShuttingDown);
        }
        if let Some(request) = request
            && self.shared.seen(request).await?.is_some()
        {
            return Ok(self.record());
        }
        let answer = match (self.decide(input, request).await, request) {
            (Ok(answer), _) => answer,
            // It was taken up for another sandbox meanwhile.
            (Err(StoreError::RequestSeen(_)), Some(request)) => {
                return Err(CommandError::RequestIdReused(request.id.clone()));
            }
            (Err(error), _) => return Err(CommandError::Store(error.to_string())),
        };
        match answer {
            Answer::Accepted | Answer::SessionRefused(_) => Ok(self.record()),
            Answer::Refused(message) => Err(CommandError::Refused {
                phase: self.state.record.life.phase,
                message,
            }),
        }
    }

    async fn session_opened(
        &mut self,
        hello: SessionHello,
    ) -> Result<Arc<SandboxRecord>, SessionRefused> {
        if self.draining {
            return Err(SessionRefused::Ending);
        }
        let opened = Opened {
            generation: hello.generation,
            instance: hello.instance,
            enforced: hello.enforced,
            main: hello.main,
        };
        // The handle is in place before the decision's orders are given to it.
        let earlier = self.session.replace((hello.instance, hello.handle));
        match self.take(&Input::SessionOpened(opened)).await {
            Answer::SessionRefused(refused) => {
                self.session = earlier;
                Err(refused)
            }
            Answer::Accepted | Answer::Refused(_) => {
                if let Some((_, earlier)) = earlier {
                    earlier.close("a newer session of the same run has taken its place");
                }
                Ok(self.record())
            }
        }
    }

    async fn session_event(
        &mut self,
        generation: openshell_core::Generation,
        instance: SupervisorInstance,
        event: SessionEvent,
    ) {
        if let SessionEvent::Closed(_) = event {
            let current = self
                .session
                .as_ref()
                .filter(|(i, _)| *i == instance && generation == self.state.record.life.generation);
            match current {
                // It is the end of an earlier session of the same instance.
                Some((_, handle)) if handle.is_open() => return,
                Some(_) => self.session = None,
                None => {}
            }
        }
        self.take(&Input::SessionEvent(generation, instance, event))
            .await;
    }

    fn record(&self) -> Arc<SandboxRecord> {
        self.published
            .borrow()
            .clone()
            .unwrap_or_else(|| Arc::new(self.state.record.clone()))
    }

    /// Decides about a fact. Facts do not go away when the store fails: they wait for it.
    async fn take(&mut self, input: &Input) -> Answer {
        let mut wait = STORE_RETRY;
        loop {
            match self.decide(input, None).await {
                Ok(answer) => return answer,
                Err(failed) => {
                    error!(
                        sandbox = %self.state.record.meta.id,
                        "cannot record {:?}: {failed}; trying again in {wait:?}",
                        input.describe()
                    );
                    tokio::select! {
                        biased;
                        () = self.shared.abandon.cancelled() => {
                            self.gone = true;
                            return Answer::Accepted;
                        }
                        () = tokio::time::sleep(wait) => {}
                    }
                    wait = (wait * 2).min(STORE_RETRY_MAX);
                }
            }
        }
    }

    /// One step: decide, make durable, publish, act. A conflict reloads and decides again (L1).
    async fn decide(
        &mut self,
        input: &Input,
        request: Option<&RequestKey>,
    ) -> Result<Answer, StoreError> {
        if let Some(by) = self.clock.moved(&*self.shared.environment) {
            self.step(&Input::ClockMoved(by), None).await?;
        }
        self.step(input, request).await
    }

    async fn step(
        &mut self,
        input: &Input,
        request: Option<&RequestKey>,
    ) -> Result<Answer, StoreError> {
        let mut conflicts = 0;
        loop {
            let context = Context {
                now: self.shared.environment.now(),
                operation: self.shared.environment.operation_id(),
                config: &self.shared.config,
            };
            let step = machine::step(&self.state, input, context);
            #[cfg(any(test, feature = "test-util"))]
            if let Some(probe) = self.shared.rig.probe() {
                probe.decided(&self.state, input, &step);
            }
            match self.commit(input, step, context.now, request).await {
                Ok(Committed::Done(effects, answer)) => {
                    self.perform(effects);
                    return Ok(answer);
                }
                Ok(Committed::Gone) => {
                    self.gone = true;
                    return Ok(Answer::Accepted);
                }
                Err(StoreError::Conflict { .. }) if conflicts < CONFLICTS => {
                    conflicts += 1;
                    let id = self.state.record.meta.id;
                    match self.shared.store.sandbox(id).await? {
                        Some(record) => self.state.record = record,
                        None => {
                            warn!(sandbox = %id, "its record is gone from the store");
                            self.forget();
                            self.gone = true;
                            return Ok(Answer::Accepted);
                        }
                    }
                }
                Err(error) => return Err(error),
            }
        }
    }

    fn perform(&mut self, effects: Vec<machine::Effect>) {
        for effect in effects {
            if !self.draining || self.shared.config.on_shutdown == ShutdownMode::Stop {
                self.act(effect);
            }
        }
        self.keep_waits();
    }

    async fn drain(&mut self) {
        self.draining = true;
        if self.shared.config.on_shutdown == ShutdownMode::Stop {
            self.take(&Input::Park).await;
        }
    }

    /// Whether what is in flight has reached a durable point.
    fn settled(&self) -> bool {
        let resting = match self.shared.config.on_shutdown {
            ShutdownMode::Keep => true,
            ShutdownMode::Stop => {
                self.state.course == Course::Rest && self.state.retiring.is_empty()
            }
        };
        // What was decided while draining was not begun; the next start of the gateway takes it up.
        let making = self
            .state
            .activity
            .is_some_and(|a| !a.work.cancellable() && self.calls.contains_key(&a.ticket.serial));
        self.shared.abandon.is_cancelled() || (resting && !making)
    }
}
