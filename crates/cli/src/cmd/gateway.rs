//! `gateway add|list|select|remove|info`: the gateways that this user knows.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueHint};
use clap_complete::ArgValueCandidates;
use openshell_proto::api::GetGatewayInfoRequest;
use serde::Serialize;

use crate::complete;
use crate::connect::{Gateway, check_endpoint};
use crate::error::{CliError, CliResult};
use crate::exit::Exit;
use crate::global::GlobalArgs;
use crate::output::{OutputArgs, Table, fields, print, say};
use crate::registry::{Metadata, Registry, TlsFiles};

use super::status::health_name;

/// `openshell gateway`
#[derive(Debug, Args)]
#[command(subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct GatewayArgs {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Register a gateway; its certificates are copied
    #[command(
        after_help = "Examples:\n  openshell gateway add https://127.0.0.1:17670 --ca ca.crt --cert tls.crt --key tls.key\n  openshell gateway add http://127.0.0.1:17670 --name test"
    )]
    Add(AddArgs),
    /// List the registered gateways
    #[command(
        alias = "ls",
        after_help = "Examples:\n  openshell gateway list\n  openshell gateway list -o json"
    )]
    List(OutputArgs),
    /// Use this gateway when none is named
    #[command(after_help = "Examples:\n  openshell gateway select local")]
    Select(NameArg),
    /// Forget a gateway; the gateway itself is not touched
    #[command(alias = "rm", after_help = "Examples:\n  openshell gateway remove old")]
    Remove(NameArg),
    /// What a gateway says about itself
    #[command(
        after_help = "Examples:\n  openshell gateway info\n  openshell gateway info -g other -o yaml"
    )]
    Info(OutputArgs),
}

#[derive(Debug, Args)]
struct AddArgs {
    /// https://HOST:PORT, or http:// on this machine
    #[arg(value_name = "URL")]
    url: String,
    /// The name to register it under [default: the host]
    #[arg(long)]
    name: Option<String>,
    /// The authority that signed the gateway's certificate
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires_all = ["cert", "key"])]
    ca: Option<PathBuf>,
    /// Our certificate
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires_all = ["ca", "key"])]
    cert: Option<PathBuf>,
    /// Its key
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires_all = ["ca", "cert"])]
    key: Option<PathBuf>,
    /// Do not select it
    #[arg(long)]
    no_select: bool,
}

#[derive(Debug, Args)]
struct NameArg {
    /// The registered name
    #[arg(add = ArgValueCandidates::new(complete::gateways))]
    name: String,
}

#[derive(Serialize)]
struct GatewayView {
    name: String,
    endpoint: String,
    active: bool,
    auth_mode: Option<String>,
}

#[derive(Serialize)]
struct GatewayList {
    gateways: Vec<GatewayView>,
    next_page_token: &'static str,
}

impl GatewayArgs {
    /// Does what was asked.
    pub(crate) async fn run(self, global: &GlobalArgs) -> CliResult<Exit> {
        match self.verb {
            Verb::Add(args) => args.run()?,
            Verb::List(output) => list(output)?,
            Verb::Select(NameArg { name }) => {
                Registry::of_user()?.select(&name)?;
                say(format_args!("gateway {name:?} is used from now on"));
            }
            Verb::Remove(NameArg { name }) => {
                Registry::of_user()?.remove(&name)?;
                say(format_args!("gateway {name:?} is forgotten"));
            }
            Verb::Info(output) => info(global, output).await?,
        }
        Ok(Exit::Done)
    }
}

impl AddArgs {
    fn run(self) -> CliResult<()> {
        let uri = check_endpoint(&self.url)?;
        let https = uri.scheme_str() == Some("https");
        let tls = match (self.ca, self.cert, self.key) {
            (Some(ca), Some(cert), Some(key)) => Some(TlsFiles { ca, cert, key }),
            _ => None,
        };
        if https && tls.is_none() {
            return Err(CliError::usage("an https gateway needs certificates")
                .hint("give --ca, --cert and --key; `openshell-gateway generate-certs` makes them on the gateway's host"));
        }
        let host = uri.host().unwrap_or("gateway");
        let name = self.name.unwrap_or_else(|| default_name(host));
        let metadata = Metadata {
            name: name.clone(),
            gateway_endpoint: self.url.trim_end_matches('/').to_owned(),
            auth_mode: Some(if https { "mtls" } else { "none" }.to_owned()),
            other: Default::default(),
        };
        let registry = Registry::of_user()?;
        registry.add(&name, &metadata, tls.as_ref().filter(|_| https))?;
        if self.no_select {
            say(format_args!("gateway {name:?} is registered"));
        } else {
            registry.select(&name)?;
            say(format_args!(
                "gateway {name:?} is registered and used from now on"
            ));
        }
        Ok(())
    }
}

fn default_name(host: &str) -> String {
    let bare = host.trim_matches(['[', ']']);
    if bare == "localhost"
        || bare
            .parse::<std::net::IpAddr>()
            .is_ok_and(|ip| ip.is_loopback())
    {
        return "local".to_owned();
    }
    bare.replace(':', "-")
}

fn list(output: OutputArgs) -> CliResult<()> {
    let registry = Registry::of_user()?;
    let active = registry.active();
    let (entries, errors) = registry.list();
    for error in errors {
        say(error);
    }
    let view = GatewayList {
        gateways: entries
            .into_iter()
            .map(|e| GatewayView {
                active: active.as_ref() == Some(&e.name),
                name: e.name,
                endpoint: e.metadata.gateway_endpoint,
                auth_mode: e.metadata.auth_mode,
            })
            .collect(),
        next_page_token: "",
    };
    let names = || {
        view.gateways
            .iter()
            .map(|g| g.name.as_str())
            .collect::<Vec<_>>()
            .join("\n")
    };
    let table = || {
        let mut table = Table::new(&["NAME", "ENDPOINT", "AUTH", "ACTIVE"]);
        for g in &view.gateways {
            let active = if g.active { "yes" } else { "" };
            let auth = g.auth_mode.clone().unwrap_or_default();
            table.row([g.name.clone(), g.endpoint.clone(), auth, active.to_owned()]);
        }
        table.render()
    };
    print(&view, output.output, names, table)
}

#[derive(Serialize)]
struct InfoView {
    name: Option<String>,
    endpoint: String,
    health: &'static str,
    version: String,
    compute_drivers: Vec<DriverInfo>,
    extensions: Vec<ExtensionInfo>,
}

#[derive(Serialize)]
struct DriverInfo {
    name: String,
    driver: String,
    version: String,
    cpu_limit: bool,
    memory_limit: bool,
}

#[derive(Serialize)]
struct ExtensionInfo {
    name: String,
    implementation: String,
    version: String,
}

async fn info(global: &GlobalArgs, output: OutputArgs) -> CliResult<()> {
    let gateway = Gateway::connect(global).await?;
    let answer = gateway
        .api()
        .get_gateway_info(GetGatewayInfoRequest {})
        .await
        .map_err(|s| {
            gateway.failed(
                format!("{} does not tell about itself", gateway.target.label()),
                &s,
            )
        })?
        .into_inner();
    let view = InfoView {
        name: gateway.target.name.clone(),
        endpoint: gateway.target.endpoint.clone(),
        health: health_name(answer.status()),
        version: answer.gateway_version,
        compute_drivers: answer
            .compute_drivers
            .into_iter()
            .map(|d| {
                let c = d.capabilities.unwrap_or_default();
                let r = c.resource_capabilities.unwrap_or_default();
                DriverInfo {
                    name: d.name,
                    driver: c.driver_name,
                    version: c.driver_version,
                    cpu_limit: r.cpu.is_some_and(|c| c.limit_supported),
                    memory_limit: r.memory.is_some_and(|m| m.limit_supported),
                }
            })
            .collect(),
        extensions: answer
            .extensions
            .into_iter()
            .map(|e| ExtensionInfo {
                name: e.configured_name,
                implementation: e.implementation_name,
                version: e.implementation_version,
            })
            .collect(),
    };
    let table = || {
        let drivers = view
            .compute_drivers
            .iter()
            .map(|d| format!("{} {}", d.name, d.version));
        fields(&[
            ("Gateway", view.name.clone().unwrap_or_default()),
            ("Endpoint", view.endpoint.clone()),
            ("Health", view.health.to_owned()),
            ("Version", view.version.clone()),
            ("Compute drivers", drivers.collect::<Vec<_>>().join(", ")),
        ])
    };
    print(
        &view,
        output.output,
        || view.name.clone().unwrap_or_default(),
        table,
    )
}
