//! Sandbox templates: named workloads that sandboxes are made from.

use openshell_core::{SandboxName, WorkspaceName};
use openshell_lifecycle::LifecycleFence;
use openshell_lifecycle::ports::{Environment as _, SystemEnvironment};
use openshell_proto::api;
use openshell_proto::datamodel::ObjectMeta;
use openshell_store::{Object, ObjectKind};
use prost::Message;
use tonic::Status;

use super::Inner;
use super::access::{Scope, scope, workspace};
use crate::convert;
use crate::paging::Page;
use crate::selector::Selector;
use crate::status;
use crate::validate;

const KIND: ObjectKind = ObjectKind::Template;
const WORD: &str = "sandbox template";
const MAX_PER_WORKSPACE: usize = 1000;

/// A template as it is kept, with the request that made it.
#[derive(Clone, PartialEq, Message)]
struct Stored {
    #[prost(message, optional, tag = "1")]
    template: Option<api::SandboxWorkloadTemplate>,
    #[prost(string, tag = "2")]
    request_id: String,
}

fn decode(object: Object) -> Result<(api::SandboxWorkloadTemplate, String), Status> {
    let stored = Stored::decode(object.payload.as_slice()).map_err(|e| {
        status::error(
            tonic::Code::DataLoss,
            "RECORD_UNREADABLE",
            format!("{WORD} {:?} cannot be read: {e}", object.name),
        )
    })?;
    let mut template = stored.template.unwrap_or_default();
    let metadata = template.metadata.get_or_insert_default();
    metadata.name = object.name;
    metadata.workspace = object.workspace;
    metadata.resource_version = object.resource_version;
    metadata.created_time = Some(convert::time(object.created));
    Ok((template, stored.request_id))
}

impl<F: LifecycleFence> Inner<F> {
    /// A template, if there is one.
    pub(super) async fn template(
        &self,
        place: &WorkspaceName,
        name: &SandboxName,
    ) -> Result<Option<api::SandboxWorkloadTemplate>, Status> {
        let found = self
            .store
            .object(KIND, place.as_str(), name.as_str())
            .await
            .map_err(|e| status::store(&e))?;
        Ok(found.map(decode).transpose()?.map(|(t, _)| t))
    }

    pub(super) async fn create_template(
        &self,
        request: api::CreateSandboxTemplateRequest,
    ) -> Result<api::SandboxTemplateResponse, Status> {
        let place = workspace(request.workspace_scope)?;
        let request_id = validate::request_id(request.request_id)?.unwrap_or_default();
        let template = request
            .template
            .ok_or_else(|| status::invalid("template", "is missing"))?;
        let metadata = template.metadata.unwrap_or_default();
        let name = validate::sandbox_name("template.metadata.name", &metadata.name)?;
        validate::labels("template.metadata.labels", &metadata.labels)?;
        validate::annotations("template.metadata.annotations", &metadata.annotations)?;
        convert::spec::base(template.spec.as_ref())?;
        let stored = Stored {
            template: Some(api::SandboxWorkloadTemplate {
                metadata: Some(ObjectMeta {
                    id: uuid::Uuid::now_v7().to_string(),
                    labels: metadata.labels,
                    annotations: metadata.annotations,
                    ..ObjectMeta::default()
                }),
                spec: template.spec,
            }),
            request_id,
        };
        let mut object = Object {
            kind: KIND,
            workspace: place.to_string(),
            name: name.to_string(),
            resource_version: 0,
            created: SystemEnvironment.now(),
            payload: stored.encode_to_vec(),
        };
        let _shared = self.workspaces.read().await;
        self.require_workspace(&place).await?;
        if let Some(earlier) = self.earlier(&place, &name, &stored).await? {
            return Ok(respond(earlier));
        }
        let there = self.store.objects(KIND, Some(place.as_str())).await;
        if there.map_err(|e| status::store(&e))?.len() >= MAX_PER_WORKSPACE {
            return Err(status::error(
                tonic::Code::ResourceExhausted,
                "TOO_MANY_TEMPLATES",
                format!("workspace {place} has {MAX_PER_WORKSPACE} templates; delete some"),
            ));
        }
        object.resource_version = self.store.put_object(&object).await.map_err(|e| match e {
            openshell_store::StoreError::Exists { name, .. } => status::exists(WORD, &name),
            e => status::store(&e),
        })?;
        Ok(respond(decode(object)?.0))
    }

    /// What the same request made before: the answer to a repetition.
    async fn earlier(
        &self,
        place: &WorkspaceName,
        name: &SandboxName,
        new: &Stored,
    ) -> Result<Option<api::SandboxWorkloadTemplate>, Status> {
        let found = self
            .store
            .object(KIND, place.as_str(), name.as_str())
            .await
            .map_err(|e| status::store(&e))?;
        let Some(object) = found else {
            return Ok(None);
        };
        let (template, request_id) = decode(object)?;
        if new.request_id.is_empty() || request_id != new.request_id {
            return Err(status::exists(WORD, name.as_str()));
        }
        if new.template.as_ref().is_some_and(|t| same(t, &template)) {
            return Ok(Some(template));
        }
        Err(status::request_id_reused(&request_id))
    }

    pub(super) async fn get_template(
        &self,
        request: api::GetSandboxTemplateRequest,
    ) -> Result<api::SandboxTemplateResponse, Status> {
        let place = workspace(request.workspace_scope)?;
        let name = validate::sandbox_name("name", &request.name)?;
        self.template(&place, &name)
            .await?
            .map(respond)
            .ok_or_else(|| status::not_found(WORD, name.as_str()))
    }

    pub(super) async fn list_templates(
        &self,
        request: api::ListSandboxTemplatesRequest,
    ) -> Result<api::ListSandboxTemplatesResponse, Status> {
        let scope = scope(request.workspace_scope)?;
        let page = Page::parse(request.page_size, &request.page_token)?;
        let selector = Selector::parse(&request.label_selector)?;
        let place = match &scope {
            Scope::One(name) => Some(name.as_str()),
            Scope::All => None,
        };
        let objects = self.store.objects(KIND, place).await;
        let mut templates = Vec::new();
        for object in objects.map_err(|e| status::store(&e))? {
            let (template, _) = decode(object)?;
            if template
                .metadata
                .as_ref()
                .is_some_and(|m| selector.matches(&m.labels))
            {
                templates.push(template);
            }
        }
        let (templates, next_page_token) = page.cut(templates, |t| {
            t.metadata
                .as_ref()
                .map_or_else(Default::default, |m| (m.workspace.clone(), m.name.clone()))
        });
        Ok(api::ListSandboxTemplatesResponse {
            templates,
            next_page_token,
        })
    }

    pub(super) async fn delete_template(
        &self,
        request: api::DeleteSandboxTemplateRequest,
    ) -> Result<api::DeleteSandboxTemplateResponse, Status> {
        validate::request_id(request.request_id)?;
        let place = workspace(request.workspace_scope)?;
        let name = validate::sandbox_name("name", &request.name)?;
        let removed = self
            .store
            .remove_object(KIND, place.as_str(), name.as_str())
            .await
            .map_err(|e| status::store(&e))?;
        let outcome = match (removed, request.allow_missing) {
            (true, _) => api::DeletionOutcome::Completed,
            (false, true) => api::DeletionOutcome::AlreadyAbsent,
            (false, false) => return Err(status::not_found(WORD, name.as_str())),
        };
        Ok(api::DeleteSandboxTemplateResponse {
            outcome: outcome.into(),
        })
    }
}

fn respond(template: api::SandboxWorkloadTemplate) -> api::SandboxTemplateResponse {
    api::SandboxTemplateResponse {
        template: Some(template),
    }
}

/// What the user gave is the same.
fn same(a: &api::SandboxWorkloadTemplate, b: &api::SandboxWorkloadTemplate) -> bool {
    let given = |t: &api::SandboxWorkloadTemplate| {
        t.metadata
            .as_ref()
            .map(|m| (m.labels.clone(), m.annotations.clone()))
    };
    a.spec == b.spec && given(a) == given(b)
}
