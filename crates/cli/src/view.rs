//! A sandbox as this program shows it: one shape for every format, with the fields that scripts rely on.

use std::collections::BTreeMap;

use jiff::Timestamp;
use openshell_proto::{api, plus};
use serde::Serialize;

use crate::clock;
use crate::output::{Table, fields};

/// A sandbox, as `-o json` prints it.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub(crate) struct SandboxView {
    /// Its name.
    pub(crate) name: String,
    /// Its id; never reused.
    pub(crate) id: String,
    /// Its workspace.
    pub(crate) workspace: String,
    /// Ready, Stopped, …
    pub(crate) phase: &'static str,
    /// A stable word.
    pub(crate) reason: String,
    /// In plain words.
    pub(crate) message: String,
    /// never, on-failure, always.
    pub(crate) restart_policy: &'static str,
    /// Consecutive restarts of a crash loop.
    pub(crate) restart_count: u32,
    /// When the next one is due.
    pub(crate) next_restart_time: Option<String>,
    /// How main ended last.
    pub(crate) exit_code: Option<i32>,
    /// How the last run ended, by whosever will; null where the gateway does not tell.
    pub(crate) last_exit: Option<ExitView>,
    /// Who holds it stopped, why and since when; null if nobody does.
    pub(crate) hold: Option<HoldView>,
    /// The number of the newest run; null where the gateway does not tell.
    pub(crate) generation: Option<u64>,
    /// The workload's image.
    pub(crate) image: String,
    /// All of them.
    pub(crate) conditions: Vec<ConditionView>,
    /// Its labels.
    pub(crate) labels: BTreeMap<String, String>,
    /// When it was created.
    pub(crate) created: Option<String>,
    #[serde(skip)]
    created_at: Option<Timestamp>,
    #[serde(skip)]
    command: Vec<String>,
}

/// The end of a run, as `-o json` prints it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub(crate) struct ExitView {
    generation: u64,
    code: i32,
    /// main, out-of-memory, stop-requested, contained, infrastructure, unknown.
    cause: String,
    time: Option<String>,
}

/// A hold, as `-o json` prints it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub(crate) struct HoldView {
    by: String,
    reason: String,
    since: Option<String>,
}

/// A condition, as `-o json` prints it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub(crate) struct ConditionView {
    #[serde(rename = "type")]
    kind: String,
    status: String,
    reason: String,
    message: String,
    transition_time: Option<String>,
}

/// The envelope of a list.
#[derive(Debug, Serialize)]
pub(crate) struct SandboxList {
    /// The page.
    pub(crate) sandboxes: Vec<SandboxView>,
    /// Empty after the last page.
    pub(crate) next_page_token: String,
}

impl SandboxView {
    /// From the public record, and what is known of its life beside it.
    pub(crate) fn new(sandbox: &api::Sandbox, life: Option<&plus::Life>) -> Self {
        let meta = sandbox.metadata.clone().unwrap_or_default();
        let spec = sandbox.spec.clone().unwrap_or_default();
        let status = sandbox.status.clone().unwrap_or_default();
        let ready = status.conditions.iter().find(|c| c.r#type == "Ready");
        let created_at = clock::from_wire(meta.created_time.as_ref());
        Self {
            name: meta.name,
            id: meta.id,
            workspace: meta.workspace,
            phase: phase_name(status.phase()),
            reason: ready.map(|c| c.reason.clone()).unwrap_or_default(),
            message: ready.map(|c| c.message.clone()).unwrap_or_default(),
            restart_policy: policy_name(spec.restart_policy()),
            restart_count: status.restart_count,
            next_restart_time: clock::from_wire(status.next_restart_time.as_ref())
                .map(clock::rfc3339),
            exit_code: status.exit_code,
            last_exit: life.and_then(|l| l.last_exit.as_ref()).map(ExitView::new),
            hold: life.and_then(|l| l.hold.as_ref()).map(HoldView::new),
            generation: life.map(|l| l.generation),
            image: spec.template.map(|t| t.image).unwrap_or_default(),
            conditions: status.conditions.iter().map(ConditionView::new).collect(),
            labels: meta.labels,
            created: created_at.map(clock::rfc3339),
            created_at,
            command: spec.command,
        }
    }

    /// The way out of a phase in which it does not run; empty if it runs.
    pub(crate) fn next_step(&self) -> String {
        let name = &self.name;
        if self.hold.is_some() {
            return format!(
                "openshell sandbox release {name}; then openshell sandbox start {name}"
            );
        }
        match self.phase {
            "Stopped" | "Completed" => format!("openshell sandbox start {name}"),
            "Error" => {
                format!("openshell sandbox events {name}; then openshell sandbox start {name}")
            }
            "Unknown" => "openshell doctor".to_owned(),
            _ => String::new(),
        }
    }

    /// For people: everything about one sandbox.
    pub(crate) fn details(&self, now: Timestamp) -> String {
        let labels: Vec<String> = self
            .labels
            .iter()
            .map(|(k, v)| format!("{k}={v}"))
            .collect();
        let created = self.created_at.map_or_else(String::new, |t| {
            format!("{} ({} ago)", clock::rfc3339(t), clock::age(t, now))
        });
        let restarts = match (&self.next_restart_time, self.restart_count) {
            (Some(next), n) => format!("{n}, next at {next}"),
            (None, n) => n.to_string(),
        };
        fields(&[
            ("Name", self.name.clone()),
            ("Id", self.id.clone()),
            ("Workspace", self.workspace.clone()),
            ("Phase", self.phase.to_owned()),
            ("Reason", self.reason.clone()),
            ("Message", self.message.clone()),
            ("Next step", self.next_step()),
            ("Image", self.image.clone()),
            ("Command", self.command.join(" ")),
            ("Restart policy", self.restart_policy.to_owned()),
            ("Restarts", restarts),
            (
                "Exit code",
                self.exit_code.map(|c| c.to_string()).unwrap_or_default(),
            ),
            (
                "Last exit",
                self.last_exit
                    .as_ref()
                    .map(ExitView::sentence)
                    .unwrap_or_default(),
            ),
            (
                "Held",
                self.hold
                    .as_ref()
                    .map(HoldView::sentence)
                    .unwrap_or_default(),
            ),
            (
                "Generation",
                self.generation.map(|g| g.to_string()).unwrap_or_default(),
            ),
            ("Labels", labels.join(",")),
            ("Created", created),
        ])
    }

    fn cells(&self, now: Timestamp) -> [String; 6] {
        let restarts = if self.restart_count == 0 {
            String::new()
        } else {
            self.restart_count.to_string()
        };
        [
            self.name.clone(),
            self.phase.to_owned(),
            self.reason.clone(),
            restarts,
            self.created_at
                .map(|t| clock::age(t, now))
                .unwrap_or_default(),
            self.image.clone(),
        ]
    }
}

impl ExitView {
    fn new(e: &plus::LastExit) -> Self {
        Self {
            generation: e.generation,
            code: e.code,
            cause: e.cause.clone(),
            time: clock::from_wire(e.time.as_ref()).map(clock::rfc3339),
        }
    }

    fn sentence(&self) -> String {
        let time = self.time.as_deref().unwrap_or("an unknown time");
        format!(
            "{} ({}), run {}, at {time}",
            self.code, self.cause, self.generation
        )
    }
}

impl HoldView {
    fn new(h: &plus::Hold) -> Self {
        Self {
            by: h.by.clone(),
            reason: h.reason.clone(),
            since: clock::from_wire(h.since.as_ref()).map(clock::rfc3339),
        }
    }

    fn sentence(&self) -> String {
        let since = self.since.as_deref().unwrap_or("an unknown time");
        let why = if self.reason.is_empty() {
            String::new()
        } else {
            format!(": {}", self.reason)
        };
        format!("by {} since {since}{why}", self.by)
    }
}

impl ConditionView {
    fn new(c: &api::SandboxCondition) -> Self {
        Self {
            kind: c.r#type.clone(),
            status: c.status.clone(),
            reason: c.reason.clone(),
            message: c.message.clone(),
            transition_time: clock::from_wire(c.transition_time.as_ref()).map(clock::rfc3339),
        }
    }
}

/// Many sandboxes for people.
pub(crate) fn table<'a>(
    sandboxes: impl IntoIterator<Item = &'a SandboxView>,
    now: Timestamp,
) -> String {
    let mut table = Table::new(&["NAME", "PHASE", "REASON", "RESTARTS", "AGE", "IMAGE"]);
    for sandbox in sandboxes {
        table.row(sandbox.cells(now));
    }
    table.render()
}

/// A phase as people read it.
pub(crate) const fn phase_name(phase: api::SandboxPhase) -> &'static str {
    use api::SandboxPhase as P;
    match phase {
        P::Provisioning => "Provisioning",
        P::Ready => "Ready",
        P::Error => "Error",
        P::Deleting => "Deleting",
        P::Stopping => "Stopping",
        P::Stopped => "Stopped",
        P::Starting => "Starting",
        P::Completed => "Completed",
        P::Unknown | P::Unspecified => "Unknown",
    }
}

const fn policy_name(policy: api::SandboxRestartPolicy) -> &'static str {
    use api::SandboxRestartPolicy as R;
    match policy {
        R::OnFailure => "on-failure",
        R::Always => "always",
        R::Never | R::Unspecified => "never",
    }
}

#[cfg(test)]
pub(crate) mod tests;
