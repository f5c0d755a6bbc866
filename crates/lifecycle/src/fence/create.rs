//! Taking up a new sandbox: once per name, and once per request id.

use std::sync::Arc;

use openshell_core::{SandboxMeta, SandboxRecord, WorkspaceName};
use openshell_store::{RequestKey, StoreError};
use ring::digest::{SHA256, digest};

use super::commit::journal_entry;
use super::{CommandError, NewSandbox, Shared};
use crate::driver::ComputeDriver;
use crate::machine::{self, Context, Input};

pub(super) async fn create<D: ComputeDriver>(
    shared: &Arc<Shared<D>>,
    new: NewSandbox,
) -> Result<Arc<SandboxRecord>, CommandError> {
    let request = new
        .request_id
        .clone()
        .map(|id| key("create", &new.workspace, id, &contents(&new)));
    if let Some(request) = &request
        && let Some(record) = replayed(shared, request).await?
    {
        return Ok(record);
    }
    let name = new.name.to_string();
    if let Some(why) = shared.index.unreadable(&new.workspace, &new.name) {
        return Err(CommandError::Unreadable(why));
    }
    let context = Context {
        now: shared.environment.now(),
        operation: shared.environment.operation_id(),
        config: &shared.config,
    };
    let meta = SandboxMeta {
        id: shared.environment.sandbox_id(),
        name: new.name,
        workspace: new.workspace,
        labels: new.labels,
        annotations: new.annotations,
        created: context.now,
        template: new.template,
    };
    let step = machine::create(meta, new.spec, context);
    let entry = journal_entry(
        None,
        &step,
        "command create".to_owned(),
        &Input::Restore,
        context.now,
    );
    let put = shared
        .store
        .put_sandbox(&step.state.record, vec![entry], request.clone())
        .await;
    #[cfg(any(test, feature = "test-util"))]
    if let (Ok(_), Some(probe)) = (&put, shared.rig.probe()) {
        probe.created(&step);
    }
    let mut state = step.state;
    match (put, request) {
        (Ok(version), _) => {
            state.record.resource_version = version;
            let record = Arc::new(state.record.clone());
            shared.spawn_cell(state, Vec::new(), step.effects);
            Ok(record)
        }
        // The same request may just have been taken up by another task.
        (Err(StoreError::Exists { .. } | StoreError::RequestSeen(_)), Some(request)) => {
            replayed(shared, &request)
                .await?
                .ok_or(CommandError::AlreadyExists(name))
        }
        (Err(StoreError::Exists { .. } | StoreError::Conflict { .. }), _) => {
            Err(CommandError::AlreadyExists(name))
        }
        (Err(error), _) => Err(CommandError::Store(error.to_string())),
    }
}

/// The sandbox that this request has made before, if it has.
async fn replayed<D: ComputeDriver>(
    shared: &Shared<D>,
    request: &RequestKey,
) -> Result<Option<Arc<SandboxRecord>>, CommandError> {
    let failed = |error: StoreError| CommandError::Store(error.to_string());
    let Some(id) = shared.seen(request).await? else {
        return Ok(None);
    };
    if let Some(record) = shared.index.by_id(id) {
        return Ok(Some(record));
    }
    match shared.store.sandbox(id).await.map_err(failed)? {
        Some(record) => Ok(Some(Arc::new(record))),
        None => Err(CommandError::NotFound(id.to_string())),
    }
}

/// What tells one request's contents from another's.
fn contents(new: &NewSandbox) -> serde_json::Value {
    serde_json::json!({
        "name": new.name,
        "workspace": new.workspace,
        "labels": new.labels,
        "annotations": new.annotations,
        "spec": new.spec,
        "template": new.template,
    })
}

fn key(
    verb: &str,
    workspace: &WorkspaceName,
    id: String,
    contents: &serde_json::Value,
) -> RequestKey {
    let digest = digest(&SHA256, contents.to_string().as_bytes());
    RequestKey {
        scope: format!("{verb}/{workspace}"),
        id,
        digest: digest.as_ref().iter().map(|b| format!("{b:02x}")).collect(),
    }
}

/// Makes an order idempotent: by its verb, its workspace and its request id; `contents` is everything else that its
/// user said, and a repetition must say the same.
pub fn request_key(
    verb: &str,
    workspace: &WorkspaceName,
    id: String,
    contents: &[&str],
) -> RequestKey {
    key(verb, workspace, id, &serde_json::json!(contents))
}
