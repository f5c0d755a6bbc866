//! Which calls to an engine are meant.

use super::known::{Half, Whose};

/// One call, as far as it can be told from others.
#[derive(Clone, Debug)]
pub(super) struct Call {
    pub(super) method: String,
    /// Without the version of the API and without a query.
    pub(super) path: String,
    pub(super) whose: Whose,
}

impl Call {
    /// The container in `/containers/{id}…`.
    pub(super) fn container(&self) -> Option<&str> {
        container(&self.path)
    }
}

/// The container in `/containers/{id}…`; the words that stand there for something else name none.
pub(super) fn container(path: &str) -> Option<&str> {
    let rest = path.strip_prefix("/containers/")?;
    let id = rest.split('/').next()?;
    (!matches!(id, "" | "create" | "json" | "prune")).then_some(id)
}

/// `/v1.41/info` is `/info`.
pub(super) fn without_version(path: &str) -> &str {
    let versioned = path.strip_prefix("/v").and_then(|rest| {
        let (version, _) = rest.split_once('/')?;
        let number = |c: char| c.is_ascii_digit() || c == '.';
        version.chars().all(number).then_some(version)
    });
    versioned.map_or(path, |version| &path[2 + version.len()..])
}

/// A choice of calls: by method, path, whose container it is about, and how many have come before.
#[derive(Clone, Debug)]
pub struct Calls {
    method: &'static str,
    path: &'static str,
    sandbox: Option<String>,
    half: Option<Half>,
    after: usize,
    most: usize,
}

impl Calls {
    /// By method and path; `*` stands for any method, or any one part of the path, and `**` for any path.
    pub const fn to(method: &'static str, path: &'static str) -> Self {
        Self {
            method,
            path,
            sandbox: None,
            half: None,
            after: 0,
            most: usize::MAX,
        }
    }

    /// Every one.
    pub const fn all() -> Self {
        Self::to("*", "**")
    }

    /// Making a container.
    pub const fn creations() -> Self {
        Self::to("POST", "/containers/create")
    }

    /// Starting one.
    pub const fn starts() -> Self {
        Self::to("POST", "/containers/*/start")
    }

    /// TERM, then KILL.
    pub const fn stops() -> Self {
        Self::to("POST", "/containers/*/stop")
    }

    /// KILL.
    pub const fn kills() -> Self {
        Self::to("POST", "/containers/*/kill")
    }

    /// Waiting for an end.
    pub const fn waits() -> Self {
        Self::to("POST", "/containers/*/wait")
    }

    /// Looking at one.
    pub const fn looks() -> Self {
        Self::to("GET", "/containers/*/json")
    }

    /// Removing one.
    pub const fn removals() -> Self {
        Self::to("DELETE", "/containers/*")
    }

    /// Attaching to its streams.
    pub const fn attachments() -> Self {
        Self::to("POST", "/containers/*/attach")
    }

    /// The stream of events.
    pub const fn events() -> Self {
        Self::to("GET", "/events")
    }

    /// Only about containers of this sandbox.
    #[must_use]
    pub fn sandbox(mut self, name: &str) -> Self {
        self.sandbox = Some(name.to_owned());
        self
    }

    /// Only about this half.
    #[must_use]
    pub const fn of(mut self, half: Half) -> Self {
        self.half = Some(half);
        self
    }

    /// Only after so many others of the same choice.
    #[must_use]
    pub const fn after(mut self, calls: usize) -> Self {
        self.after = calls;
        self
    }

    /// Only the next.
    #[must_use]
    pub const fn once(self) -> Self {
        self.times(1)
    }

    /// Only the next so many.
    #[must_use]
    pub const fn times(mut self, calls: usize) -> Self {
        self.most = calls;
        self
    }

    /// Whether a call is of the choice, its place among others aside.
    pub(super) fn contains(&self, call: &Call) -> bool {
        (self.method == "*" || self.method == call.method)
            && same_path(self.path, &call.path)
            && call.whose.fits(self.sandbox.as_deref(), self.half)
    }

    /// Whether the n-th call of the choice is meant, counted from 0.
    pub(super) const fn means(&self, n: usize) -> bool {
        n >= self.after && n - self.after < self.most
    }
}

fn same_path(pattern: &str, path: &str) -> bool {
    let mut parts = path.split('/');
    let fits = |wanted| {
        parts
            .next()
            .is_some_and(|part| wanted == "*" || wanted == part)
    };
    pattern == "**" || (pattern.split('/').all(fits) && parts.next().is_none())
}
