//! Liveness, readiness and metrics over HTTP. A probe reads what was found last; it never waits for a check.

use std::fmt::Write as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::extract::{Query, State};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderMap, StatusCode};
use metrics::gauge;
use metrics_exporter_prometheus::PrometheusHandle;
use openshell_core::Timestamp;
use openshell_lifecycle::LifecycleFence;
use openshell_lifecycle::ports::{Environment as _, SystemEnvironment};
use openshell_store::Store;
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

/// How often is looked when all is well, and when something is not.
const WHEN_WELL: Duration = Duration::from_secs(10);
const WHEN_NOT: Duration = Duration::from_secs(2);
/// A check that takes longer has failed.
const CHECK_DEADLINE: Duration = Duration::from_secs(5);

/// Something the gateway needs.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Component {
    /// store, engine
    pub name: &'static str,
    /// Whether it works.
    pub ok: bool,
    /// What it is, or what is wrong with it and what to do.
    pub message: String,
    /// Since when it is so.
    pub since: Timestamp,
}

/// What was found last. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Readiness(Arc<Mutex<Vec<Component>>>);

impl Readiness {
    /// Nothing has been looked at: not ready.
    pub fn new(names: &[&'static str], now: Timestamp) -> Self {
        let unknown = |name: &&'static str| Component {
            name,
            ok: false,
            message: "not looked at yet".to_owned(),
            since: now,
        };
        Self(Arc::new(Mutex::new(names.iter().map(unknown).collect())))
    }

    /// Takes a finding in; answers whether it turned.
    pub fn set(&self, name: &'static str, found: Result<String, String>, now: Timestamp) -> bool {
        let (ok, message) = match found {
            Ok(message) => (true, message),
            Err(message) => (false, message),
        };
        let mut components = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(component) = components.iter_mut().find(|c| c.name == name) else {
            return false;
        };
        let turned = component.ok != ok;
        if turned {
            component.since = now;
        }
        component.ok = ok;
        component.message = message;
        turned
    }

    /// Everything, as it was found last.
    pub fn components(&self) -> Vec<Component> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Whether all of it works.
    pub fn ready(&self) -> bool {
        self.components().iter().all(|component| component.ok)
    }
}

/// `/healthz` and `/readyz`.
pub fn health_router(readiness: Readiness) -> Router {
    Router::new()
        .route("/healthz", get(async || "ok\n"))
        .route("/health", get(async || "ok\n"))
        .route("/readyz", get(readyz))
        .with_state(readiness)
}

/// `/metrics`.
pub fn metrics_router(handle: PrometheusHandle) -> Router {
    let render = async move |State(handle): State<PrometheusHandle>| {
        (
            [(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")],
            handle.render(),
        )
    };
    Router::new()
        .route("/metrics", get(render))
        .with_state(handle)
}

#[derive(Deserialize)]
struct ReadyQuery {
    /// Present in any form: tell what works too.
    verbose: Option<String>,
}

#[derive(Serialize)]
struct ReadyAnswer {
    ready: bool,
    components: Vec<Component>,
}

async fn readyz(
    State(readiness): State<Readiness>,
    Query(query): Query<ReadyQuery>,
    headers: HeaderMap,
) -> Response {
    let components = readiness.components();
    let ready = components.iter().all(|component| component.ok);
    let status = match ready {
        true => StatusCode::OK,
        false => StatusCode::SERVICE_UNAVAILABLE,
    };
    let json = headers
        .get(ACCEPT)
        .and_then(|accept| accept.to_str().ok())
        .is_some_and(|accept| accept.contains("application/json"));
    if json {
        let answer = ReadyAnswer { ready, components };
        return (status, axum::Json(answer)).into_response();
    }
    let mut text = String::from(if ready { "ready\n" } else { "not ready\n" });
    for component in &components {
        if component.ok && query.verbose.is_none() {
            continue;
        }
        let Component {
            name,
            ok,
            message,
            since,
        } = component;
        let word = if *ok { "ok" } else { "failed" };
        // Writing to a string does not fail.
        let _ = writeln!(text, "{name}: {word} since {since}: {message}");
    }
    (status, text).into_response()
}

/// Looks at store and engine again and again until the shutdown, and keeps readiness and its gauges up to date.
pub async fn keep_looking<F: LifecycleFence>(
    readiness: Readiness,
    fence: F,
    store: Store,
    metrics: PrometheusHandle,
    shutdown: CancellationToken,
) {
    loop {
        let look = async {
            let (store, engine) = tokio::join!(look_at_store(&store), look_at_engine(&fence));
            note(&readiness, "store", store);
            note(&readiness, "engine", engine);
        };
        tokio::select! {
            () = shutdown.cancelled() => return,
            () = look => {}
        }
        metrics.run_upkeep();
        let pause = if readiness.ready() {
            WHEN_WELL
        } else {
            WHEN_NOT
        };
        tokio::select! {
            () = shutdown.cancelled() => return,
            () = tokio::time::sleep(pause) => {}
        }
    }
}

async fn look_at_store(store: &Store) -> Result<String, String> {
    match tokio::time::timeout(CHECK_DEADLINE, store.check()).await {
        Ok(Ok(())) => Ok("writable".to_owned()),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err(late()),
    }
}

async fn look_at_engine<F: LifecycleFence>(fence: &F) -> Result<String, String> {
    match tokio::time::timeout(CHECK_DEADLINE, fence.engine()).await {
        Ok(Ok(info)) => Ok(format!(
            "{} {} (API {})",
            info.driver, info.version, info.api_version
        )),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err(late()),
    }
}

fn late() -> String {
    format!("no answer within {} seconds", CHECK_DEADLINE.as_secs())
}

fn note(readiness: &Readiness, name: &'static str, found: Result<String, String>) {
    gauge!("openshell_component_up", "component" => name).set(f64::from(u8::from(found.is_ok())));
    let words = found.clone().unwrap_or_else(|wrong| wrong);
    let ok = found.is_ok();
    if readiness.set(name, found, SystemEnvironment.now()) {
        match ok {
            true => tracing::info!(component = name, "{words}"),
            false => tracing::warn!(component = name, "{words}"),
        }
    }
}
