//! `openshell.v1`: the wire contract, method by method.

use openshell_lifecycle::LifecycleFence;
use openshell_proto::api::open_shell_server::OpenShell;
use openshell_proto::{api, policy};
use tonic::{Request, Response, Status, Streaming};

use super::unimplemented::not_built;
use super::{Api, info, sandboxes};
use crate::stream::Answer;

#[tonic::async_trait]
impl<F: LifecycleFence> OpenShell for Api<F> {
    type ExecSandboxStream = Answer<api::ExecSandboxEvent>;
    type ForwardTcpStream = Answer<api::TcpForwardFrame>;
    type ExecSandboxInteractiveStream = Answer<api::ExecSandboxEvent>;
    type WatchSandboxStream = Answer<api::SandboxStreamEvent>;
    type ConnectSupervisorStream = Answer<api::GatewayMessage>;
    type RelayStreamStream = Answer<api::RelayFrame>;
    type PeerRelayStream = Answer<api::PeerRelayFrame>;

    async fn health(
        &self,
        _: Request<api::HealthRequest>,
    ) -> Result<Response<api::HealthResponse>, Status> {
        Ok(Response::new(self.inner.health()))
    }

    async fn get_current_user(
        &self,
        request: Request<api::GetCurrentUserRequest>,
    ) -> Result<Response<api::GetCurrentUserResponse>, Status> {
        info::current_user(&request).map(Response::new)
    }

    async fn get_gateway_info(
        &self,
        _: Request<api::GetGatewayInfoRequest>,
    ) -> Result<Response<api::GetGatewayInfoResponse>, Status> {
        Ok(Response::new(self.inner.gateway_info().await))
    }

    async fn create_sandbox(
        &self,
        request: Request<api::CreateSandboxRequest>,
    ) -> Result<Response<api::SandboxResponse>, Status> {
        let record = self.inner.create_sandbox(request.into_inner()).await?;
        Ok(sandboxes::answer(&record))
    }

    async fn get_sandbox(
        &self,
        request: Request<api::GetSandboxRequest>,
    ) -> Result<Response<api::SandboxResponse>, Status> {
        let api::GetSandboxRequest {
            workspace_scope,
            name,
        } = request.into_inner();
        let record = self.inner.find(workspace_scope, "name", &name)?;
        Ok(sandboxes::answer(&record))
    }

    async fn list_sandboxes(
        &self,
        request: Request<api::ListSandboxesRequest>,
    ) -> Result<Response<api::ListSandboxesResponse>, Status> {
        self.inner
            .list_sandboxes(request.into_inner())
            .map(Response::new)
    }

    async fn delete_sandbox(
        &self,
        request: Request<api::DeleteSandboxRequest>,
    ) -> Result<Response<api::DeleteSandboxResponse>, Status> {
        let answer = self.inner.delete_sandbox(request.into_inner()).await?;
        Ok(Response::new(answer))
    }

    async fn stop_sandbox(
        &self,
        request: Request<api::StopSandboxRequest>,
    ) -> Result<Response<api::SandboxResponse>, Status> {
        let record = self.inner.stop_sandbox(request.into_inner()).await?;
        Ok(sandboxes::answer(&record))
    }

    async fn start_sandbox(
        &self,
        request: Request<api::StartSandboxRequest>,
    ) -> Result<Response<api::SandboxResponse>, Status> {
        let record = self.inner.start_sandbox(request.into_inner()).await?;
        Ok(sandboxes::answer(&record))
    }

    async fn watch_sandbox(
        &self,
        request: Request<api::WatchSandboxRequest>,
    ) -> Result<Response<Self::WatchSandboxStream>, Status> {
        self.watch(request.into_inner()).await.map(Response::new)
    }

    async fn get_sandbox_logs(
        &self,
        request: Request<api::GetSandboxLogsRequest>,
    ) -> Result<Response<api::GetSandboxLogsResponse>, Status> {
        self.inner
            .sandbox_logs(request.into_inner())
            .map(Response::new)
    }

    async fn exec_sandbox(
        &self,
        request: Request<api::ExecSandboxRequest>,
    ) -> Result<Response<Self::ExecSandboxStream>, Status> {
        let answer = self.inner.exec_sandbox(request.into_inner()).await?;
        Ok(Response::new(answer))
    }

    async fn exec_sandbox_interactive(
        &self,
        request: Request<Streaming<api::ExecSandboxInput>>,
    ) -> Result<Response<Self::ExecSandboxInteractiveStream>, Status> {
        let answer = self.inner.exec_interactive(request.into_inner()).await?;
        Ok(Response::new(answer))
    }

    async fn forward_tcp(
        &self,
        request: Request<Streaming<api::TcpForwardFrame>>,
    ) -> Result<Response<Self::ForwardTcpStream>, Status> {
        let answer = self.inner.forward_tcp(request.into_inner()).await?;
        Ok(Response::new(answer))
    }

    async fn create_sandbox_template(
        &self,
        request: Request<api::CreateSandboxTemplateRequest>,
    ) -> Result<Response<api::SandboxTemplateResponse>, Status> {
        let answer = self.inner.create_template(request.into_inner()).await?;
        Ok(Response::new(answer))
    }

    async fn get_sandbox_template(
        &self,
        request: Request<api::GetSandboxTemplateRequest>,
    ) -> Result<Response<api::SandboxTemplateResponse>, Status> {
        let answer = self.inner.get_template(request.into_inner()).await?;
        Ok(Response::new(answer))
    }

    async fn list_sandbox_templates(
        &self,
        request: Request<api::ListSandboxTemplatesRequest>,
    ) -> Result<Response<api::ListSandboxTemplatesResponse>, Status> {
        let answer = self.inner.list_templates(request.into_inner()).await?;
        Ok(Response::new(answer))
    }

    async fn delete_sandbox_template(
        &self,
        request: Request<api::DeleteSandboxTemplateRequest>,
    ) -> Result<Response<api::DeleteSandboxTemplateResponse>, Status> {
        let answer = self.inner.delete_template(request.into_inner()).await?;
        Ok(Response::new(answer))
    }

    async fn create_workspace(
        &self,
        request: Request<api::CreateWorkspaceRequest>,
    ) -> Result<Response<api::CreateWorkspaceResponse>, Status> {
        let workspace = self.inner.create_workspace(request.into_inner()).await?;
        Ok(Response::new(api::CreateWorkspaceResponse {
            workspace: Some(workspace),
        }))
    }

    async fn get_workspace(
        &self,
        request: Request<api::GetWorkspaceRequest>,
    ) -> Result<Response<api::GetWorkspaceResponse>, Status> {
        let workspace = self.inner.get_workspace(request.into_inner()).await?;
        Ok(Response::new(api::GetWorkspaceResponse {
            workspace: Some(workspace),
        }))
    }

    async fn list_workspaces(
        &self,
        request: Request<api::ListWorkspacesRequest>,
    ) -> Result<Response<api::ListWorkspacesResponse>, Status> {
        let answer = self.inner.list_workspaces(request.into_inner()).await?;
        Ok(Response::new(answer))
    }

    async fn delete_workspace(
        &self,
        request: Request<api::DeleteWorkspaceRequest>,
    ) -> Result<Response<api::DeleteWorkspaceResponse>, Status> {
        let outcome = self.inner.delete_workspace(request.into_inner()).await?;
        Ok(Response::new(api::DeleteWorkspaceResponse {
            outcome: outcome.into(),
        }))
    }

    not_built! {
        begin_rootfs_tar_staging(api::BeginRootfsTarStagingRequest) -> api::BeginRootfsTarStagingResponse;
        list_sandbox_providers(api::ListSandboxProvidersRequest) -> api::ListSandboxProvidersResponse;
        attach_sandbox_provider(api::AttachSandboxProviderRequest) -> api::AttachSandboxProviderResponse;
        detach_sandbox_provider(api::DetachSandboxProviderRequest) -> api::DetachSandboxProviderResponse;
        get_sandbox_provider_status(api::GetSandboxProviderStatusRequest) -> api::GetSandboxProviderStatusResponse;
        create_ssh_session(api::CreateSshSessionRequest) -> api::CreateSshSessionResponse;
        expose_service(api::ExposeServiceRequest) -> api::ServiceEndpointResponse;
        get_service(api::GetServiceRequest) -> api::ServiceEndpointResponse;
        list_services(api::ListServicesRequest) -> api::ListServicesResponse;
        delete_service(api::DeleteServiceRequest) -> api::DeleteServiceResponse;
        revoke_ssh_session(api::RevokeSshSessionRequest) -> api::RevokeSshSessionResponse;
        create_provider(api::CreateProviderRequest) -> api::ProviderResponse;
        get_provider(api::GetProviderRequest) -> api::ProviderResponse;
        get_provider_credentials(api::GetProviderCredentialsRequest) -> api::GetProviderCredentialsResponse;
        list_providers(api::ListProvidersRequest) -> api::ListProvidersResponse;
        list_provider_profiles(api::ListProviderProfilesRequest) -> api::ListProviderProfilesResponse;
        get_provider_profile(api::GetProviderProfileRequest) -> api::ProviderProfileResponse;
        import_provider_profiles(api::ImportProviderProfilesRequest) -> api::ImportProviderProfilesResponse;
        update_provider_profiles(api::UpdateProviderProfilesRequest) -> api::UpdateProviderProfilesResponse;
        lint_provider_profiles(api::LintProviderProfilesRequest) -> api::LintProviderProfilesResponse;
        update_provider(api::UpdateProviderRequest) -> api::ProviderResponse;
        get_provider_refresh_status(api::GetProviderRefreshStatusRequest) -> api::GetProviderRefreshStatusResponse;
        configure_provider_refresh(api::ConfigureProviderRefreshRequest) -> api::ConfigureProviderRefreshResponse;
        rotate_provider_credential(api::RotateProviderCredentialRequest) -> api::RotateProviderCredentialResponse;
        delete_provider_refresh(api::DeleteProviderRefreshRequest) -> api::DeleteProviderRefreshResponse;
        delete_provider(api::DeleteProviderRequest) -> api::DeleteProviderResponse;
        delete_provider_profile(api::DeleteProviderProfileRequest) -> api::DeleteProviderProfileResponse;
        get_sandbox_config(policy::GetSandboxConfigRequest) -> policy::GetSandboxConfigResponse;
        get_gateway_config(policy::GetGatewayConfigRequest) -> policy::GetGatewayConfigResponse;
        update_config(api::UpdateConfigRequest) -> api::UpdateConfigResponse;
        get_sandbox_policy_status(api::GetSandboxPolicyStatusRequest) -> api::GetSandboxPolicyStatusResponse;
        list_sandbox_policies(api::ListSandboxPoliciesRequest) -> api::ListSandboxPoliciesResponse;
        report_policy_status(api::ReportPolicyStatusRequest) -> api::ReportPolicyStatusResponse;
        report_endpoint_status(api::ReportEndpointStatusRequest) -> api::ReportEndpointStatusResponse;
        report_provider_readiness(api::ReportProviderReadinessRequest) -> api::ReportProviderReadinessResponse;
        report_sandbox_configuration(api::ReportSandboxConfigurationRequest) -> api::ReportSandboxConfigurationResponse;
        get_sandbox_provider_environment(api::GetSandboxProviderEnvironmentRequest) -> api::GetSandboxProviderEnvironmentResponse;
        exchange_provider_subject_token(api::ExchangeProviderSubjectTokenRequest) -> api::ExchangeProviderSubjectTokenResponse;
        push_sandbox_logs(Streaming<api::PushSandboxLogsRequest>) -> api::PushSandboxLogsResponse;
        connect_supervisor(Streaming<api::SupervisorMessage>) -> Self::ConnectSupervisorStream;
        report_main_process_exit(api::ReportMainProcessExitRequest) -> api::ReportMainProcessExitResponse;
        finalize_main_process_exit(api::FinalizeMainProcessExitRequest) -> api::FinalizeMainProcessExitResponse;
        relay_stream(Streaming<api::RelayFrame>) -> Self::RelayStreamStream;
        peer_relay(Streaming<api::PeerRelayFrame>) -> Self::PeerRelayStream;
        peer_report_provider_readiness(api::ReportProviderReadinessRequest) -> api::ReportProviderReadinessResponse;
        peer_report_endpoint_status(api::ReportEndpointStatusRequest) -> api::ReportEndpointStatusResponse;
        peer_get_sandbox_provider_status(api::GetSandboxProviderStatusRequest) -> api::GetSandboxProviderStatusResponse;
        peer_notify_config_update(api::PeerNotifyConfigUpdateRequest) -> api::PeerNotifyConfigUpdateResponse;
        submit_policy_analysis(api::SubmitPolicyAnalysisRequest) -> api::SubmitPolicyAnalysisResponse;
        get_draft_policy(api::GetDraftPolicyRequest) -> api::GetDraftPolicyResponse;
        approve_draft_chunk(api::ApproveDraftChunkRequest) -> api::ApproveDraftChunkResponse;
        reject_draft_chunk(api::RejectDraftChunkRequest) -> api::RejectDraftChunkResponse;
        approve_all_draft_chunks(api::ApproveAllDraftChunksRequest) -> api::ApproveAllDraftChunksResponse;
        edit_draft_chunk(api::EditDraftChunkRequest) -> api::EditDraftChunkResponse;
        undo_draft_chunk(api::UndoDraftChunkRequest) -> api::UndoDraftChunkResponse;
        clear_draft_chunks(api::ClearDraftChunksRequest) -> api::ClearDraftChunksResponse;
        get_draft_history(api::GetDraftHistoryRequest) -> api::GetDraftHistoryResponse;
        issue_sandbox_token(api::IssueSandboxTokenRequest) -> api::IssueSandboxTokenResponse;
        refresh_sandbox_token(api::RefreshSandboxTokenRequest) -> api::RefreshSandboxTokenResponse;
        add_workspace_member(api::AddWorkspaceMemberRequest) -> api::AddWorkspaceMemberResponse;
        remove_workspace_member(api::RemoveWorkspaceMemberRequest) -> api::RemoveWorkspaceMemberResponse;
        list_workspace_members(api::ListWorkspaceMembersRequest) -> api::ListWorkspaceMembersResponse;
    }
}
