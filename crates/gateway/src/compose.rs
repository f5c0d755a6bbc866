//! Puts the parts together: store, driver, issuer, fence, sessions, API. The only place that names a driver.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use openshell_api::auth::AuthConfig;
use openshell_api::session::{self, SessionConfig, SessionHub};
use openshell_api::{Api, ApiConfig, router};
use openshell_container::api::ApiDriver;
use openshell_container::{ContainerConfig, ImagePullPolicy, Network};
use openshell_core::ImageRef;
use openshell_core::token::Signer;
use openshell_lifecycle::Fence;
use openshell_lifecycle::config::{FenceConfig, RestoreMode, ShutdownMode};
use openshell_lifecycle::ports::SystemEnvironment;
use openshell_store::Store;

use crate::choice;
use crate::config::{Config, Driver, Lifecycle, OnShutdown, PullPolicy, Restore};
use crate::error::GatewayError;
use crate::issuer::Issuer;
use crate::pki::Identity;
use crate::places::Runtimes;

/// What is there before anything runs.
pub(crate) struct Ground {
    /// `None` = plaintext.
    pub(crate) identity: Option<Identity>,
    pub(crate) signer: Signer,
    pub(crate) store: Store,
    pub(crate) runtimes: Runtimes,
}

/// What runs.
pub(crate) struct Gateway {
    pub(crate) fence: Fence<ApiDriver>,
    pub(crate) hub: SessionHub,
    pub(crate) router: Router,
    pub(crate) metrics: PrometheusHandle,
    /// How long its end may take.
    pub(crate) shutdown_limit: Duration,
}

/// Makes everything; speaks to nobody yet.
pub(crate) fn compose(
    config: &Config,
    ground: Ground,
    endpoint: &str,
) -> Result<Gateway, GatewayError> {
    let choice = choice::choose(config)?;
    choice.tell();
    let of_driver = config.drivers.of(choice.kind);
    let public_key = ground.signer.public_key().to_vec();
    let issuer = Arc::new(Issuer {
        signer: ground.signer,
        gateway: config.gateway.name.clone(),
        endpoint: of_driver
            .grpc_endpoint
            .clone()
            .unwrap_or_else(|| endpoint.to_owned()),
        ca_pem: ground.identity.map(|own| own.ca_pem).unwrap_or_default(),
        stop_grace_millis: config.lifecycle.stop_grace_secs.saturating_mul(1000),
    });
    let driver = choice.connect(containers(of_driver, &ground.runtimes))?;
    let bounds = fence_config(&config.lifecycle, of_driver);
    let shutdown_limit = bounds.shutdown_limit();
    let fence = Fence::new(
        bounds,
        Arc::new(driver),
        ground.store.clone(),
        Arc::new(SystemEnvironment),
        issuer.clone(),
    );
    let hub = SessionHub::new();
    let sessions = SessionConfig {
        gateway_outage_limit: Duration::from_secs(config.lifecycle.gateway_outage_limit_secs),
        renewal: Some(issuer),
        ..SessionConfig::default()
    };
    let supervisors = session::service(hub.clone(), fence.clone(), sessions);
    let api = Api::new(
        fence.clone(),
        ground.store,
        hub.clone(),
        ApiConfig {
            auth: AuthConfig {
                public_key,
                allow_unauthenticated_users: config.gateway.disable_tls
                    || config.gateway.auth.allow_unauthenticated_users,
            },
            default_image: Some(ImageRef(of_driver.default_image.clone())),
            version: env!("CARGO_PKG_VERSION").to_owned(),
        },
    );
    Ok(Gateway {
        fence,
        hub,
        router: router(api, supervisors),
        metrics: recorder(),
        shutdown_limit,
    })
}

/// Takes what the process counts; once.
fn recorder() -> PrometheusHandle {
    let recorder = PrometheusBuilder::new().build_recorder();
    let handle = recorder.handle();
    if metrics::set_global_recorder(recorder).is_err() {
        tracing::warn!("metrics are counted elsewhere already; /metrics stays empty");
    }
    metrics::gauge!("openshell_build_info", "version" => env!("CARGO_PKG_VERSION")).set(1.0);
    handle
}

fn containers(driver: &Driver, runtimes: &Runtimes) -> ContainerConfig {
    let mut containers = ContainerConfig::new(
        driver.sandbox_label.clone(),
        runtimes.sandbox.clone(),
        runtimes.supervisor.clone(),
    );
    containers.default_image = ImageRef(driver.default_image.clone());
    containers.image_pull_policy = match driver.image_pull_policy {
        PullPolicy::Always => ImagePullPolicy::Always,
        PullPolicy::IfNotPresent => ImagePullPolicy::IfNotPresent,
        PullPolicy::Never => ImagePullPolicy::Never,
    };
    containers.pids_limit = driver.sandbox_pids_limit;
    containers.supervisor_network = match driver.supervisor_network.as_str() {
        "host" => Network::Host,
        other => Network::Named(other.to_owned()),
    };
    containers
}

fn fence_config(lifecycle: &Lifecycle, driver: &Driver) -> FenceConfig {
    let seconds = Duration::from_secs;
    FenceConfig {
        restore: match lifecycle.restore {
            Restore::Intent => RestoreMode::Intent,
            Restore::Policy => RestoreMode::Policy,
            Restore::None => RestoreMode::None,
        },
        on_shutdown: match lifecycle.on_shutdown {
            OnShutdown::Keep => ShutdownMode::Keep,
            OnShutdown::Stop => ShutdownMode::Stop,
        },
        stop_grace: seconds(lifecycle.stop_grace_secs),
        adoption_window: seconds(lifecycle.adoption_window_secs),
        engine_outage_limit: seconds(lifecycle.engine_outage_limit_secs),
        provisioning: seconds(lifecycle.provisioning_timeout_secs),
        containment: seconds(lifecycle.containment_limit_secs),
        engine_call: seconds(driver.stop_timeout_secs),
        restore_concurrency: usize::try_from(lifecycle.restore_concurrency).unwrap_or(16),
        shutdown_grace: seconds(lifecycle.shutdown_grace_secs),
        ..FenceConfig::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The file's defaults are those of the parts, so that neither documentation lies.
    #[test]
    fn the_defaults_of_the_file_are_those_of_the_fence() {
        let config = Config::default();
        assert_eq!(
            fence_config(&config.lifecycle, &config.drivers.docker),
            FenceConfig::default()
        );
    }
}
