//! Names for shell completion: asked of the gateway, quickly or not at all.

use std::time::Duration;

use clap::Parser;
use clap_complete::CompletionCandidate;
use openshell_proto::api::ListSandboxesRequest;

use crate::cli::Cli;
use crate::connect::Gateway;
use crate::registry::Registry;

/// A completion that takes longer than this is worse than none.
const PATIENCE: Duration = Duration::from_millis(700);

/// Names of the registered gateways.
pub(crate) fn gateways() -> Vec<CompletionCandidate> {
    let Ok(registry) = Registry::of_user() else {
        return Vec::new();
    };
    let (entries, _) = registry.list();
    entries
        .into_iter()
        .map(|e| CompletionCandidate::new(e.name))
        .collect()
}

/// Names of the sandboxes in the workspace.
pub(crate) fn sandboxes() -> Vec<CompletionCandidate> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let Ok(runtime) = runtime else {
        return Vec::new();
    };
    let names = runtime.block_on(async { tokio::time::timeout(PATIENCE, sandbox_names()).await });
    names
        .ok()
        .flatten()
        .unwrap_or_default()
        .into_iter()
        .map(CompletionCandidate::new)
        .collect()
}

async fn sandbox_names() -> Option<Vec<String>> {
    // The line being completed is not parsed yet: the environment and the active gateway decide.
    let global = Cli::try_parse_from(["openshell", "status"]).ok()?.global;
    let gateway = Gateway::connect(&global).await.ok()?;
    let request = ListSandboxesRequest {
        workspace_scope: gateway.scope(),
        page_size: 1000,
        ..Default::default()
    };
    let answer = gateway
        .api()
        .list_sandboxes(request)
        .await
        .ok()?
        .into_inner();
    let names = answer
        .sandboxes
        .into_iter()
        .filter_map(|s| s.metadata)
        .map(|m| m.name);
    Some(names.collect())
}
