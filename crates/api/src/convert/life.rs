//! A record → `Life`; a journal entry → its own message and the public `PlatformEvent`.

use openshell_core::journal::{JournalEntry, Verdict};
use openshell_core::{Intent, OperationKind, Phase, SandboxRecord};
use openshell_proto::{api, plus};

use super::time;

/// What the public message has no field for.
pub(crate) fn life(record: &SandboxRecord) -> plus::Life {
    let life = &record.life;
    let run = life.run.as_ref();
    let id = |c: Option<&openshell_core::ContainerId>| c.map_or_else(String::new, |c| c.0.clone());
    plus::Life {
        sandbox_id: record.meta.id.to_string(),
        name: record.meta.name.to_string(),
        intent: match life.intent {
            Intent::Running => "running",
            Intent::Stopped => "stopped",
            Intent::Deleted => "deleted",
        }
        .to_owned(),
        phase: life.phase.to_string(),
        reason: life.condition.reason.to_string(),
        message: life.condition.message.clone(),
        generation: life.generation.0,
        operation: life
            .operation
            .as_ref()
            .map_or("", |o| operation(o.kind))
            .to_owned(),
        workload_container_id: id(run.and_then(|r| r.workload.as_ref())),
        supervisor_container_id: id(run.and_then(|r| r.supervisor.as_ref())),
        run_started: run.and_then(|r| r.workload_started).map(time),
        supervisor_instance_id: run
            .and_then(|r| r.instance)
            .map_or_else(String::new, |i| i.to_string()),
        hold: life.hold.as_ref().map(|hold| plus::Hold {
            by: hold.by.clone(),
            reason: hold.reason.clone(),
            since: Some(time(hold.since)),
        }),
        last_exit: life.last_exit.as_ref().map(|exit| plus::LastExit {
            generation: exit.generation.0,
            code: exit.code,
            cause: exit.cause.as_str().to_owned(),
            time: Some(time(exit.at)),
        }),
        restart_count: life.restart.count,
        next_restart_time: life.restart.next.map(time),
        resource_version: record.resource_version,
    }
}

const fn operation(kind: OperationKind) -> &'static str {
    match kind {
        OperationKind::Create => "create",
        OperationKind::Start => "start",
        OperationKind::Stop => "stop",
        OperationKind::Restart => "restart",
        OperationKind::Restore => "restore",
        OperationKind::Delete => "delete",
    }
}

/// A line of the journal.
pub(crate) fn entry(e: &JournalEntry) -> plus::JournalEntry {
    plus::JournalEntry {
        sequence: e.sequence,
        time: Some(time(e.time)),
        generation: e.generation.0,
        input: e.input.clone(),
        verdict: e.verdict.to_string(),
        old_phase: e.old_phase.map_or_else(String::new, |p| p.to_string()),
        new_phase: e.new_phase.to_string(),
        reason: e.reason.to_string(),
        message: e.message.clone(),
    }
}

/// The same for clients of the public contract.
pub(crate) fn event(e: &JournalEntry) -> api::PlatformEvent {
    let bad = e.verdict == Verdict::Refused || matches!(e.new_phase, Phase::Error | Phase::Unknown);
    let metadata = [
        ("input", e.input.clone()),
        ("verdict", e.verdict.to_string()),
        (
            "old_phase",
            e.old_phase.map_or_else(String::new, |p| p.to_string()),
        ),
        ("new_phase", e.new_phase.to_string()),
        ("generation", e.generation.to_string()),
        ("sequence", e.sequence.to_string()),
    ];
    api::PlatformEvent {
        event_time: Some(time(e.time)),
        source: "lifecycle".to_owned(),
        r#type: if bad { "Warning" } else { "Normal" }.to_owned(),
        reason: e.reason.to_string(),
        message: e.message.clone(),
        metadata: metadata.map(|(k, v)| (k.to_owned(), v)).into(),
    }
}
