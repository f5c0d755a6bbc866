//! The gateway: does it answer, does it know us, and what does it say about its own host.

use openshell_proto::api::{GetCurrentUserRequest, HealthRequest, ServiceStatus};
use openshell_proto::plus;

use crate::connect::{Gateway, Target, check_endpoint};
use crate::error::CliError;
use crate::exit::Exit;
use crate::global::GlobalArgs;

use super::{Check, Verdict, port};

const NAME: &str = "gateway";
/// What the gateway says about its engine.
pub(super) const ENGINE: &str = "engine";

/// Asks it; where it does not answer, looks who sits on its port.
pub(super) async fn check(target: &Target, global: &GlobalArgs) -> Vec<Check> {
    let gateway = match Gateway::connect(global).await {
        Ok(gateway) => gateway,
        Err(error) => return not_reached(target, &error),
    };
    let health = match gateway.api().health(HealthRequest {}).await {
        Ok(health) => health.into_inner(),
        Err(status) => {
            return not_reached(
                target,
                &gateway.failed(format!("{} does not answer", target.label()), &status),
            );
        }
    };
    let mut checks = Vec::new();
    let seen = format!("{} answers, version {}", target.label(), health.version);
    checks.push(match health.status() {
        ServiceStatus::Unhealthy => Check::failed(
            NAME,
            format!("{seen}, and is unhealthy"),
            "see the checks below and its log",
        ),
        ServiceStatus::Degraded => Check::warning(
            NAME,
            format!("{seen}, and is degraded"),
            "see the checks below and its log",
        ),
        ServiceStatus::Healthy | ServiceStatus::Unspecified => Check::ok(NAME, seen),
    });
    match gateway
        .api()
        .get_current_user(GetCurrentUserRequest {})
        .await
    {
        Ok(user) => checks.push(Check::ok(
            "identity",
            format!("the gateway knows us as {:?}", user.into_inner().subject),
        )),
        Err(status) => {
            let error = gateway.failed("the gateway does not accept us", &status);
            checks.push(Check::failed(
                "identity",
                format!("{}: {}", error.what, error.why),
                error.hint,
            ));
            return checks;
        }
    }
    match gateway.plus().diagnose(plus::DiagnoseRequest {}).await {
        Ok(answer) => checks.extend(answer.into_inner().findings.into_iter().map(finding)),
        Err(status) => {
            let error = gateway.failed("the gateway does not tell about its host", &status);
            checks.push(Check::warning(
                ENGINE,
                format!("{}: {}", error.what, error.why),
                error.hint,
            ));
        }
    }
    checks
}

fn finding(finding: plus::Finding) -> Check {
    let verdict = match finding.status.as_str() {
        "ok" => Verdict::Ok,
        "warning" => Verdict::Warning,
        _ => Verdict::Failed,
    };
    Check::new(&finding.check, verdict, finding.message, finding.fix)
}

/// A gateway that is down and a port that belongs to somebody else look alike from afar.
fn not_reached(target: &Target, error: &CliError) -> Vec<Check> {
    let mut checks = vec![Check::failed(
        NAME,
        format!("{}: {}", error.what, error.why),
        error.hint.clone(),
    )];
    // A refused certificate came from the gateway itself.
    if error.exit == Exit::Denied && !error.why.contains("does not speak TLS") {
        return checks;
    }
    let Ok(uri) = check_endpoint(&target.endpoint) else {
        return checks;
    };
    let local = uri
        .host()
        .is_some_and(|h| matches!(h, "127.0.0.1" | "localhost" | "[::1]"));
    let number = uri.port_u16().unwrap_or(443);
    if !local {
        return checks;
    }
    if let Some(holder) = port::holder(number) {
        if !holder.label.starts_with("openshell-gatew") {
            checks.push(port::in_use(number, &holder));
        }
    } else {
        checks[0].fix =
            "start it: openshell-gateway (or: systemctl --user start openshell-gateway)".to_owned();
    }
    checks
}
