//! The life of sandboxes through the public API: a real client, the real router, fence and store.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test helpers")]

mod support;

use openshell_core::{Generation, SandboxId};
use openshell_proto::api::{self, SandboxPhase};
use openshell_proto::datamodel::{WorkspaceSelector, workspace_selector::Selection};
use openshell_proto::plus;
use support::Gateway;
use tonic::Code;

fn create(name: &str) -> api::CreateSandboxRequest {
    api::CreateSandboxRequest {
        name: name.to_owned(),
        ..Default::default()
    }
}

fn within(name: &str) -> Option<WorkspaceSelector> {
    Some(WorkspaceSelector {
        selection: Some(Selection::Workspace(name.to_owned())),
    })
}

#[tokio::test]
async fn a_sandbox_is_created_stopped_started_restarted_and_deleted() {
    let g = Gateway::start().await;
    let mut user = g.user();
    let made = g.ready("a").await;
    let id = made.metadata.as_ref().unwrap().id.clone();
    let status = made.status.unwrap();
    assert_eq!(status.conditions[0].status, "True");
    assert!(status.main_process_started_time.is_some());
    assert_eq!(status.main_process_instance_id, format!("{id}/1"));

    let name = || "a".to_owned();
    let stop = api::StopSandboxRequest {
        name: name(),
        ..Default::default()
    };
    user.stop_sandbox(stop).await.unwrap();
    g.phase("a", SandboxPhase::Stopped).await;
    let start = api::StartSandboxRequest {
        name: name(),
        ..Default::default()
    };
    user.start_sandbox(start).await.unwrap();
    let again = g.phase("a", SandboxPhase::Ready).await;
    assert_eq!(again.metadata.unwrap().id, id);

    let restart = plus::RestartSandboxRequest {
        name: name(),
        ..Default::default()
    };
    let life = g
        .plus()
        .restart_sandbox(restart)
        .await
        .unwrap()
        .into_inner();
    assert_eq!(life.sandbox_id, id);
    g.phase("a", SandboxPhase::Ready).await;

    let delete = |allow_missing| api::DeleteSandboxRequest {
        name: name(),
        allow_missing,
        ..Default::default()
    };
    let gone = user
        .delete_sandbox(delete(false))
        .await
        .unwrap()
        .into_inner();
    assert_eq!(gone.outcome(), api::DeletionOutcome::Accepted);
    assert_eq!(gone.sandbox_id, id);
    g.gone("a").await;
    let gone = user
        .delete_sandbox(delete(true))
        .await
        .unwrap()
        .into_inner();
    assert_eq!(gone.outcome(), api::DeletionOutcome::AlreadyAbsent);
    let e = user.delete_sandbox(delete(false)).await.unwrap_err();
    assert_eq!(e.code(), Code::NotFound);
    assert_eq!(g.driver.containers(), 0);
}

#[tokio::test]
async fn a_missing_name_is_generated_and_a_taken_one_refused() {
    let g = Gateway::start().await;
    let made = g.user().create_sandbox(create("")).await.unwrap();
    let name = made.into_inner().sandbox.unwrap().metadata.unwrap().name;
    assert_eq!(name.split('-').count(), 3, "{name}");
    let e = g.user().create_sandbox(create(&name)).await.unwrap_err();
    assert_eq!(e.code(), Code::AlreadyExists);
    for bad in ["A", "-a", "a_b", &"a".repeat(41), "a\0"] {
        let e = g.user().create_sandbox(create(bad)).await.unwrap_err();
        assert_eq!(e.code(), Code::InvalidArgument, "{bad}");
        assert!(e.message().starts_with("name:"), "{}", e.message());
    }
}

#[tokio::test]
async fn a_repeated_request_answers_with_its_first_sandbox() {
    let g = Gateway::start().await;
    let request = |name: &str, label: &str| api::CreateSandboxRequest {
        request_id: "r1".to_owned(),
        labels: [("l".to_owned(), label.to_owned())].into(),
        ..create(name)
    };
    let id = |s: tonic::Response<api::SandboxResponse>| {
        s.into_inner().sandbox.unwrap().metadata.unwrap().id
    };
    let first = id(g.user().create_sandbox(request("", "x")).await.unwrap());
    assert_eq!(
        id(g.user().create_sandbox(request("", "x")).await.unwrap()),
        first
    );
    let e = g.user().create_sandbox(request("", "y")).await.unwrap_err();
    assert_eq!(e.code(), Code::InvalidArgument);
    assert!(e.message().contains("request_id"), "{}", e.message());
    assert_eq!(g.fence_len(), 1);
}

#[tokio::test]
async fn lists_page_select_and_keep_workspaces_apart() {
    let g = Gateway::start().await;
    let mut user = g.user();
    let workspace = api::CreateWorkspaceRequest {
        name: "team".to_owned(),
        ..Default::default()
    };
    user.create_workspace(workspace).await.unwrap();
    for i in 0..7 {
        let request = api::CreateSandboxRequest {
            labels: [("parity".to_owned(), (i % 2).to_string())].into(),
            ..create(&format!("s{i}"))
        };
        user.create_sandbox(request).await.unwrap();
    }
    let elsewhere = api::CreateSandboxRequest {
        workspace_scope: within("team"),
        ..create("s0")
    };
    user.create_sandbox(elsewhere).await.unwrap();
    let list = |selection, size, token: &str, selector: &str| api::ListSandboxesRequest {
        workspace_scope: selection,
        page_size: size,
        page_token: token.to_owned(),
        label_selector: selector.to_owned(),
    };
    let (mut names, mut token) = (Vec::new(), String::new());
    loop {
        let page = user
            .list_sandboxes(list(None, 3, &token, ""))
            .await
            .unwrap()
            .into_inner();
        names.extend(page.sandboxes.into_iter().map(|s| s.metadata.unwrap().name));
        token = page.next_page_token;
        if token.is_empty() {
            break;
        }
    }
    assert_eq!(names, ["s0", "s1", "s2", "s3", "s4", "s5", "s6"]);
    let odd = user
        .list_sandboxes(list(None, 0, "", "parity=1"))
        .await
        .unwrap();
    assert_eq!(odd.into_inner().sandboxes.len(), 3);
    let everywhere = Some(WorkspaceSelector {
        selection: Some(Selection::AllWorkspaces(Default::default())),
    });
    let all = user
        .list_sandboxes(list(everywhere, 0, "", ""))
        .await
        .unwrap();
    assert_eq!(all.into_inner().sandboxes.len(), 8);
    for bad in [
        list(None, -1, "", ""),
        list(None, 0, "x", ""),
        list(None, 0, "", "="),
    ] {
        let e = user.list_sandboxes(bad).await.unwrap_err();
        assert_eq!(e.code(), Code::InvalidArgument);
    }

    let delete = |name: &str| api::DeleteWorkspaceRequest {
        name: name.to_owned(),
        ..Default::default()
    };
    for name in ["team", "default"] {
        let e = user.delete_workspace(delete(name)).await.unwrap_err();
        assert_eq!(e.code(), Code::FailedPrecondition, "{name}");
    }
    let missing = api::CreateSandboxRequest {
        workspace_scope: within("nowhere"),
        ..create("x")
    };
    let e = user.create_sandbox(missing).await.unwrap_err();
    assert_eq!(e.code(), Code::NotFound);
}

#[tokio::test]
async fn a_template_gives_a_sandbox_its_workload_and_is_named_as_its_origin() {
    let g = Gateway::start().await;
    let mut user = g.user();
    let template = |image: &str| api::CreateSandboxTemplateRequest {
        request_id: "t1".to_owned(),
        template: Some(api::SandboxWorkloadTemplate {
            metadata: Some(openshell_proto::datamodel::ObjectMeta {
                name: "web".to_owned(),
                ..Default::default()
            }),
            spec: Some(api::SandboxWorkloadTemplateSpec {
                workload: Some(api::SandboxWorkloadConfig {
                    image: image.to_owned(),
                    ..Default::default()
                }),
                ..Default::default()
            }),
        }),
        ..Default::default()
    };
    let made = user
        .create_sandbox_template(template("web:1"))
        .await
        .unwrap();
    let meta = made.into_inner().template.unwrap().metadata.unwrap();
    assert_eq!((&*meta.workspace, meta.resource_version), ("default", 1));
    // The same request again, and another with its id.
    let again = user
        .create_sandbox_template(template("web:1"))
        .await
        .unwrap();
    assert_eq!(
        again.into_inner().template.unwrap().metadata.unwrap().id,
        meta.id
    );
    let e = user
        .create_sandbox_template(template("web:2"))
        .await
        .unwrap_err();
    assert_eq!(e.code(), Code::InvalidArgument);
    let e = user
        .create_sandbox_template(api::CreateSandboxTemplateRequest {
            request_id: String::new(),
            ..template("web:1")
        })
        .await
        .unwrap_err();
    assert_eq!(e.code(), Code::AlreadyExists);

    let request = api::CreateSandboxRequest {
        workload_template: "web".to_owned(),
        ..create("a")
    };
    let sandbox = user
        .create_sandbox(request)
        .await
        .unwrap()
        .into_inner()
        .sandbox
        .unwrap();
    assert_eq!(sandbox.spec.unwrap().template.unwrap().image, "web:1");
    assert_eq!(sandbox.created_from_workload_template.unwrap().name, "web");
    let listed = user
        .list_sandbox_templates(api::ListSandboxTemplatesRequest::default())
        .await;
    assert_eq!(listed.unwrap().into_inner().templates.len(), 1);
    let delete = |allow_missing| api::DeleteSandboxTemplateRequest {
        name: "web".to_owned(),
        allow_missing,
        ..Default::default()
    };
    let gone = user
        .delete_sandbox_template(delete(false))
        .await
        .unwrap()
        .into_inner();
    assert_eq!(gone.outcome(), api::DeletionOutcome::Completed);
    let gone = user
        .delete_sandbox_template(delete(true))
        .await
        .unwrap()
        .into_inner();
    assert_eq!(gone.outcome(), api::DeletionOutcome::AlreadyAbsent);
    let e = user
        .delete_sandbox_template(delete(false))
        .await
        .unwrap_err();
    assert_eq!(e.code(), Code::NotFound);
}

#[tokio::test]
async fn only_health_is_open_and_a_runs_token_is_no_key_to_the_api() {
    let g = Gateway::start().await;
    let token = g.token(SandboxId::random(), Generation(1));
    let health = g
        .stranger(None)
        .health(api::HealthRequest {})
        .await
        .unwrap()
        .into_inner();
    assert_eq!(
        (health.status(), &*health.version),
        (api::ServiceStatus::Healthy, "1.2.3")
    );
    for (token, code) in [
        (None, Code::Unauthenticated),
        (Some("x.y.z".to_owned()), Code::Unauthenticated),
        (Some(token), Code::PermissionDenied),
    ] {
        let list = api::ListSandboxesRequest::default();
        let e = g.stranger(token).list_sandboxes(list).await.unwrap_err();
        assert_eq!(e.code(), code);
    }
    let me = g
        .user()
        .get_current_user(api::GetCurrentUserRequest {})
        .await
        .unwrap();
    assert_eq!(me.into_inner().subject, "ada");
}

#[tokio::test]
async fn what_is_not_built_says_so() {
    let g = Gateway::start().await;
    let e = g
        .user()
        .list_providers(api::ListProvidersRequest::default())
        .await
        .unwrap_err();
    assert_eq!(e.code(), Code::Unimplemented);
    assert!(e.message().contains("ListProviders"));
    let frames = tokio_stream::iter([api::RelayFrame::default()]);
    let e = g.user().relay_stream(frames).await.unwrap_err();
    assert_eq!(e.code(), Code::Unimplemented);
}

#[tokio::test]
async fn the_gateway_tells_of_its_engine_and_its_host() {
    let g = Gateway::start().await;
    let info = g
        .user()
        .get_gateway_info(api::GetGatewayInfoRequest {})
        .await
        .unwrap()
        .into_inner();
    assert_eq!(info.status(), api::ServiceStatus::Healthy);
    assert_eq!(info.compute_drivers.len(), 1);
    let found = g
        .plus()
        .diagnose(plus::DiagnoseRequest {})
        .await
        .unwrap()
        .into_inner();
    let checks: Vec<_> = found
        .findings
        .iter()
        .map(|f| (&*f.check, &*f.status))
        .collect();
    let sound = ["engine", "store", "sandboxes", "leftovers"].map(|check| (check, "ok"));
    assert_eq!(checks, sound);
}

#[tokio::test]
async fn a_message_over_the_limit_is_an_error_and_nothing_is_made() {
    let g = Gateway::start().await;
    let request = api::CreateSandboxRequest {
        annotations: [("a".to_owned(), "x".repeat(9 << 20))].into(),
        ..create("big")
    };
    let e = g.user().create_sandbox(request).await.unwrap_err();
    assert_eq!(e.code(), Code::OutOfRange, "{e}");
    assert_eq!(g.fence_len(), 0);
}

/// `CreateSandboxRequest` with a name that need not be text.
#[derive(Clone, PartialEq, prost::Message)]
struct Raw {
    #[prost(bytes = "vec", tag = "2")]
    name: Vec<u8>,
}

#[tokio::test]
async fn text_that_is_not_utf_8_is_an_invalid_argument() {
    let g = Gateway::start().await;
    let mut client = tonic::client::Grpc::new(g.channel());
    client.ready().await.unwrap();
    let raw = Raw {
        name: vec![0xff, 0xfe],
    };
    let path = "/openshell.v1.OpenShell/CreateSandbox".parse().unwrap();
    let codec = tonic_prost::ProstCodec::<Raw, api::SandboxResponse>::default();
    let sent = client.unary(tonic::Request::new(raw), path, codec).await;
    let e = sent.unwrap_err();
    assert_eq!(e.code(), Code::InvalidArgument, "{e}");
    assert_eq!(g.fence_len(), 0);
}
