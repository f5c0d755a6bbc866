//! `openshell.plus.v1`: what the public contract lacks.

use openshell_lifecycle::LifecycleFence;
use openshell_proto::link::ProcessOutput;
use openshell_proto::plus::open_shell_plus_server::OpenShellPlus;
use openshell_proto::plus::{
    AttachMainInput, BatchGetLivesRequest, BatchGetLivesResponse, DiagnoseRequest,
    DiagnoseResponse, DownloadRequest, ExecInput, FileChunk, GetLifeRequest, HoldSandboxRequest,
    JournalEntry, Life, ListEventsRequest, ReleaseSandboxRequest, RestartSandboxRequest,
    UploadChunk, UploadResponse,
};
use tonic::{Request, Response, Status, Streaming};

use super::Api;
use super::access::sandbox_id;
use super::info::current_user;
use crate::convert;
use crate::status;
use crate::stream::Answer;

/// As many as a page of a list has.
const MAX_LIVES: usize = 1000;

#[tonic::async_trait]
impl<F: LifecycleFence> OpenShellPlus for Api<F> {
    type ListEventsStream = Answer<JournalEntry>;
    type AttachMainStream = Answer<ProcessOutput>;
    type ExecStream = Answer<ProcessOutput>;
    type DownloadStream = Answer<FileChunk>;

    async fn list_events(
        &self,
        request: Request<ListEventsRequest>,
    ) -> Result<Response<Self::ListEventsStream>, Status> {
        Api::list_events(self, request.into_inner()).map(Response::new)
    }

    async fn get_life(&self, request: Request<GetLifeRequest>) -> Result<Response<Life>, Status> {
        let GetLifeRequest {
            workspace_scope,
            sandbox,
        } = request.into_inner();
        let record = self.inner.find(workspace_scope, "sandbox", &sandbox)?;
        Ok(Response::new(convert::life::life(&record)))
    }

    async fn batch_get_lives(
        &self,
        request: Request<BatchGetLivesRequest>,
    ) -> Result<Response<BatchGetLivesResponse>, Status> {
        let ids = request.into_inner().sandbox_ids;
        if ids.len() > MAX_LIVES {
            return Err(status::invalid(
                "sandbox_ids",
                format!("{} ids; at most {MAX_LIVES} are allowed", ids.len()),
            ));
        }
        let mut lives = Vec::with_capacity(ids.len());
        for id in &ids {
            let id = sandbox_id("sandbox_ids", id)?;
            // One that was deleted meanwhile is left out.
            lives.extend(
                self.inner
                    .fence
                    .by_id(id)
                    .map(|record| convert::life::life(&record)),
            );
        }
        Ok(Response::new(BatchGetLivesResponse { lives }))
    }

    async fn restart_sandbox(
        &self,
        request: Request<RestartSandboxRequest>,
    ) -> Result<Response<Life>, Status> {
        let record = self.inner.restart_sandbox(request.into_inner()).await?;
        Ok(Response::new(convert::life::life(&record)))
    }

    async fn hold_sandbox(
        &self,
        request: Request<HoldSandboxRequest>,
    ) -> Result<Response<Life>, Status> {
        let by = current_user(&request)?.subject;
        let record = self.inner.hold_sandbox(by, request.into_inner()).await?;
        Ok(Response::new(convert::life::life(&record)))
    }

    async fn release_sandbox(
        &self,
        request: Request<ReleaseSandboxRequest>,
    ) -> Result<Response<Life>, Status> {
        let record = self.inner.release_sandbox(request.into_inner()).await?;
        Ok(Response::new(convert::life::life(&record)))
    }

    async fn attach_main(
        &self,
        request: Request<Streaming<AttachMainInput>>,
    ) -> Result<Response<Self::AttachMainStream>, Status> {
        let answer = self.inner.attach_main(request.into_inner()).await?;
        Ok(Response::new(answer))
    }

    async fn exec(
        &self,
        request: Request<Streaming<ExecInput>>,
    ) -> Result<Response<Self::ExecStream>, Status> {
        let answer = self.inner.plus_exec(request.into_inner()).await?;
        Ok(Response::new(answer))
    }

    async fn download(
        &self,
        request: Request<DownloadRequest>,
    ) -> Result<Response<Self::DownloadStream>, Status> {
        let answer = self.inner.download(request.into_inner()).await?;
        Ok(Response::new(answer))
    }

    async fn upload(
        &self,
        request: Request<Streaming<UploadChunk>>,
    ) -> Result<Response<UploadResponse>, Status> {
        let answer = self.inner.upload(request.into_inner()).await?;
        Ok(Response::new(answer))
    }

    async fn diagnose(
        &self,
        _: Request<DiagnoseRequest>,
    ) -> Result<Response<DiagnoseResponse>, Status> {
        Ok(Response::new(self.inner.diagnose().await))
    }
}
