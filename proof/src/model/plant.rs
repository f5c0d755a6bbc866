//! The planted faults that misjudge: the decision is changed on its way from the machine to the store.

use openshell_core::{Intent, Phase, Reason};
use openshell_lifecycle::driver::EngineEventKind;
use openshell_lifecycle::machine::{Course, End, Halt, Input, State, Step, Then};
use openshell_lifecycle::ports::SessionEvent;
use openshell_lifecycle::restart::Cause;

use super::wiring::Setup;
use crate::faults::Fault;

/// Changes what was decided, if the planted fault is one that does.
pub(super) fn misjudge(setup: &Setup, before: &State, input: &Input, made: &mut Step) {
    let Some(fault) = setup.fault else { return };
    let died =
        matches!(input, Input::Event(event) if matches!(event.kind, EngineEventKind::Died { .. }));
    let closed = matches!(input, Input::SessionEvent(_, _, SessionEvent::Closed(_)));
    let observed = died || closed || matches!(input, Input::Waited(..));
    let phase = before.record.life.phase;
    let after = &mut made.state;
    match fault {
        Fault::FailureOverStop if observed && phase == Phase::Stopping => {
            after.record.life.phase = Phase::Error;
        }
        Fault::EventAsAnswer if died && phase == Phase::Ready => {
            after.record.life.phase = Phase::Error;
        }
        Fault::ClosedAsExit if closed && before.course == Course::Run => {
            after.course = Course::Halt(lost());
        }
        Fault::ReviveDeleted if observed && before.record.life.intent == Intent::Deleted => {
            after.record.life.intent = Intent::Running;
        }
        Fault::LossAsInfrastructure => {
            if let Course::Halt(Halt {
                then: Then::Settle(end),
                ..
            }) = &mut after.course
                && end.cause == Cause::SupervisorLost
            {
                end.cause = Cause::Infrastructure;
            }
        }
        _ => {}
    }
}

fn lost() -> Halt {
    Halt {
        grace: std::time::Duration::ZERO,
        scrub: false,
        then: Then::Settle(End {
            cause: Cause::SupervisorLost,
            exit: None,
            reason: Reason::ControlSupervisorExited,
            message: String::new(),
        }),
    }
}
