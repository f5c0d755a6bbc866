//! Exit codes: one table, for `main`, for the documentation and for `openshell help exit-codes`.

/// How a command ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Exit {
    /// 0: done.
    Done,
    /// The command's own status: `exec`, attached `create`.
    Command(u8),
    /// 1: something on this side: a file, a directory; or `doctor` found something that is broken.
    Local,
    /// 2: usage, a value that the gateway refused, or a policy file that is not valid.
    Usage,
    /// 3: not found.
    NotFound,
    /// 4: exists already, or the phase forbids it.
    Conflict,
    /// 5: the gateway cannot be reached or is unhealthy.
    Unreachable,
    /// 6: authentication or authorization.
    Denied,
    /// 124: a wait or an exec timed out.
    TimedOut,
    /// 125: the gateway or the engine failed.
    Failed,
}

impl Exit {
    /// The number that the shell sees.
    pub(crate) const fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Command(code) => code,
            Self::Local => 1,
            Self::Usage => 2,
            Self::NotFound => 3,
            Self::Conflict => 4,
            Self::Unreachable => 5,
            Self::Denied => 6,
            Self::TimedOut => 124,
            Self::Failed => 125,
        }
    }

    /// The status of a remote process as ours; a process cannot answer with anything outside 0–255.
    pub(crate) fn of_process(code: i32) -> Self {
        u8::try_from(code).map_or(Self::Failed, Self::Command)
    }
}

/// The text of `openshell help exit-codes`.
pub(crate) const TABLE: &str = "\
Exit codes:
    0  done
    *  the command's own: `sandbox exec` and an attached `sandbox create` answer
       with the status of what they ran (128+n if signal n ended it)
    1  something on this side failed: a file, a directory, a local port;
       or `doctor` found something that is broken
    2  usage, a value that the gateway refused, or a policy file that is not valid
    3  not found
    4  conflict: it exists already, or the phase forbids it
    5  the gateway cannot be reached or is unhealthy
    6  authentication or authorization
  124  a wait or an exec timed out
  125  the gateway or the engine failed; the message says which and what to do";
