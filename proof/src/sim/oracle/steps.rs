//! The rules that every single step must keep.

use std::time::Duration;

use jiff::SignedDuration;
use openshell_core::{Generation, Intent, Life, OperationKind, Phase, Reason, RestartPolicy};
use openshell_lifecycle::RestoreMode;
use openshell_lifecycle::machine::{Answer, Command, Course, Effect, Input, State, Step, Timer};

use tokio::time::Instant;

use super::truth::{RunTruth, Truth};
use super::{Knowledge, Oracle};
use crate::sim::blows::OWN;
use crate::sim::world::{locked, short};

/// A session that is away for less says nothing about its run.
const AWAY: Duration = Duration::from_secs(5);

/// Two ends that are not further apart may be one event.
const MOMENT: SignedDuration = SignedDuration::from_secs(1);
/// An operation without trouble takes no longer than this.
const PROMPT: Duration = Duration::from_secs(40);
/// A call that hangs is given up after this.
const CALL: Duration = Duration::from_secs(61);

/// Broken rules.
pub(super) type Broken = Vec<(&'static str, String)>;

/// One step, beside what is so.
struct Case<'c> {
    before: &'c State,
    after: &'c State,
    old: &'c Life,
    new: &'c Life,
    input: &'c Input,
    step: &'c Step,
    /// A run was asked for since the present one began.
    asked: bool,
    truth: Truth,
    /// Of the run that was the present one before the step.
    run: RunTruth,
}

impl Oracle {
    pub(super) fn judge(
        &self,
        known: &mut Knowledge,
        before: &State,
        input: &Input,
        step: &Step,
    ) -> Broken {
        let id = before.record.meta.id;
        let Some(ledger) = known.ledgers.get_mut(&id) else {
            return vec![("L1", "a step of a sandbox that nobody made".to_owned())];
        };
        let mut broken = Broken::new();
        if before.record != ledger.durable {
            let what = format!(
                "decides from version {} ({}), while version {} ({}) is durable",
                before.record.resource_version,
                before.record.life.phase,
                ledger.durable.resource_version,
                ledger.durable.life.phase
            );
            broken.push(("L1", what));
        }
        match (input, &step.answer) {
            (Input::Command(command), Answer::Accepted) => {
                ledger.asked |= matches!(command, Command::Start | Command::Restart);
                ledger.intent = match command {
                    Command::Start | Command::Restart => Intent::Running,
                    Command::Stop => Intent::Stopped,
                    Command::Delete => Intent::Deleted,
                };
            }
            (Input::Hold { .. }, Answer::Accepted) => ledger.intent = Intent::Stopped,
            _ => {}
        }
        let asked = ledger.asked;
        if step.state.record.life.generation != before.record.life.generation {
            ledger.asked = false;
        }
        let truth = known.truths.get(&id).cloned().unwrap_or_default();
        let run = truth.run(before.record.life.generation);
        let case = Case {
            before,
            after: &step.state,
            old: &before.record.life,
            new: &step.state.record.life,
            input,
            step,
            asked,
            truth,
            run,
        };
        if case.new.intent != ledger.intent {
            broken.push((
                "L1",
                format!(
                    "its intent is {:?}, and {:?} was asked for",
                    case.new.intent, ledger.intent
                ),
            ));
        }
        if case.old == case.new && step.effects.is_empty() {
            return broken;
        }
        case.runs_are_granted(self.config.restore, &mut broken);
        case.delete_wins(&mut broken);
        case.operation_outranks(&mut broken);
        case.stale_changes_nothing(&mut broken);
        case.ends_are_true(&mut broken);
        case.ready_is_true(&mut broken);
        case.nothing_ends_without_cause(&mut broken);
        case.no_flicker(&mut broken);
        self.nothing_is_forgotten(&case, &mut broken);
        self.nothing_waits(&case, &mut broken);
        broken
    }

    /// An operation of a sandbox that nothing happens to takes its time, and not that of others (L15).
    fn nothing_waits(&self, case: &Case<'_>, broken: &mut Broken) {
        let Some(operation) = &case.old.operation else {
            return;
        };
        let Ok(age) = Duration::try_from(self.now().duration_since(operation.started)) else {
            return;
        };
        let troubled = case
            .truth
            .troubled
            .is_some_and(|at| at.elapsed() < age + CALL);
        let since = Instant::now().checked_sub(age);
        let away = self.engine_was_away_within(age + CALL);
        if age > PROMPT
            && !troubled
            && !away
            && !since.is_some_and(|at| self.store_failed_since(at))
        {
            let what = format!(
                "its {:?} has taken {} s, and nothing has happened to it",
                operation.kind,
                age.as_secs()
            );
            broken.push(("L15", what));
        }
    }

    /// What exists stays recorded, whoever says that it does not (L18), until it is gone (L13).
    fn nothing_is_forgotten(&self, case: &Case<'_>, broken: &mut Broken) {
        let old = case.old.run.as_ref().and_then(|r| r.workload.as_ref());
        let new = case.new.run.as_ref().and_then(|r| r.workload.as_ref());
        if let Some(old) = old
            && new != Some(old)
            && self.exists(old)
        {
            broken.push((
                "L18",
                format!("{} exists and is recorded no more", short(old)),
            ));
        }
        let recorded = |c| {
            case.new.retired.contains(c)
                || case.new.run.as_ref().and_then(|r| r.supervisor.as_ref()) == Some(c)
        };
        let supervisor = case.old.run.as_ref().and_then(|r| r.supervisor.as_ref());
        for container in case.old.retired.iter().chain(supervisor) {
            if !recorded(container) && self.exists(container) {
                let what = format!("{} exists and is recorded no more", short(container));
                broken.push(("L13", what));
            }
        }
        if case.step.effects.contains(&Effect::Forget) {
            let id = case.before.record.meta.id;
            let nowhere = case.old.engine.is_none() && self.engine.identity().0 != OWN;
            for (container, of, ..) in self.engine.holdings() {
                if of == id && nowhere {
                    // Made, and not heard of before the gateway died and the engine was another: nothing is
                    // recorded that could be missed. The owner of that engine finds it among the leftovers.
                    locked(&self.stranded).push(container);
                } else if of == id {
                    let what = format!("its record goes while {} exists", short(&container));
                    broken.push(("L13", what));
                }
            }
        }
    }
}

fn is_observation(input: &Input) -> bool {
    matches!(
        input,
        Input::Waited(..)
            | Input::Event(_)
            | Input::Looked { .. }
            | Input::SessionOpened(_)
            | Input::SessionEvent(..)
            | Input::EngineConnected(_)
            | Input::EngineLost(_)
            | Input::Stray(..)
            | Input::Retired(..)
            | Input::Progress(..)
    )
}

impl Case<'_> {
    /// A new run needs a command, an operation that goes on, or the restart policy.
    fn runs_are_granted(&self, restore: RestoreMode, broken: &mut Broken) {
        let (old, new) = (self.old.generation, self.new.generation);
        if new == old {
            return;
        }
        if new != old.next() {
            broken.push(("L2", format!("run {new} follows run {old}")));
        }
        if self.new.hold.is_some() {
            broken.push(("hold", format!("run {new} begins although it is held")));
        }
        if self.new.intent != Intent::Running {
            let what = format!(
                "run {new} begins although it should be {:?}",
                self.new.intent
            );
            broken.push(("L12", what));
        }
        let Some(kind) = self.new.operation.as_ref().map(|o| o.kind) else {
            broken.push(("L2", format!("run {new} begins without an operation")));
            return;
        };
        let goes_on = self.old.operation.as_ref().is_some_and(|o| {
            o.kind == kind || (kind == OperationKind::Create && o.kind == OperationKind::Start)
        });
        let policy = self.before.record.spec.restart_policy;
        // A relaunch that had to wait is granted when its time is set.
        let due = self.input == &Input::Timer(Timer::Restart) && self.old.restart.next.is_some();
        let granted = self.asked
            || due
            || goes_on
            || match kind {
                OperationKind::Restart => policy != RestartPolicy::Never,
                OperationKind::Restore => match restore {
                    RestoreMode::Intent => true,
                    RestoreMode::Policy => policy != RestartPolicy::Never,
                    RestoreMode::None => false,
                },
                OperationKind::Create => {
                    matches!(self.input, Input::Restore) || old == Generation(0)
                }
                _ => false,
            };
        if !granted {
            broken.push((
                "L8",
                format!("run {new} begins by {kind:?}, which nobody asked for"),
            ));
        }
        if kind == OperationKind::Restore && !goes_on {
            self.relaunch_is_due(policy, broken);
        }
    }

    /// What ended by itself is the restart policy's (L9), and so is a lost supervisor (L11).
    fn relaunch_is_due(&self, policy: RestartPolicy, broken: &mut Broken) {
        let run = &self.run;
        let by_itself = run.main_end.filter(|code| matches!(code, 0 | 17));
        let with_it = run.workload_end.as_ref().map(|exit| exit.code);
        let ended = run.workload_end.as_ref().map(|exit| exit.finished_at);
        // What ends at the same moment was taken down by one hand, as far as anybody can tell.
        let alone = ended.is_none_or(|ended| {
            run.supervisor_end
                .is_none_or(|at| at.duration_since(ended).abs() > MOMENT)
        });
        if let Some(code) = by_itself
            && alone
            && with_it == Some(code)
            && policy == RestartPolicy::Never
        {
            broken.push((
                "L9",
                format!("it is relaunched although its main process had ended with {code}"),
            ));
        }
        let lost = run
            .supervisor_end
            .is_some_and(|at| ended.is_none_or(|ended| ended.duration_since(at) > MOMENT));
        let plain = !run.unwatched && !run.disturbed && !run.removed && !run.meddled;
        if lost && plain && policy == RestartPolicy::Never {
            broken.push((
                "L11",
                "it is relaunched although its supervisor was lost".to_owned(),
            ));
        }
    }

    fn delete_wins(&self, broken: &mut Broken) {
        if self.old.intent == Intent::Deleted
            && (self.new.intent != Intent::Deleted || self.new.phase != Phase::Deleting)
        {
            broken.push((
                "L12",
                format!("it is {} although it was deleted", self.new.phase),
            ));
        }
    }

    /// An observation may complete a stop, and refine its reason; more it may not.
    fn operation_outranks(&self, broken: &mut Broken) {
        let stopping = self
            .old
            .operation
            .as_ref()
            .is_some_and(|o| o.kind == OperationKind::Stop);
        if stopping
            && is_observation(self.input)
            && self.new.phase != self.old.phase
            && self.new.phase != Phase::Stopped
        {
            let what = format!(
                "{} moves it from {} to {} during a stop",
                self.input.describe(),
                self.old.phase,
                self.new.phase
            );
            broken.push(("L5", what));
        }
    }

    /// What speaks of another run moves nothing.
    fn stale_changes_nothing(&self, broken: &mut Broken) {
        let run = self.old.run.as_ref();
        let stale = match self.input {
            Input::Waited(_, incarnation, _) => {
                let workload = run.and_then(openshell_core::Run::workload_incarnation);
                let supervisor = run.and_then(openshell_core::Run::supervisor_incarnation);
                workload.as_ref() != Some(incarnation) && supervisor.as_ref() != Some(incarnation)
            }
            Input::SessionEvent(generation, ..) => *generation != self.old.generation,
            Input::SessionOpened(opened) => opened.generation != self.old.generation,
            Input::Outcome(ticket, _) => self.before.activity.map(|a| a.ticket) != Some(*ticket),
            _ => false,
        };
        if stale && self.old != self.new {
            broken.push((
                "L3",
                format!("{} is stale, and changes it", self.input.describe()),
            ));
        }
    }

    /// Nothing is said to have ended that runs (L4, L6), or to have ended otherwise than it did.
    fn ends_are_true(&self, broken: &mut Broken) {
        if self.new.phase == self.old.phase {
            return;
        }
        let rests = self.after.course == Course::Rest;
        let reason = self.new.condition.reason;
        let over = match self.new.phase {
            Phase::Stopped | Phase::Completed => true,
            Phase::Error => rests && reason != Reason::StopFailed,
            _ => false,
        };
        if over && let Some((container, generation)) = self.truth.launched() {
            let rule = if self.new.phase == Phase::Stopped {
                "L6"
            } else {
                "L4"
            };
            let what = format!(
                "it is {} while {} of run {generation} runs",
                self.new.phase,
                short(container)
            );
            broken.push((rule, what));
        }
        let run = self.truth.run(self.new.generation);
        if self.new.phase == Phase::Completed && run.main_end != Some(0) {
            let what = format!("it is Completed, and main's end is {:?}", run.main_end);
            broken.push(("L4", what));
        }
        let failed = run.main_end.is_some_and(|code| code != 0)
            || run.workload_end.is_some()
            || self.truth.meddled;
        if self.new.phase == Phase::Error && reason == Reason::MainProcessFailed && !failed {
            broken.push((
                "L4",
                "its main process is said to have failed, and has not".to_owned(),
            ));
        }
    }

    fn ready_is_true(&self, broken: &mut Broken) {
        if self.new.phase != Phase::Ready || self.old.phase == Phase::Ready {
            return;
        }
        let run = self.truth.run(self.new.generation);
        if run.mains == 0 {
            broken.push((
                "Ready",
                "it is Ready, and its main process was never started".to_owned(),
            ));
        }
        if self.after.session.is_none_or(|s| !s.linked) {
            broken.push(("Ready", "it is Ready without a session".to_owned()));
        }
    }

    /// A Ready run is left alone unless something has happened to it.
    fn nothing_ends_without_cause(&self, broken: &mut Broken) {
        if self.old.phase != Phase::Ready || self.new.phase == Phase::Ready {
            return;
        }
        if matches!(
            self.input,
            Input::Command(_) | Input::Hold { .. } | Input::Park
        ) {
            return;
        }
        let run = &self.run;
        let ended = run.main_end.is_some()
            || run.workload_end.is_some()
            || run.supervisor_end.is_some()
            || run.removed
            || run.meddled;
        let ended = ended || run.given_up;
        let away = run.broke.is_some_and(|at| at.elapsed() >= AWAY);
        let excused = match self.new.phase {
            Phase::Unknown => run.disturbed || run.unanswered,
            Phase::Provisioning => ended || run.broke.is_some() || run.unwatched,
            _ => ended || away,
        };
        if !excused {
            let what = format!(
                "{} makes it {} ({}), and nothing has happened to it",
                self.input.describe(),
                self.new.phase,
                self.new.condition.reason
            );
            broken.push(("L4", what));
        }
    }

    /// What has come to rest is left only by a command, or by an operation that says why.
    fn no_flicker(&self, broken: &mut Broken) {
        let rested = matches!(
            self.old.phase,
            Phase::Stopped | Phase::Completed | Phase::Error
        );
        if !rested || self.new.phase == self.old.phase {
            return;
        }
        let commanded = matches!(
            self.input,
            Input::Command(_) | Input::Hold { .. } | Input::Release
        );
        let operation = self.new.operation.as_ref().map(|o| o.id);
        let explained =
            operation.is_some() && operation != self.old.operation.as_ref().map(|o| o.id);
        let due = self.new.restart.next.is_some();
        let contained = matches!(self.before.course, Course::Halt(_));
        if !(commanded || explained || due || contained) {
            let what = format!(
                "{} moves it from {} to {}, and no operation says why",
                self.input.describe(),
                self.old.phase,
                self.new.phase
            );
            broken.push(("L17", what));
        }
    }
}
