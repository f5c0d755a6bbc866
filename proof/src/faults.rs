//! The planted faults: small, named changes of the wiring around the machine, never of the product. A check
//! that does not find every one of them proves nothing.

/// A fault that is planted in the wiring.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Fault {
    /// An observation of an earlier run is passed on as one of the present run (L3).
    StaleAsCurrent,
    /// The engine is called before the record is durable (L2).
    ForgetWriteAhead,
    /// A broken wait is passed on as an exit (L4).
    BrokenWaitAsExit,
    /// "Unknown" is passed on as "gone" (L4, L18).
    UnknownAsMissing,
    /// The workload is launched twice (L10).
    LaunchTwice,
    /// A stop is acknowledged before the engine says "not running" (L6).
    StopUnconfirmed,
}

impl Fault {
    /// Every fault.
    pub const ALL: &'static [Self] = &[
        Self::StaleAsCurrent,
        Self::ForgetWriteAhead,
        Self::BrokenWaitAsExit,
        Self::UnknownAsMissing,
        Self::LaunchTwice,
        Self::StopUnconfirmed,
    ];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::StaleAsCurrent => "stale-as-current",
            Self::ForgetWriteAhead => "forget-write-ahead",
            Self::BrokenWaitAsExit => "broken-wait-as-exit",
            Self::UnknownAsMissing => "unknown-as-missing",
            Self::LaunchTwice => "launch-twice",
            Self::StopUnconfirmed => "stop-unconfirmed",
        }
    }

    /// What is done wrong.
    pub const fn describe(self) -> &'static str {
        match self {
            Self::StaleAsCurrent => {
                "an observation of an earlier run is passed on as one of the present run"
            }
            Self::ForgetWriteAhead => "the engine is called before the record is durable",
            Self::BrokenWaitAsExit => "a broken wait is passed on as an exit",
            Self::UnknownAsMissing => {
                "an engine that cannot be asked is passed on as one that has no such container"
            }
            Self::LaunchTwice => "each launch is made twice",
            Self::StopUnconfirmed => "a stop is acknowledged before the engine says not running",
        }
    }
}
