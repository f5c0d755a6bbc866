//! From start to end: what has to be there first, the listeners, the signals, the way out.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use openshell_api::serve::health::{self, Readiness};
use openshell_api::serve::{ServeConfig, serve};
use openshell_core::Timestamp;
use openshell_lifecycle::LifecycleFence as _;
use openshell_lifecycle::ports::{Environment as _, SystemEnvironment};
use openshell_store::Store;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::compose::{self, Gateway, Ground};
use crate::config::{Config, Loaded};
use crate::error::GatewayError;
use crate::listen::bind;
use crate::notify;
use crate::pki::{self, Identity};
use crate::signals::Signals;
use crate::{logging, places};

/// Requests in flight may go on for so long once the listeners are closed. Commands are durable when they are
/// accepted; what takes longer are streams, which begin again elsewhere.
const DRAIN: Duration = Duration::from_secs(2);

/// Serves until it is told to end.
pub(crate) fn run(loaded: &Loaded) -> Result<(), GatewayError> {
    let config = &loaded.config;
    logging::begin(config.gateway.log_level, config.gateway.log_format);
    let now = SystemEnvironment.now();
    let exe = std::env::current_exe().unwrap_or_default();
    let runtimes = places::runtimes(config.gateway.runtime_dir.as_deref(), &exe)?;
    let state = places::state(config.gateway.state_dir.as_deref())?;
    pki::files::private_dir(&state).map_err(|why| GatewayError::State {
        path: state.clone(),
        why,
    })?;
    // Before anything else is touched: the store's lock keeps a second gateway out of all of it.
    let store = Store::open(&state.join("openshell.db"))?;
    let certificates = state.join("tls");
    if pki::ensure(
        &certificates,
        &config.gateway.server_sans,
        &client_name(),
        now,
    )? == pki::Made::New
    {
        tracing::info!(directory = %certificates.display(), "made certificates and keys");
    }
    let ground = Ground {
        identity: identity(config, &certificates, now)?,
        signer: pki::signer(&certificates)?,
        store,
        runtimes,
    };

    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .max_blocking_threads(16)
        .thread_name("gateway")
        .enable_all()
        .build()
        .map_err(GatewayError::Runtime)?;
    let result = runtime.block_on(daemon(loaded, &state, ground));
    runtime.shutdown_timeout(Duration::from_millis(500));
    result
}

/// What the server's certificate and the CA are; `None` = plaintext.
fn identity(
    config: &Config,
    certificates: &Path,
    now: Timestamp,
) -> Result<Option<Identity>, GatewayError> {
    if config.gateway.disable_tls {
        return Ok(None);
    }
    let tls = &config.gateway.tls;
    let identity = match (&tls.client_ca_path, &tls.cert_path, &tls.key_path) {
        (Some(ca), Some(chain), Some(key)) => {
            let fix = "put a certificate there that is valid now, and start again";
            pki::load(ca, chain, key, fix, now)?
        }
        _ => pki::load_own(certificates, now)?,
    };
    Ok(Some(identity))
}

/// The common name of the local client's certificate: who it is for.
pub(crate) fn client_name() -> String {
    let user = std::env::var("USER").or_else(|_| std::env::var("LOGNAME"));
    user.ok()
        .filter(|name| !name.is_empty() && name.len() <= 64 && name.is_ascii())
        .unwrap_or_else(|| "local".to_owned())
}

async fn daemon(loaded: &Loaded, state: &Path, ground: Ground) -> Result<(), GatewayError> {
    let config = &loaded.config;
    let mut signals = Signals::listen().map_err(GatewayError::Runtime)?;
    let listeners = Listeners::bind(config).await?;
    let local = listeners.api_address;
    let tls = match &ground.identity {
        Some(own) => Some(openshell_api::serve::server_config(
            &own.chain_pem,
            &own.key_pem,
            &own.ca_pem,
        )?),
        None => None,
    };
    let endpoint = endpoint(local, tls.is_some());
    let certificates = tls.is_some().then(|| state.join("tls"));
    let store = ground.store.clone();
    let gateway = compose::compose(config, ground, &endpoint)?;
    gateway.fence.restore().await?;

    let stop = CancellationToken::new();
    let readiness = Readiness::new(&["store", "engine"], SystemEnvironment.now());
    let mut tasks = JoinSet::new();
    tasks.spawn(health::keep_looking(
        readiness.clone(),
        gateway.fence.clone(),
        store,
        gateway.metrics.clone(),
        stop.clone(),
    ));
    listeners.serve(config, &gateway, readiness, tls, &stop, &mut tasks);
    if config.gateway.register {
        register(
            config,
            state,
            &endpoint,
            local.port(),
            certificates.as_deref(),
        );
    }
    announce(loaded, &endpoint);

    signals.first().await;
    tracing::info!("ending; running sandboxes are left as configured");
    notify::stopping();
    let ended = tokio::select! {
        ended = end(gateway, stop, tasks) => ended,
        () = signals.second() => Err(GatewayError::Interrupted),
    };
    tracing::info!("ended");
    ended
}

/// Stops accepting, lets what is in flight become durable, closes sessions; within the grace.
async fn end(
    gateway: Gateway,
    stop: CancellationToken,
    mut tasks: JoinSet<()>,
) -> Result<(), GatewayError> {
    let grace = gateway.shutdown_limit;
    let ending = async {
        stop.cancel();
        gateway.fence.shutdown().await;
        gateway.hub.shutdown().await;
        while tasks.join_next().await.is_some() {}
    };
    if tokio::time::timeout(grace, ending).await.is_err() {
        tracing::warn!(
            "not everything ended within {} seconds; what is durable is complete",
            grace.as_secs()
        );
    }
    Ok(())
}

/// The sockets, bound before anything is started: a port in use is found out while nothing has happened.
struct Listeners {
    api: TcpListener,
    api_address: SocketAddr,
    health: Option<TcpListener>,
    metrics: Option<TcpListener>,
    /// Both on one address.
    shared: bool,
}

impl Listeners {
    async fn bind(config: &Config) -> Result<Self, GatewayError> {
        let gateway = &config.gateway;
        let api = bind(gateway.bind_address, "bind_address").await?;
        let api_address = api.local_addr().map_err(GatewayError::Runtime)?;
        let (health, metrics) = (gateway.health_bind_address, gateway.metrics_bind_address);
        let shared = health.is_some() && health == metrics;
        Ok(Self {
            api,
            api_address,
            health: match health {
                Some(address) => Some(bind(address, "health_bind_address").await?),
                None => None,
            },
            metrics: match metrics {
                Some(address) if !shared => Some(bind(address, "metrics_bind_address").await?),
                _ => None,
            },
            shared,
        })
    }

    fn serve(
        self,
        config: &Config,
        gateway: &Gateway,
        readiness: Readiness,
        tls: Option<Arc<rustls::ServerConfig>>,
        stop: &CancellationToken,
        tasks: &mut JoinSet<()>,
    ) {
        let bounds = |connections: usize| ServeConfig {
            max_connections: connections,
            drain: DRAIN,
            ..ServeConfig::default()
        };
        let health = health::health_router(readiness);
        let metrics = health::metrics_router(gateway.metrics.clone());
        let most = usize::try_from(config.gateway.max_connections).unwrap_or(usize::MAX);
        tasks.spawn(serve(
            self.api,
            tls,
            gateway.router.clone().merge(health.clone()),
            bounds(most.min(tokio::sync::Semaphore::MAX_PERMITS)),
            stop.clone(),
        ));
        let pages = match self.shared {
            true => health.merge(metrics.clone()),
            false => health,
        };
        for (listener, router) in [(self.health, pages), (self.metrics, metrics)] {
            if let Some(listener) = listener {
                tasks.spawn(serve(listener, None, router, bounds(64), stop.clone()));
            }
        }
    }
}

/// How clients on this machine reach it.
fn endpoint(address: SocketAddr, tls: bool) -> String {
    let host = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
        ip => ip,
    };
    let scheme = if tls { "https" } else { "http" };
    format!("{scheme}://{}", SocketAddr::new(host, address.port()))
}

/// A convenience: that it fails is not a reason not to serve.
fn register(config: &Config, state: &Path, endpoint: &str, port: u16, certificates: Option<&Path>) {
    use pki::register::{Registered, Registration, register};
    let name = &config.gateway.name;
    if certificates.is_some() && config.gateway.tls.cert_path.is_some() {
        tracing::info!(
            "not registered for the local CLI: the certificates are not the gateway's own; use \
             `openshell gateway add`"
        );
        return;
    }
    let registered = places::user_config()
        .map_err(|error| error.to_string())
        .and_then(|config_dir| {
            register(Registration {
                config_dir: &config_dir,
                name,
                endpoint,
                port,
                state_dir: state,
                certificates,
            })
            .map_err(|error| error.to_string())
        });
    match registered {
        Ok(Registered::Unchanged) => {}
        Ok(Registered::Written { active: true }) => {
            tracing::info!(
                name,
                "registered for the local CLI; it is its active gateway"
            );
        }
        Ok(Registered::Written { active: false }) => {
            tracing::info!(
                name,
                "registered for the local CLI; choose it by `openshell gateway select {name}`"
            );
        }
        Ok(Registered::NotOurs) => tracing::warn!(
            name,
            "not registered for the local CLI: it knows another gateway of this name; remove that by \
             `openshell gateway remove {name}`, or give this one a --name of its own"
        ),
        Err(error) => tracing::warn!(error, "not registered for the local CLI"),
    }
}

fn announce(loaded: &Loaded, endpoint: &str) {
    let file = loaded
        .file
        .as_ref()
        .map_or_else(|| "none".to_owned(), |path| path.display().to_string());
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        endpoint,
        config = file,
        "serving"
    );
    notify::ready(&format!("serving on {endpoint}"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_on_this_machine_reach_a_wildcard_by_loopback() {
        let at = |address: &str, tls| endpoint(address.parse().unwrap(), tls);
        assert_eq!(at("0.0.0.0:7", true), "https://127.0.0.1:7");
        assert_eq!(at("[::]:7", true), "https://[::1]:7");
        assert_eq!(at("127.0.0.1:7", false), "http://127.0.0.1:7");
        assert_eq!(at("10.1.2.3:7", true), "https://10.1.2.3:7");
    }
}
