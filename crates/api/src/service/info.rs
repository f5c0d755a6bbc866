//! Health, the caller, the gateway itself, and the diagnosis of its host.

use openshell_core::{Reason, SandboxRecord};
use openshell_lifecycle::LifecycleFence;
use openshell_lifecycle::driver::Role;
use openshell_proto::{api, plus};
use tonic::Status;

use super::Inner;
use crate::auth::Caller;

/// So many of a kind are named.
const SHOWN: usize = 10;

impl<F: LifecycleFence> Inner<F> {
    /// That it answers is the news; what it depends on is in `GetGatewayInfo`.
    pub(super) fn health(&self) -> api::HealthResponse {
        api::HealthResponse {
            status: api::ServiceStatus::Healthy.into(),
            version: self.config.version.clone(),
        }
    }

    pub(super) async fn gateway_info(&self) -> api::GetGatewayInfoResponse {
        let (engine, store) = tokio::join!(self.fence.engine(), self.store.check());
        let status = match (&engine, &store) {
            (Ok(_), Ok(())) => api::ServiceStatus::Healthy,
            (Err(_), Ok(())) => api::ServiceStatus::Degraded,
            (_, Err(_)) => api::ServiceStatus::Unhealthy,
        };
        let drivers = engine.into_iter().map(|e| api::ComputeDriverInfo {
            name: e.driver.to_owned(),
            capabilities: Some(api::ComputeDriverCapabilities {
                driver_name: e.driver.to_owned(),
                driver_version: e.version,
                resource_capabilities: Some(api::ResourceCapabilities {
                    cpu: Some(api::CpuResourceCapabilities {
                        limit_supported: e.limits_supported,
                    }),
                    memory: Some(api::MemoryResourceCapabilities {
                        limit_supported: e.limits_supported,
                    }),
                    gpu: None,
                }),
            }),
        });
        api::GetGatewayInfoResponse {
            status: status.into(),
            gateway_version: self.config.version.clone(),
            compute_drivers: drivers.collect(),
            extensions: Vec::new(),
        }
    }

    pub(super) async fn diagnose(&self) -> plus::DiagnoseResponse {
        let engine = match self.fence.engine().await {
            Ok(e) => finding(
                "engine",
                "ok",
                format!("{} {} answers (API {})", e.driver, e.version, e.api_version),
                "",
            ),
            Err(e) => finding(
                "engine",
                "failed",
                e.message,
                "start the engine, and let the gateway's user reach its socket",
            ),
        };
        let store = match self.store.check().await {
            Ok(()) => finding("store", "ok", "the store can be written".to_owned(), ""),
            Err(e) => finding(
                "store",
                "failed",
                e.to_string(),
                "free disk space and make the store's directory writable for the gateway's user",
            ),
        };
        plus::DiagnoseResponse {
            findings: vec![engine, store, self.awaited(), self.leftovers().await],
        }
    }

    /// Runs that are not proven at the moment, and what each waits for.
    fn awaited(&self) -> plus::Finding {
        const CHECK: &str = "sandboxes";
        let records = self.fence.list();
        let waits = |record: &SandboxRecord| {
            let reason = record.life.condition.reason;
            matches!(
                reason,
                Reason::SupervisorNotConnected | Reason::EngineUnreachable
            )
        };
        let waiting: Vec<_> = records.iter().filter(|record| waits(record)).collect();
        if waiting.is_empty() {
            let none = "none waits for its supervisor or its engine";
            return finding(CHECK, "ok", none.to_owned(), "");
        }
        let named = some(&waiting, |r| {
            format!("{:?} ({})", r.meta.name.as_str(), r.life.condition.message)
        });
        finding(
            CHECK,
            "warning",
            format!("{} of {} wait: {named}", waiting.len(), records.len()),
            "nothing, for a minute; if it lasts, `openshell sandbox events NAME` tells what happened",
        )
    }

    async fn leftovers(&self) -> plus::Finding {
        const CHECK: &str = "leftovers";
        let found = match self.fence.leftovers().await {
            Ok(found) => found,
            Err(e) => {
                return finding(
                    CHECK,
                    "failed",
                    e.message,
                    "try again when the engine answers",
                );
            }
        };
        if found.is_empty() {
            let none = "the engine holds nothing of ours that no sandbox knows";
            return finding(CHECK, "ok", none.to_owned(), "");
        }
        let names = some(&found, |o| match o.role {
            Role::Workload => o.name.clone(),
            Role::Supervisor => format!("{} (supervisor)", o.name),
        });
        let ids: Vec<&str> = found
            .iter()
            .take(SHOWN)
            .map(|o| o.container.short())
            .collect();
        finding(
            CHECK,
            "warning",
            format!("containers without a sandbox: {names}"),
            &format!(
                "if they are not yours, remove them by id: {}",
                ids.join(" ")
            ),
        )
    }
}

fn finding(check: &str, status: &str, message: String, fix: &str) -> plus::Finding {
    plus::Finding {
        check: check.to_owned(),
        status: status.to_owned(),
        message,
        fix: fix.to_owned(),
    }
}

/// Who calls, as authentication found out.
pub(super) fn current_user<T>(
    request: &tonic::Request<T>,
) -> Result<api::GetCurrentUserResponse, Status> {
    match request.extensions().get() {
        Some(Caller::User {
            subject,
            display_name,
        }) => Ok(api::GetCurrentUserResponse {
            subject: subject.clone(),
            display_name: display_name.clone(),
            roles: vec!["admin".to_owned()],
            scopes: Vec::new(),
            identity_provider: "mtls".to_owned(),
        }),
        _ => Err(Status::unauthenticated("no user was authenticated")),
    }
}

/// The first few by name, and how many more there are.
fn some<T>(all: &[T], name: impl Fn(&T) -> String) -> String {
    let mut names: Vec<String> = all.iter().take(SHOWN).map(name).collect();
    if all.len() > SHOWN {
        names.push(format!("and {} more", all.len() - SHOWN));
    }
    names.join(", ")
}
