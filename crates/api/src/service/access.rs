//! From names in requests to records, and the checks that several calls share.

use std::sync::Arc;

use openshell_core::{Phase, SandboxId, SandboxName, SandboxRecord, WorkspaceName};
use openshell_lifecycle::fence::not_ready_message;
use openshell_lifecycle::{CommandError, LifecycleFence};
use openshell_proto::datamodel::WorkspaceSelector;
use openshell_proto::datamodel::workspace_selector::Selection;
use openshell_store::ObjectKind;
use tonic::Status;

use super::{Api, Inner};
use crate::status;
use crate::validate;

/// Where a list looks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Scope {
    One(WorkspaceName),
    All,
}

impl Scope {
    pub(crate) fn includes(&self, workspace: &WorkspaceName) -> bool {
        match self {
            Self::One(one) => one == workspace,
            Self::All => true,
        }
    }
}

const FIELD: &str = "workspace_scope";

/// The workspaces that a list is asked for; none named means `default`.
pub(crate) fn scope(selector: Option<WorkspaceSelector>) -> Result<Scope, Status> {
    match selector.and_then(|s| s.selection) {
        None => Ok(Scope::One(WorkspaceName::default_workspace())),
        Some(Selection::Workspace(name)) => validate::workspace_name(FIELD, &name).map(Scope::One),
        Some(Selection::AllWorkspaces(_)) => Ok(Scope::All),
    }
}

/// The one workspace that a call works in.
pub(crate) fn workspace(selector: Option<WorkspaceSelector>) -> Result<WorkspaceName, Status> {
    match scope(selector)? {
        Scope::One(name) => Ok(name),
        Scope::All => Err(status::invalid(
            FIELD,
            "all workspaces can be listed; this call takes one",
        )),
    }
}

impl<F: LifecycleFence> Inner<F> {
    /// The published record of a name; NOT_FOUND if there is none.
    pub(crate) fn find(
        &self,
        selector: Option<WorkspaceSelector>,
        field: &str,
        name: &str,
    ) -> Result<Arc<SandboxRecord>, Status> {
        let workspace = workspace(selector)?;
        let name = validate::sandbox_name(field, name)?;
        self.named(&workspace, &name)
    }

    /// The published record of a name; NOT_FOUND if there is none, and why if it cannot be read.
    pub(crate) fn named(
        &self,
        workspace: &WorkspaceName,
        name: &SandboxName,
    ) -> Result<Arc<SandboxRecord>, Status> {
        self.fence.by_name(workspace, name).ok_or_else(|| {
            match self.fence.unreadable(workspace, name) {
                Some(why) => status::command(CommandError::Unreadable(why)),
                None => status::not_found("sandbox", name.as_str()),
            }
        })
    }

    /// Refuses where no process can be started and nothing can be reached inside.
    pub(crate) fn require_ready(&self, record: &SandboxRecord) -> Result<(), Status> {
        let ready = match record.life.phase {
            Phase::Ready => true,
            // The engine is away; the supervisor is not.
            Phase::Unknown => self.in_session(record),
            _ => false,
        };
        if ready {
            return Ok(());
        }
        Err(status::precondition(not_ready_message(record)))
    }

    /// Whether the present run has its supervisor in session.
    pub(crate) fn in_session(&self, record: &SandboxRecord) -> bool {
        self.hub.connected(record.meta.id, record.life.generation)
    }

    /// NOT_FOUND unless the workspace exists.
    pub(crate) async fn require_workspace(&self, name: &WorkspaceName) -> Result<(), Status> {
        if *name == WorkspaceName::default_workspace() {
            return Ok(());
        }
        let found = self
            .store
            .object(ObjectKind::Workspace, "", name.as_str())
            .await
            .map_err(|e| status::store(&e))?;
        match found {
            Some(_) => Ok(()),
            None => Err(status::not_found("workspace", name.as_str())),
        }
    }
}

/// Reads an id.
pub(crate) fn sandbox_id(field: &str, text: &str) -> Result<SandboxId, Status> {
    text.parse()
        .map_err(|_| status::invalid(field, "is not a sandbox id"))
}

impl<F> Api<F> {
    /// For tasks that outlive the call.
    pub(crate) fn shared(&self) -> Arc<Inner<F>> {
        Arc::clone(&self.inner)
    }
}
