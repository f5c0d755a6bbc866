//! `status`, `whoami`, `version`.

use clap::Args;
use openshell_proto::api::{
    GetCurrentUserRequest, GetGatewayInfoRequest, HealthRequest, ServiceStatus,
};
use serde::Serialize;
use tonic::Code;

use crate::connect::Gateway;
use crate::error::{CliError, CliResult};
use crate::exit::Exit;
use crate::global::GlobalArgs;
use crate::output::{OutputArgs, fields, print, say};

/// `openshell status`
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  openshell status\n  openshell status -o json")]
pub(crate) struct StatusArgs {
    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Serialize)]
struct StatusView {
    gateway: Option<String>,
    endpoint: String,
    status: &'static str,
    health: &'static str,
    authentication: &'static str,
    user: Option<String>,
    version: String,
    compute_drivers: Vec<DriverView>,
}

#[derive(Serialize)]
struct DriverView {
    name: String,
    version: String,
}

impl StatusArgs {
    /// Asks for health, identity and drivers, all on one connection.
    pub(crate) async fn run(self, global: &GlobalArgs) -> CliResult<Exit> {
        let gateway = Gateway::connect(global).await?;
        let (mut a, mut b, mut c) = (gateway.api(), gateway.api(), gateway.api());
        let (health, user, info) = tokio::join!(
            a.health(HealthRequest {}),
            b.get_current_user(GetCurrentUserRequest {}),
            c.get_gateway_info(GetGatewayInfoRequest {}),
        );
        let health = health
            .map_err(|s| gateway.failed(format!("{} does not answer", gateway.target.label()), &s))?
            .into_inner();
        let (authentication, user, denied) = match user {
            Ok(user) => ("Authenticated", Some(user.into_inner().subject), None),
            Err(s) if matches!(s.code(), Code::Unauthenticated | Code::PermissionDenied) => (
                "Failed",
                None,
                Some(gateway.failed("the gateway does not accept us", &s)),
            ),
            Err(_) => ("Unverified", None, None),
        };
        let info = info.map(tonic::Response::into_inner).unwrap_or_default();
        // That it answers says nothing of what it needs.
        let condition = match info.status() {
            ServiceStatus::Unspecified => health.status(),
            known => known,
        };
        let view = StatusView {
            gateway: gateway.target.name.clone(),
            endpoint: gateway.target.endpoint.clone(),
            status: "Connected",
            health: health_name(condition),
            authentication,
            user,
            version: health.version.clone(),
            compute_drivers: info
                .compute_drivers
                .into_iter()
                .map(|d| DriverView {
                    version: d.capabilities.map(|c| c.driver_version).unwrap_or_default(),
                    name: d.name,
                })
                .collect(),
        };
        print(
            &view,
            self.output.output,
            || view.status.to_owned(),
            || view.table(condition),
        )?;
        if let Some(denied) = denied {
            return Err(denied);
        }
        match condition {
            ServiceStatus::Unhealthy | ServiceStatus::Degraded => {
                say("hint: `openshell doctor` says what is wrong and how to mend it");
                Ok(Exit::Unreachable)
            }
            _ => Ok(Exit::Done),
        }
    }
}

impl StatusView {
    fn table(&self, condition: ServiceStatus) -> String {
        let drivers: Vec<String> = self
            .compute_drivers
            .iter()
            .map(|d| format!("{} {}", d.name, d.version).trim().to_owned())
            .collect();
        // Who may not ask is told of none either.
        let drivers = match (drivers.is_empty(), condition) {
            (true, ServiceStatus::Degraded) => "none; the engine does not answer".to_owned(),
            (true, _) => "none".to_owned(),
            (false, _) => drivers.join(", "),
        };
        fields(&[
            ("Gateway", self.gateway.clone().unwrap_or_default()),
            ("Endpoint", self.endpoint.clone()),
            ("Status", self.status.to_owned()),
            ("Health", self.health.to_owned()),
            ("Authentication", self.authentication.to_owned()),
            ("User", self.user.clone().unwrap_or_default()),
            ("Version", self.version.clone()),
            ("Compute drivers", drivers),
        ])
    }
}

/// Health as people read it.
pub(crate) const fn health_name(status: ServiceStatus) -> &'static str {
    match status {
        ServiceStatus::Healthy => "Healthy",
        ServiceStatus::Degraded => "Degraded",
        ServiceStatus::Unhealthy => "Unhealthy",
        ServiceStatus::Unspecified => "Unknown",
    }
}

/// `openshell whoami`
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  openshell whoami\n  openshell whoami -o json")]
pub(crate) struct WhoamiArgs {
    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Serialize)]
struct UserView {
    subject: String,
    display_name: String,
    identity_provider: String,
    roles: Vec<String>,
    scopes: Vec<String>,
}

impl WhoamiArgs {
    /// Asks the gateway.
    pub(crate) async fn run(self, global: &GlobalArgs) -> CliResult<Exit> {
        let gateway = Gateway::connect(global).await?;
        let user = gateway
            .api()
            .get_current_user(GetCurrentUserRequest {})
            .await
            .map_err(|s| gateway.failed("the gateway does not say who we are", &s))?
            .into_inner();
        let view = UserView {
            subject: user.subject,
            display_name: user.display_name,
            identity_provider: user.identity_provider,
            roles: user.roles,
            scopes: user.scopes,
        };
        let table = || {
            fields(&[
                ("Subject", view.subject.clone()),
                ("Name", view.display_name.clone()),
                ("Identity provider", view.identity_provider.clone()),
                ("Roles", view.roles.join(", ")),
                ("Scopes", view.scopes.join(", ")),
            ])
        };
        print(&view, self.output.output, || view.subject.clone(), table)?;
        Ok(Exit::Done)
    }
}

/// `openshell version`
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  openshell version\n  openshell --version    # this program only, without asking the gateway"
)]
pub(crate) struct VersionArgs {
    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Serialize)]
struct VersionView {
    client: &'static str,
    gateway: Option<String>,
}

impl VersionArgs {
    /// A gateway that does not answer is no failure here.
    pub(crate) async fn run(self, global: &GlobalArgs) -> CliResult<Exit> {
        let answer = gateway_version(global).await;
        let view = VersionView {
            client: env!("CARGO_PKG_VERSION"),
            gateway: answer.as_ref().ok().cloned(),
        };
        let gateway = match &answer {
            Ok(version) => version.clone(),
            Err(e) => format!("unknown ({})", e.what),
        };
        let table = || fields(&[("Client", view.client.to_owned()), ("Gateway", gateway)]);
        print(&view, self.output.output, || view.client.to_owned(), table)?;
        Ok(Exit::Done)
    }
}

async fn gateway_version(global: &GlobalArgs) -> Result<String, CliError> {
    let gateway = Gateway::connect(global).await?;
    let health = gateway.api().health(HealthRequest {}).await;
    health
        .map(|h| h.into_inner().version)
        .map_err(|s| gateway.failed("the gateway does not answer", &s))
}
