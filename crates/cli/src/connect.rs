//! One connection to one gateway: which one, with whose certificates, and in words when it fails.

use std::fs;
use std::time::Duration;

use openshell_proto::api::open_shell_client::OpenShellClient;
use openshell_proto::datamodel::{WorkspaceSelector, workspace_selector};
use openshell_proto::plus::open_shell_plus_client::OpenShellPlusClient;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity};

use crate::certs;
use crate::error::{CliError, CliResult, io_kind, tls_error};
use crate::exit::Exit;
use crate::global::GlobalArgs;
use crate::output::say;
use crate::registry::{Registry, TlsFiles};

/// How long a gateway may take to accept a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// A page of a thousand records fits; what a sandbox prints comes in far smaller pieces.
const MAX_MESSAGE: usize = 32 << 20;
/// Flow-control windows: enough to keep a loopback busy, little enough to hold a fast sender back.
const WINDOW: u32 = 1 << 20;

/// A gateway, before anything has been sent to it.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    /// The name it is registered under, if it is.
    pub(crate) name: Option<String>,
    /// `https://host:port` or `http://host:port`.
    pub(crate) endpoint: String,
    /// The client's identity, for https.
    pub(crate) tls: Option<TlsFiles>,
}

/// A connected gateway.
#[derive(Clone, Debug)]
pub(crate) struct Gateway {
    channel: Channel,
    workspace: String,
    /// What it was reached by.
    pub(crate) target: Target,
}

impl Target {
    /// Endpoint flag, then named gateway, then the active one.
    pub(crate) fn resolve(global: &GlobalArgs) -> CliResult<Self> {
        let registry = Registry::of_user()?;
        if let Some(endpoint) = &global.gateway_endpoint {
            return Self::at_endpoint(&registry, global, endpoint);
        }
        let name = match &global.gateway {
            Some(name) => name.clone(),
            None => registry.active().ok_or_else(none_active)?,
        };
        let entry = registry.load(&name)?;
        Self::new(
            Some(name),
            &entry.metadata.gateway_endpoint,
            TlsFiles::in_dir(&entry.dir),
        )
    }

    /// An endpoint given by hand takes the certificates of the gateway named beside it, else of the one
    /// registered under the same endpoint, else of the active one.
    fn at_endpoint(registry: &Registry, global: &GlobalArgs, endpoint: &str) -> CliResult<Self> {
        let same = |e: &crate::registry::Entry| {
            e.metadata.gateway_endpoint.trim_end_matches('/') == endpoint
        };
        let entry = match &global.gateway {
            Some(name) => Some(registry.load(name)?),
            None => registry
                .list()
                .0
                .into_iter()
                .find(same)
                .or_else(|| registry.load(&registry.active()?).ok()),
        };
        let dir = entry.map(|e| e.dir).unwrap_or_default();
        Self::new(None, endpoint, TlsFiles::in_dir(&dir))
    }

    fn new(name: Option<String>, endpoint: &str, tls: TlsFiles) -> CliResult<Self> {
        let uri = check_endpoint(endpoint)?;
        let https = uri.scheme_str() == Some("https");
        Ok(Self {
            name,
            endpoint: endpoint.trim_end_matches('/').to_owned(),
            tls: https.then_some(tls),
        })
    }

    /// As people know it.
    pub(crate) fn label(&self) -> String {
        match &self.name {
            Some(name) => format!("gateway {name:?} at {}", self.endpoint),
            None => format!("the gateway at {}", self.endpoint),
        }
    }

    async fn dial(&self) -> CliResult<Channel> {
        let bad = |e: tonic::transport::Error| {
            CliError::local(format!("{} cannot be used", self.label())).why(deepest(&e))
        };
        let mut endpoint = Endpoint::from_shared(self.endpoint.clone())
            .map_err(bad)?
            .connect_timeout(CONNECT_TIMEOUT)
            .tcp_nodelay(true)
            .initial_stream_window_size(WINDOW)
            .initial_connection_window_size(4 * WINDOW)
            .http2_keep_alive_interval(Duration::from_secs(20))
            .keep_alive_timeout(Duration::from_secs(10));
        if let Some(files) = &self.tls {
            endpoint = endpoint
                .tls_config(tls_config(files)?)
                .map_err(|e| self.unfit(files, &e))?;
        }
        // The endpoint's own limit is for TCP only; whoever accepts and then says nothing is not a gateway.
        match tokio::time::timeout(2 * CONNECT_TIMEOUT, endpoint.connect()).await {
            Ok(connected) => connected.map_err(|e| self.explain(&e)),
            Err(_) => Err(self.silent()),
        }
    }

    /// Our certificate files are there, and do not go together.
    fn unfit(&self, files: &TlsFiles, error: &tonic::transport::Error) -> CliError {
        CliError::new(
            Exit::Denied,
            format!("the client certificate for {} cannot be used", self.label()),
        )
        .why(format!(
            "{} and {} do not make a pair: {}",
            files.cert.display(),
            files.key.display(),
            deepest(error)
        ))
        .hint("register the gateway again with `openshell gateway add` and the files that belong together")
    }

    /// Something accepts connections there, and does not speak.
    fn silent(&self) -> CliError {
        CliError::new(
            Exit::Unreachable,
            format!("{} cannot be reached", self.label()),
        )
        .why("something else seems to listen there: it accepts connections and says nothing")
        .hint("check the address with `openshell gateway info`, or run `openshell doctor`")
    }

    /// Why a connection could not be had, and what to do about it.
    fn explain(&self, error: &tonic::transport::Error) -> CliError {
        let what = format!("{} cannot be reached", self.label());
        if let Some(tls) = tls_error(error) {
            return CliError::new(Exit::Denied, what)
                .why(certs::explain_tls(tls))
                .hint("run `openshell doctor` to check the certificates; if the gateway made new ones, register it again with `openshell gateway add`");
        }
        let (why, hint) = match io_kind(error) {
            Some(std::io::ErrorKind::ConnectionRefused) => (
                "nothing listens there".to_owned(),
                "start the gateway (`openshell-gateway`), or run `openshell doctor`",
            ),
            Some(std::io::ErrorKind::TimedOut) => (
                format!("no answer within {} seconds", CONNECT_TIMEOUT.as_secs()),
                "check the address with `openshell gateway info`, or run `openshell doctor`",
            ),
            _ => (
                deepest(error),
                "check the address with `openshell gateway info`, or run `openshell doctor`",
            ),
        };
        CliError::new(Exit::Unreachable, what).why(why).hint(hint)
    }
}

impl Gateway {
    /// Connects to the gateway that the flags, the environment or the files name.
    pub(crate) async fn connect(global: &GlobalArgs) -> CliResult<Self> {
        let target = Target::resolve(global)?;
        if global.verbose > 0 {
            say(format_args!("using {}", target.label()));
        }
        let channel = target.dial().await?;
        Ok(Self {
            channel,
            workspace: global.workspace.clone(),
            target,
        })
    }

    /// The public API.
    pub(crate) fn api(&self) -> OpenShellClient<Channel> {
        OpenShellClient::new(self.channel.clone()).max_decoding_message_size(MAX_MESSAGE)
    }

    /// What lies beside it.
    pub(crate) fn plus(&self) -> OpenShellPlusClient<Channel> {
        OpenShellPlusClient::new(self.channel.clone()).max_decoding_message_size(MAX_MESSAGE)
    }

    /// The workspace that commands act in.
    pub(crate) fn workspace(&self) -> &str {
        &self.workspace
    }

    /// The same, for a request.
    pub(crate) fn scope(&self) -> Option<WorkspaceSelector> {
        Some(WorkspaceSelector {
            selection: Some(workspace_selector::Selection::Workspace(
                self.workspace.clone(),
            )),
        })
    }

    /// A failed call, in words. Why a gateway closed a connection over a certificate does not always come
    /// through HTTP/2, so it is asked once more, below it.
    pub(crate) fn failed(&self, what: impl Into<String>, status: &tonic::Status) -> CliError {
        let error = CliError::rpc(what, status);
        let broken = std::error::Error::source(status).is_some();
        let Some(files) = self.target.tls.as_ref().filter(|_| broken) else {
            return error;
        };
        let refused = || {
            let uri = check_endpoint(&self.target.endpoint).ok()?;
            certs::refused(uri.host()?, uri.port_u16().unwrap_or(443), files)
        };
        match certs::invalid_now(&files.cert).or_else(refused) {
            Some(why) => CliError::new(Exit::Denied, error.what).why(why).hint(RENEW),
            None => error,
        }
    }
}

const RENEW: &str = "make new certificates on the gateway's host (`openshell-gateway generate-certs`) and register it again with `openshell gateway add`";

/// A fresh key that makes a mutation idempotent.
pub(crate) fn request_id() -> String {
    uuid::Uuid::new_v4().to_string()
}

fn none_active() -> CliError {
    CliError::new(Exit::Unreachable, "no gateway is selected")
        .why("no --gateway, no OPENSHELL_GATEWAY, and no active gateway in the configuration")
        .hint("start one on this machine (`openshell-gateway`; it registers itself), or `openshell gateway add URL`")
}

/// `https://`, or `http://` on loopback: a plaintext connection over a network is never made.
pub(crate) fn check_endpoint(endpoint: &str) -> CliResult<tonic::transport::Uri> {
    let refuse = |why: &str| {
        CliError::usage(format!("{endpoint:?} is not a gateway address"))
            .why(why)
            .hint("write https://HOST:PORT, for example https://127.0.0.1:17670")
    };
    let uri: tonic::transport::Uri = endpoint.parse().map_err(|_| refuse("it is not a URL"))?;
    let host = uri.host().ok_or_else(|| refuse("it has no host"))?;
    match uri.scheme_str() {
        Some("https") => Ok(uri),
        Some("http") if is_loopback(host) => Ok(uri),
        Some("http") => Err(refuse(
            "plaintext is only for a gateway on this machine (loopback)",
        )),
        _ => Err(refuse("it must begin with https://")),
    }
}

fn is_loopback(host: &str) -> bool {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost"
        || bare
            .parse::<std::net::IpAddr>()
            .is_ok_and(|ip| ip.is_loopback())
}

/// Certificates that were never given are not an error here: the gateway will say what it wants.
fn tls_config(files: &TlsFiles) -> CliResult<ClientTlsConfig> {
    let read = |path: &std::path::Path| {
        fs::read(path).map_err(|e| {
            CliError::new(Exit::Denied, "the client certificate cannot be used")
                .why(format!("{}: {e}", path.display()))
                .hint("register the gateway with its certificates: `openshell gateway add URL --ca … --cert … --key …`")
        })
    };
    Ok(ClientTlsConfig::new()
        .ca_certificate(Certificate::from_pem(read(&files.ca)?))
        .identity(Identity::from_pem(read(&files.cert)?, read(&files.key)?)))
}

/// The last cause of a chain: the one that says something.
fn deepest(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        text = cause.to_string();
        next = cause.source();
    }
    text
}

#[cfg(test)]
mod tests;
