//! The planted faults: small, named changes of the wiring around the machine, never of the product. A check
//! that does not find every one of them proves nothing.

macro_rules! faults {
    ($($(#[doc = $doc:literal])* $name:ident = $word:literal,)*) => {
        /// A fault that is planted in the wiring.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub enum Fault {
            $($(#[doc = $doc])* $name,)*
        }

        impl Fault {
            /// Every fault.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            /// Its name.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$name => $word,)*
                }
            }

            /// What is done wrong.
            pub const fn describe(self) -> &'static str {
                match self {
                    $(Self::$name => concat!($($doc),*).trim_ascii(),)*
                }
            }
        }
    };
}

faults! {
    /// An observation of an earlier run is passed on as one of the present run (L3).
    StaleAsCurrent = "stale-as-current",
    /// An answer to a call that was given up is passed on as the present call's (L3).
    OldAnswerAsCurrent = "old-answer-as-current",
    /// A session of an earlier run is passed on as the present run's (L3).
    OldSessionAsCurrent = "old-session-as-current",
    /// The engine is called before the record is durable (L2).
    ForgetWriteAhead = "forget-write-ahead",
    /// What the engine answered to a prepare is not made durable (L2, L14).
    ForgetContainers = "forget-containers",
    /// A crash forgets what the user asked for last (L2).
    ForgetIntent = "forget-intent",
    /// A crash forgets that a run was recorded (L10, L13).
    ForgetRun = "forget-run",
    /// A crash forgets which supervisors are still to be removed (L13).
    ForgetRetired = "forget-retired",
    /// A broken wait is passed on as an exit (L4).
    BrokenWaitAsExit = "broken-wait-as-exit",
    /// "I cannot be asked" is passed on as "it is gone" (L4).
    UnknownAsMissing = "unknown-as-missing",
    /// Another engine's "there is none" is passed on as the recorded engine's (L18).
    ForeignAsOwn = "foreign-as-own",
    /// An event alone moves the phase, and the engine is not asked (L4).
    EventAsAnswer = "event-as-answer",
    /// The end of a session alone is taken for the loss of its supervisor (L4).
    ClosedAsExit = "closed-as-exit",
    /// Each launch whose answer is lost is simply made again (L10).
    LaunchTwice = "launch-twice",
    /// A stop is acknowledged before the engine says "not running" (L6).
    StopUnconfirmed = "stop-unconfirmed",
    /// A failed stop is passed on as one that is done (L6).
    StopFailureAsSuccess = "stop-failure-as-success",
    /// An observed failure overrides a stop that is under way (L5).
    FailureOverStop = "failure-over-stop",
    /// A late event brings a deleted sandbox's intent back (L12).
    ReviveDeleted = "revive-deleted",
    /// A delete removes the record and leaves the workload's container (L13).
    LeaveWorkload = "leave-workload",
    /// A timer that was cleared fires nevertheless (L16, L17).
    ClearedTimer = "cleared-timer",
    /// Timers are not kept (L16).
    NoTimers = "no-timers",
    /// The order to thaw is lost (L11).
    LoseThaw = "lose-thaw",
    /// A retired supervisor is taken for removed although its removal has failed (L13).
    RetireFailureAsSuccess = "retire-failure-as-success",
    /// The loss of a supervisor is passed on as the loss of the engine (L11).
    LossAsInfrastructure = "loss-as-infrastructure",
}
