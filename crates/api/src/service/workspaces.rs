//! Workspaces: `default` always exists; others are made, and deleted when empty.

use openshell_core::WorkspaceName;
use openshell_lifecycle::LifecycleFence;
use openshell_lifecycle::ports::{Environment as _, SystemEnvironment};
use openshell_proto::api;
use openshell_proto::datamodel::{ObjectMeta, Workspace, WorkspacePhase, WorkspaceStatus};
use openshell_store::{Object, ObjectKind};
use prost::Message;
use tonic::Status;

use super::Inner;
use crate::convert;
use crate::paging::Page;
use crate::selector::Selector;
use crate::status;
use crate::validate;

const KIND: ObjectKind = ObjectKind::Workspace;
const WORD: &str = "workspace";
const MAX: usize = 1000;

/// A workspace as it is kept, with the request that made it.
#[derive(Clone, PartialEq, Message)]
struct Stored {
    #[prost(message, optional, tag = "1")]
    metadata: Option<ObjectMeta>,
    #[prost(string, tag = "2")]
    request_id: String,
}

fn workspace(metadata: ObjectMeta) -> Workspace {
    Workspace {
        metadata: Some(metadata),
        status: Some(WorkspaceStatus {
            phase: WorkspacePhase::Active.into(),
        }),
    }
}

fn default_workspace() -> Workspace {
    let name = WorkspaceName::default_workspace().to_string();
    workspace(ObjectMeta {
        id: name.clone(),
        name,
        resource_version: 1,
        ..ObjectMeta::default()
    })
}

fn decode(object: Object) -> Result<(Workspace, String), Status> {
    let stored = Stored::decode(object.payload.as_slice()).map_err(|e| {
        status::error(
            tonic::Code::DataLoss,
            "RECORD_UNREADABLE",
            format!("{WORD} {:?} cannot be read: {e}", object.name),
        )
    })?;
    let metadata = ObjectMeta {
        name: object.name,
        resource_version: object.resource_version,
        created_time: Some(convert::time(object.created)),
        ..stored.metadata.unwrap_or_default()
    };
    Ok((workspace(metadata), stored.request_id))
}

fn name(text: &str) -> Result<WorkspaceName, Status> {
    text.parse().map_err(|e| status::invalid("name", e))
}

impl<F: LifecycleFence> Inner<F> {
    async fn stored_workspace(
        &self,
        name: &WorkspaceName,
    ) -> Result<Option<(Workspace, String)>, Status> {
        let found = self.store.object(KIND, "", name.as_str()).await;
        found
            .map_err(|e| status::store(&e))?
            .map(decode)
            .transpose()
    }

    pub(super) async fn create_workspace(
        &self,
        request: api::CreateWorkspaceRequest,
    ) -> Result<Workspace, Status> {
        let name = name(&request.name)?;
        let request_id = validate::request_id(request.request_id)?.unwrap_or_default();
        validate::labels("labels", &request.labels)?;
        if name == WorkspaceName::default_workspace() {
            return Err(status::exists(WORD, name.as_str()));
        }
        let _alone = self.workspaces.write().await;
        if let Some((there, earlier)) = self.stored_workspace(&name).await? {
            if request_id.is_empty() || earlier != request_id {
                return Err(status::exists(WORD, name.as_str()));
            }
            return match &there.metadata {
                Some(m) if m.labels == request.labels => Ok(there),
                _ => Err(status::request_id_reused(&request_id)),
            };
        }
        let there = self.store.objects(KIND, None).await;
        if there.map_err(|e| status::store(&e))?.len() >= MAX {
            return Err(status::error(
                tonic::Code::ResourceExhausted,
                "TOO_MANY_WORKSPACES",
                format!("there are {MAX} workspaces; delete some"),
            ));
        }
        let stored = Stored {
            metadata: Some(ObjectMeta {
                id: uuid::Uuid::now_v7().to_string(),
                labels: request.labels,
                ..ObjectMeta::default()
            }),
            request_id,
        };
        let mut object = Object {
            kind: KIND,
            workspace: String::new(),
            name: name.to_string(),
            resource_version: 0,
            created: SystemEnvironment.now(),
            payload: stored.encode_to_vec(),
        };
        let put = self.store.put_object(&object).await;
        object.resource_version = put.map_err(|e| status::store(&e))?;
        Ok(decode(object)?.0)
    }

    pub(super) async fn get_workspace(
        &self,
        request: api::GetWorkspaceRequest,
    ) -> Result<Workspace, Status> {
        let name = name(&request.name)?;
        if name == WorkspaceName::default_workspace() {
            return Ok(default_workspace());
        }
        match self.stored_workspace(&name).await? {
            Some((workspace, _)) => Ok(workspace),
            None => Err(status::not_found(WORD, name.as_str())),
        }
    }

    pub(super) async fn list_workspaces(
        &self,
        request: api::ListWorkspacesRequest,
    ) -> Result<api::ListWorkspacesResponse, Status> {
        let page = Page::parse(request.page_size, &request.page_token)?;
        let selector = Selector::parse(&request.label_selector)?;
        let mut all = vec![default_workspace()];
        let objects = self.store.objects(KIND, None).await;
        for object in objects.map_err(|e| status::store(&e))? {
            all.push(decode(object)?.0);
        }
        let key = |w: &Workspace| {
            let name = w.metadata.as_ref().map_or("", |m| m.name.as_str());
            (String::new(), name.to_owned())
        };
        all.retain(|w| {
            w.metadata
                .as_ref()
                .is_some_and(|m| selector.matches(&m.labels))
        });
        all.sort_by_key(key);
        let (workspaces, next_page_token) = page.cut(all, key);
        Ok(api::ListWorkspacesResponse {
            workspaces,
            next_page_token,
        })
    }

    pub(super) async fn delete_workspace(
        &self,
        request: api::DeleteWorkspaceRequest,
    ) -> Result<api::DeletionOutcome, Status> {
        validate::request_id(request.request_id)?;
        let name = name(&request.name)?;
        if name == WorkspaceName::default_workspace() {
            return Err(status::precondition(
                "workspace default always exists; it cannot be deleted",
            ));
        }
        let _alone = self.workspaces.write().await;
        let records = self.fence.list();
        let sandboxes = records.iter().filter(|r| r.meta.workspace == name).count();
        let templates = self
            .store
            .objects(ObjectKind::Template, Some(name.as_str()))
            .await
            .map_err(|e| status::store(&e))?
            .len();
        if sandboxes + templates > 0 {
            return Err(status::precondition(format!(
                "workspace {name} is not empty ({sandboxes} sandboxes, {templates} templates); delete them first"
            )));
        }
        let removed = self.store.remove_object(KIND, "", name.as_str()).await;
        match (
            removed.map_err(|e| status::store(&e))?,
            request.allow_missing,
        ) {
            (true, _) => Ok(api::DeletionOutcome::Completed),
            (false, true) => Ok(api::DeletionOutcome::AlreadyAbsent),
            (false, false) => Err(status::not_found(WORD, name.as_str())),
        }
    }
}
