//! Every key there is, with its default. `config/gateway.toml` documents them; a test holds the two together.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::unset;

/// The whole file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct File {
    pub(crate) openshell: Config,
}

/// `[openshell]`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Config {
    /// Of the file's format.
    pub(crate) version: u32,
    pub(crate) gateway: Gateway,
    pub(crate) lifecycle: Lifecycle,
    pub(crate) drivers: Drivers,
}

/// The one format that this version reads.
pub(super) const VERSION: u32 = 2;

impl Default for Config {
    fn default() -> Self {
        Self {
            version: VERSION,
            gateway: Gateway::default(),
            lifecycle: Lifecycle::default(),
            drivers: Drivers::default(),
        }
    }
}

/// `[openshell.gateway]`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Gateway {
    /// What clients call it; also the name under which it registers itself.
    pub(crate) name: String,
    pub(crate) bind_address: SocketAddr,
    #[serde(with = "unset")]
    pub(crate) health_bind_address: Option<SocketAddr>,
    #[serde(with = "unset")]
    pub(crate) metrics_bind_address: Option<SocketAddr>,
    pub(crate) log_level: LogLevel,
    pub(crate) log_format: LogFormat,
    #[serde(with = "unset")]
    pub(crate) compute_driver: Option<DriverKind>,
    #[serde(with = "unset")]
    pub(crate) state_dir: Option<PathBuf>,
    #[serde(with = "unset")]
    pub(crate) runtime_dir: Option<PathBuf>,
    pub(crate) server_sans: Vec<String>,
    pub(crate) disable_tls: bool,
    pub(crate) max_connections: u32,
    pub(crate) register: bool,
    pub(crate) tls: Tls,
    pub(crate) auth: Auth,
}

impl Default for Gateway {
    fn default() -> Self {
        Self {
            name: "openshell".to_owned(),
            bind_address: SocketAddr::from(([127, 0, 0, 1], 17670)),
            health_bind_address: None,
            metrics_bind_address: None,
            log_level: LogLevel::default(),
            log_format: LogFormat::default(),
            compute_driver: None,
            state_dir: None,
            runtime_dir: None,
            server_sans: Vec::new(),
            disable_tls: false,
            max_connections: 1024,
            register: true,
            tls: Tls::default(),
            auth: Auth::default(),
        }
    }
}

/// `[openshell.gateway.tls]`: certificates of one's own, all three or none.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Tls {
    #[serde(with = "unset")]
    pub(crate) cert_path: Option<PathBuf>,
    #[serde(with = "unset")]
    pub(crate) key_path: Option<PathBuf>,
    #[serde(with = "unset")]
    pub(crate) client_ca_path: Option<PathBuf>,
}

/// `[openshell.gateway.auth]`
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Auth {
    pub(crate) allow_unauthenticated_users: bool,
}

/// `[openshell.lifecycle]`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Lifecycle {
    pub(crate) restore: Restore,
    pub(crate) on_shutdown: OnShutdown,
    pub(crate) stop_grace_secs: u64,
    pub(crate) adoption_window_secs: u64,
    pub(crate) engine_outage_limit_secs: u64,
    pub(crate) gateway_outage_limit_secs: u64,
    pub(crate) provisioning_timeout_secs: u64,
    pub(crate) containment_limit_secs: u64,
    pub(crate) restore_concurrency: u32,
    pub(crate) shutdown_grace_secs: u64,
}

impl Default for Lifecycle {
    fn default() -> Self {
        Self {
            restore: Restore::default(),
            on_shutdown: OnShutdown::default(),
            stop_grace_secs: 10,
            adoption_window_secs: 30,
            engine_outage_limit_secs: 120,
            gateway_outage_limit_secs: 900,
            provisioning_timeout_secs: 300,
            containment_limit_secs: 15,
            restore_concurrency: 16,
            shutdown_grace_secs: 10,
        }
    }
}

/// `[openshell.drivers]`
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Drivers {
    pub(crate) docker: Driver,
    pub(crate) podman: Driver,
}

/// The image of a sandbox that names none.
const DEFAULT_IMAGE: &str = "docker.io/library/debian:12-slim";

/// `[openshell.drivers.docker]` and `[openshell.drivers.podman]`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Driver {
    #[serde(with = "unset")]
    pub(crate) socket_path: Option<PathBuf>,
    pub(crate) default_image: String,
    pub(crate) image_pull_policy: PullPolicy,
    /// The namespace: gateways with different ones share an engine without seeing each other.
    pub(crate) sandbox_label: String,
    pub(crate) sandbox_pids_limit: u32,
    pub(crate) supervisor_network: String,
    #[serde(with = "unset")]
    pub(crate) grpc_endpoint: Option<String>,
    pub(crate) stop_timeout_secs: u64,
}

impl Drivers {
    /// What is configured for an engine.
    pub(crate) const fn of(&self, kind: DriverKind) -> &Driver {
        match kind {
            DriverKind::Docker => &self.docker,
            DriverKind::Podman => &self.podman,
        }
    }
}

impl Default for Driver {
    fn default() -> Self {
        Self {
            socket_path: None,
            default_image: DEFAULT_IMAGE.to_owned(),
            image_pull_policy: PullPolicy::default(),
            sandbox_label: "openshell".to_owned(),
            sandbox_pids_limit: 2048,
            supervisor_network: "host".to_owned(),
            grpc_endpoint: None,
            stop_timeout_secs: 60,
        }
    }
}

/// A closed set of words, with the words for error messages.
macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $word:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
        pub(crate) enum $name {
            $($(#[$vdoc])* #[serde(rename = $word)] $variant),+
        }

        impl FromStr for $name {
            type Err = String;
            fn from_str(text: &str) -> Result<Self, String> {
                match text {
                    $($word => Ok(Self::$variant),)+
                    _ => Err(format!("expected one of {}", [$($word),+].join(", "))),
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(match self { $(Self::$variant => $word),+ })
            }
        }
    };
}

words!(
    /// What is logged.
    LogLevel {
        Error = "error",
        Warn = "warn",
        /// The usual.
        #[default]
        Info = "info",
        Debug = "debug",
        Trace = "trace",
    }
);

words!(
    /// How it is logged.
    LogFormat {
        /// Text on a terminal, JSON otherwise.
        #[default]
        Auto = "auto",
        Text = "text",
        Json = "json",
    }
);

words!(
    /// The engines.
    DriverKind {
        #[default]
        Docker = "docker",
        Podman = "podman",
    }
);

words!(
    /// What is relaunched after an infrastructure loss.
    Restore {
        /// What was meant to run.
        #[default]
        Intent = "intent",
        /// Only what its restart policy would restart.
        Policy = "policy",
        None = "none",
    }
);

words!(
    /// What a clean shutdown does to the runtimes.
    OnShutdown {
        /// They go on.
        #[default]
        Keep = "keep",
        Stop = "stop",
    }
);

words!(
    /// When images are pulled.
    PullPolicy {
        Always = "always",
        #[default]
        IfNotPresent = "if_not_present",
        Never = "never",
    }
);
