//! Orders to a sandbox that exists: start, stop, restart, hold, release, delete. Each is taken up once for each request id.

use std::sync::Arc;

use openshell_core::{SandboxName, SandboxRecord, WorkspaceName};
use openshell_lifecycle::fence::{Order, request_key};
use openshell_lifecycle::{CommandError, LifecycleFence};
use openshell_proto::datamodel::WorkspaceSelector;
use openshell_proto::{api, plus};
use openshell_store::RequestKey;
use tonic::Status;

use super::Inner;
use super::access::workspace;
use crate::status;
use crate::validate;

/// Who is asked for, and the key that makes the order one.
struct Addressed {
    place: WorkspaceName,
    name: SandboxName,
    request: Option<RequestKey>,
}

impl Addressed {
    fn parse(
        verb: &str,
        scope: Option<WorkspaceSelector>,
        name: &str,
        request_id: String,
        contents: &[&str],
    ) -> Result<Self, Status> {
        let request_id = validate::request_id(request_id)?;
        let place = workspace(scope)?;
        let name = validate::sandbox_name("name", name)?;
        let said: Vec<&str> = std::iter::once(name.as_str())
            .chain(contents.iter().copied())
            .collect();
        let request = request_id.map(|id| request_key(verb, &place, id, &said));
        Ok(Self {
            place,
            name,
            request,
        })
    }
}

impl<F: LifecycleFence> Inner<F> {
    pub(super) async fn start_sandbox(
        &self,
        request: api::StartSandboxRequest,
    ) -> Result<Arc<SandboxRecord>, Status> {
        let api::StartSandboxRequest {
            workspace_scope,
            name,
            request_id,
        } = request;
        let to = Addressed::parse("start", workspace_scope, &name, request_id, &[])?;
        self.order(to, Order::Start).await
    }

    pub(super) async fn stop_sandbox(
        &self,
        request: api::StopSandboxRequest,
    ) -> Result<Arc<SandboxRecord>, Status> {
        let api::StopSandboxRequest {
            workspace_scope,
            name,
            request_id,
        } = request;
        let to = Addressed::parse("stop", workspace_scope, &name, request_id, &[])?;
        self.order(to, Order::Stop).await
    }

    pub(super) async fn restart_sandbox(
        &self,
        request: plus::RestartSandboxRequest,
    ) -> Result<Arc<SandboxRecord>, Status> {
        let plus::RestartSandboxRequest {
            workspace_scope,
            name,
            request_id,
        } = request;
        let to = Addressed::parse("restart", workspace_scope, &name, request_id, &[])?;
        self.order(to, Order::Restart).await
    }

    pub(super) async fn hold_sandbox(
        &self,
        by: String,
        request: plus::HoldSandboxRequest,
    ) -> Result<Arc<SandboxRecord>, Status> {
        let plus::HoldSandboxRequest {
            workspace_scope,
            name,
            reason,
            request_id,
        } = request;
        validate::hold_reason("reason", &reason)?;
        let to = Addressed::parse("hold", workspace_scope, &name, request_id, &[&reason])?;
        self.order(to, Order::Hold { by, reason }).await
    }

    pub(super) async fn release_sandbox(
        &self,
        request: plus::ReleaseSandboxRequest,
    ) -> Result<Arc<SandboxRecord>, Status> {
        let plus::ReleaseSandboxRequest {
            workspace_scope,
            name,
            request_id,
        } = request;
        let to = Addressed::parse("release", workspace_scope, &name, request_id, &[])?;
        self.order(to, Order::Release).await
    }

    async fn order(&self, to: Addressed, order: Order) -> Result<Arc<SandboxRecord>, Status> {
        if let Some(request) = &to.request
            && let Some(id) = self.fence.seen(request).await.map_err(status::command)?
        {
            // The sandbox that it was taken up for; another may have its name by now.
            return self
                .fence
                .by_id(id)
                .ok_or_else(|| status::not_found("sandbox", to.name.as_str()));
        }
        let record = self.named(&to.place, &to.name)?;
        let done = self.fence.order(record.meta.id, order, to.request).await;
        done.map_err(|e| named(e, &record))
    }

    pub(super) async fn delete_sandbox(
        &self,
        request: api::DeleteSandboxRequest,
    ) -> Result<api::DeleteSandboxResponse, Status> {
        let api::DeleteSandboxRequest {
            workspace_scope,
            name,
            allow_missing,
            request_id,
        } = request;
        let to = Addressed::parse("delete", workspace_scope, &name, request_id, &[])?;
        let accepted = |id: openshell_core::SandboxId| api::DeleteSandboxResponse {
            outcome: api::DeletionOutcome::Accepted.into(),
            sandbox_id: id.to_string(),
        };
        let absent = api::DeleteSandboxResponse {
            outcome: api::DeletionOutcome::AlreadyAbsent.into(),
            sandbox_id: String::new(),
        };
        if let Some(request) = &to.request
            && let Some(id) = self.fence.seen(request).await.map_err(status::command)?
        {
            return Ok(accepted(id));
        }
        let record = match self.named(&to.place, &to.name) {
            Err(e) if e.code() == tonic::Code::NotFound && allow_missing => return Ok(absent),
            found => found?,
        };
        let id = record.meta.id;
        match self.fence.order(id, Order::Delete, to.request).await {
            Ok(_) => Ok(accepted(id)),
            Err(CommandError::NotFound(_)) if allow_missing => Ok(absent),
            Err(e) => Err(named(e, &record)),
        }
    }
}

/// A command that went by id speaks of the name that its user knows.
pub(super) fn named(e: CommandError, record: &SandboxRecord) -> Status {
    status::command(match e {
        CommandError::NotFound(_) => CommandError::NotFound(record.meta.name.to_string()),
        other => other,
    })
}
