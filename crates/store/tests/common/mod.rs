//! Records and journal entries for tests.
#![allow(
    dead_code,
    unreachable_pub,
    reason = "each test binary uses a part of it"
)]

use openshell_core::journal::{JournalEntry, Verdict};
use openshell_core::{
    Condition, Generation, Intent, Life, Phase, Reason, Restart, SandboxId, SandboxMeta,
    SandboxRecord, SandboxSpec, Timestamp, WorkspaceName,
};

pub fn record(name: &str) -> SandboxRecord {
    let now = Timestamp::UNIX_EPOCH;
    SandboxRecord {
        meta: SandboxMeta {
            id: SandboxId::random(),
            name: name.parse().unwrap(),
            workspace: WorkspaceName::default_workspace(),
            labels: [("app".to_owned(), "demo".to_owned())].into(),
            annotations: Default::default(),
            created: now,
            template: None,
        },
        spec: SandboxSpec {
            wire: vec![0, 1, 255],
            ..SandboxSpec::default()
        },
        life: Life {
            intent: Intent::Running,
            phase: Phase::Provisioning,
            condition: Condition {
                reason: Reason::Accepted,
                message: "accepted".to_owned(),
                since: now,
            },
            generation: Generation(0),
            run: None,
            operation: None,
            restart: Restart::default(),
            last_exit: None,
            engine: None,
            retired: Vec::new(),
            hold: None,
        },
        resource_version: 0,
    }
}

pub fn entry(sandbox: SandboxId, input: &str) -> JournalEntry {
    JournalEntry {
        sequence: 0,
        sandbox,
        time: Timestamp::UNIX_EPOCH,
        generation: Generation(1),
        input: input.to_owned(),
        verdict: Verdict::Applied,
        old_phase: None,
        new_phase: Phase::Provisioning,
        reason: Reason::Accepted,
        message: String::new(),
    }
}
