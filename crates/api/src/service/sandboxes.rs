//! Create and list; a record as an answer.

use std::sync::Arc;

use openshell_core::{SandboxName, SandboxRecord, WorkspaceName};
use openshell_lifecycle::fence::NewSandbox;
use openshell_lifecycle::{CommandError, LifecycleFence};
use openshell_proto::api;
use tonic::Status;

use super::Inner;
use super::access::{scope, workspace};
use crate::convert;
use crate::convert::spec::Base;
use crate::names;
use crate::paging::Page;
use crate::selector::Selector;
use crate::status;
use crate::validate;

/// Generated names that may collide before it is said.
const NAME_TRIES: u32 = 5;

impl<F: LifecycleFence> Inner<F> {
    pub(super) async fn create_sandbox(
        &self,
        request: api::CreateSandboxRequest,
    ) -> Result<Arc<SandboxRecord>, Status> {
        let place = workspace(request.workspace_scope.clone())?;
        let request_id = validate::request_id(request.request_id.clone())?;
        validate::labels("labels", &request.labels)?;
        validate::annotations("annotations", &request.annotations)?;
        if !request.service_exposures.is_empty() {
            return Err(status::invalid(
                "service_exposures",
                "is not supported yet; leave it out",
            ));
        }
        let chosen = match request.name.as_str() {
            "" => None,
            name => Some(validate::sandbox_name("name", name)?),
        };
        let _shared = self.workspaces.read().await;
        self.require_workspace(&place).await?;
        let (base, template) = self.base(&place, &request.workload_template).await?;
        let mut spec = convert::spec::spec(
            &request.spec.unwrap_or_default(),
            base,
            self.config.default_image.as_ref(),
        )?;
        spec.await_attachment = request.await_main_process_attachment;
        let new = |name| NewSandbox {
            name,
            workspace: place.clone(),
            labels: request.labels.clone(),
            annotations: request.annotations.clone(),
            spec: spec.clone(),
            template: template.clone(),
            request_id: request_id.clone(),
        };
        let done = match (chosen, &request_id) {
            (Some(name), _) => self.fence.create(new(name)).await,
            (None, Some(id)) => self.fence.create(new(names::of_request(id))).await,
            (None, None) => self.create_named_by_chance(new).await,
        };
        done.map_err(status::command)
    }

    async fn create_named_by_chance(
        &self,
        new: impl Fn(SandboxName) -> NewSandbox,
    ) -> Result<Arc<SandboxRecord>, CommandError> {
        let mut tries = 1;
        loop {
            match self.fence.create(new(names::random())).await {
                Err(CommandError::AlreadyExists(_)) if tries < NAME_TRIES => tries += 1,
                done => return done,
            }
        }
    }

    async fn base(
        &self,
        place: &WorkspaceName,
        template: &str,
    ) -> Result<(Base, Option<(String, String)>), Status> {
        if template.is_empty() {
            return Ok((Base::default(), None));
        }
        let name = validate::sandbox_name("workload_template", template)?;
        let found = self
            .template(place, &name)
            .await?
            .ok_or_else(|| status::not_found("sandbox template", name.as_str()))?;
        let version = found.metadata.as_ref().map_or(0, |m| m.resource_version);
        let base = convert::spec::base(found.spec.as_ref())?;
        Ok((base, Some((name.to_string(), version.to_string()))))
    }

    pub(super) fn list_sandboxes(
        &self,
        request: api::ListSandboxesRequest,
    ) -> Result<api::ListSandboxesResponse, Status> {
        let scope = scope(request.workspace_scope)?;
        let page = Page::parse(request.page_size, &request.page_token)?;
        let selector = Selector::parse(&request.label_selector)?;
        let wanted = self.fence.list().into_iter().filter(|record| {
            scope.includes(&record.meta.workspace) && selector.matches(&record.meta.labels)
        });
        let (records, next_page_token) = page.cut(wanted, |record| {
            (
                record.meta.workspace.to_string(),
                record.meta.name.to_string(),
            )
        });
        Ok(api::ListSandboxesResponse {
            sandboxes: records
                .iter()
                .map(|r| convert::sandbox::sandbox(r))
                .collect(),
            next_page_token,
        })
    }
}

/// A record as an answer.
pub(super) fn answer(record: &SandboxRecord) -> tonic::Response<api::SandboxResponse> {
    tonic::Response::new(api::SandboxResponse {
        sandbox: Some(convert::sandbox::sandbox(record)),
        service_urls: Default::default(),
    })
}
