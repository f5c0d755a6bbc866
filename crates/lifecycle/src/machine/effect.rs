//! What a machine asks its shell to do.

use std::time::Duration;

use openshell_core::{ContainerId, Generation, OperationKind};

use super::input::Ticket;
use super::state::State;
use crate::driver::{Containers, Prepared, Role};
use crate::fence::SessionRefused;
use openshell_core::journal::Verdict;

/// One thing to be done, after the record is durable. Waits ([`State::watching`]) and timers
/// ([`State::timers`]) are not effects: the shell keeps them as the state says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Effect {
    /// Have the image there.
    PrepareImage(Ticket),
    /// Make both containers.
    PrepareRun(Ticket),
    /// Start both containers.
    Launch(Ticket, Prepared),
    /// Stop the workload.
    StopWorkload(Ticket, ContainerId, Duration),
    /// Remove everything.
    RemoveAll(Ticket, Containers),
    /// Give up the call with this ticket.
    Cancel(Ticket),
    /// Remove an ended run's supervisor.
    RemoveSupervisor(ContainerId, Generation),
    /// Ask about one container.
    Look(Role, ContainerId, u64),
    /// Freeze (or thaw) the workload by way of its supervisor.
    Freeze(bool),
    /// End the session.
    CloseSession(&'static str),
    /// The record is to be removed: nothing of the sandbox is left.
    Forget,
}

/// What the asker is told.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Answer {
    /// It has been taken up (or there was nothing to ask).
    #[default]
    Accepted,
    /// The phase forbids the command.
    Refused(String),
    /// The session is not accepted.
    SessionRefused(SessionRefused),
}

/// The result of one step.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Step {
    /// What is so now.
    pub state: State,
    /// What is to be done, in order.
    pub effects: Vec<Effect>,
    /// What was made of the input.
    pub verdict: Verdict,
    /// In plain words; empty if there is nothing to tell.
    pub note: String,
    /// Whether it belongs in the journal.
    pub journaled: bool,
    /// For the asker.
    pub answer: Answer,
    /// Operations that ended in this step, and how.
    pub finished: Vec<(OperationKind, &'static str)>,
}
