//! The one restart decision (L8): by policy, cause and history, for every way in which a run can end.

use std::time::Duration;

use openshell_core::{RestartPolicy, Timestamp};

use crate::config::RestoreMode;
use crate::time::after;

/// A run that lived this long ends a crash loop.
pub const RESETS_AFTER: Duration = Duration::from_secs(10);
/// The second restart in a row waits this long, every further one twice as long.
pub const FIRST_DELAY: Duration = Duration::from_secs(1);
/// But never longer than this.
pub const LONGEST_DELAY: Duration = Duration::from_secs(180);

/// Why a run has ended, as far as a restart is concerned.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Cause {
    /// Main ended, by itself or by the kernel's hand, or nobody knows by whose.
    Main {
        /// Whether with 0.
        success: bool,
    },
    /// The supervisor is lost, or the means to enforce.
    SupervisorLost,
    /// The engine or the host went down under it, or nobody watched and it is gone.
    Infrastructure,
    /// It was stopped together with the gateway, which is back.
    Parked,
    /// A start or a restore failed.
    StartFailed {
        /// Another try of the same can only fail the same way.
        permanent: bool,
    },
    /// The recorded container no longer exists.
    RuntimeMissing,
}

/// What was asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Policy {
    /// By the sandbox's user.
    pub restart: RestartPolicy,
    /// By the gateway's configuration.
    pub restore: RestoreMode,
}

/// The crash loop so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct History {
    /// Restarts in a row before this end.
    pub count: u32,
    /// How long the run that has ended lived; none if it was never up.
    pub lived: Option<Duration>,
}

/// What follows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Decision {
    /// It has done its work.
    Complete,
    /// It rests in Error; `start` works.
    Fail,
    /// A new run.
    Restart {
        /// When.
        at: Timestamp,
        /// Restarts in a row, this one included.
        count: u32,
    },
}

/// Decides. Called from one place.
pub fn decide(policy: Policy, cause: Cause, history: History, now: Timestamp) -> Decision {
    let wanted = match (cause, policy.restart) {
        (Cause::Main { success: true }, RestartPolicy::Never | RestartPolicy::OnFailure) => {
            return Decision::Complete;
        }
        (Cause::StartFailed { permanent: true }, _) => false,
        (Cause::Infrastructure | Cause::Parked, restart) => match policy.restore {
            RestoreMode::Intent => true,
            RestoreMode::Policy => restart != RestartPolicy::Never,
            RestoreMode::None => false,
        },
        (_, restart) => restart != RestartPolicy::Never,
    };
    if !wanted {
        return Decision::Fail;
    }
    if cause == Cause::Parked {
        // By our own hand: it says nothing about a crash loop.
        let count = history.count;
        return Decision::Restart { at: now, count };
    }
    let lived = history.lived.is_some_and(|lived| lived >= RESETS_AFTER);
    if lived && cause == Cause::Infrastructure {
        // Not its fault: no restart of a crash loop.
        return Decision::Restart { at: now, count: 0 };
    }
    let before = if lived { 0 } else { history.count };
    Decision::Restart {
        at: after(now, delay(before)),
        count: before.saturating_add(1),
    }
}

/// How long the restart waits that follows so many others: not at all, 1 s, 2 s, 4 s … 180 s.
pub fn delay(before: u32) -> Duration {
    match before {
        0 => Duration::ZERO,
        n => FIRST_DELAY
            .saturating_mul(1_u32.checked_shl(n - 1).unwrap_or(u32::MAX))
            .min(LONGEST_DELAY),
    }
}

#[cfg(test)]
mod tests;
