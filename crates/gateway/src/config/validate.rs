//! What is wrong with a configuration as a whole. Looks at the values only, never at the machine.

use std::time::Duration;

use openshell_core::WorkspaceName;

use super::ConfigError;
use super::model::{Config, Driver, DriverKind, Lifecycle};

/// Nobody wants to wait for longer than this; a larger number is a slip of the unit.
const LONGEST: Duration = Duration::from_secs(7 * 24 * 3600);

/// All complaints at once, each with what to do.
pub(super) fn validate(config: &Config) -> Result<(), ConfigError> {
    let mut wrong = Vec::new();
    gateway(config, &mut wrong);
    lifecycle(&config.lifecycle, &mut wrong);
    for kind in [DriverKind::Docker, DriverKind::Podman] {
        driver(kind, config.drivers.of(kind), &mut wrong);
    }
    if wrong.is_empty() {
        Ok(())
    } else {
        Err(ConfigError::Invalid(wrong))
    }
}

fn gateway(config: &Config, wrong: &mut Vec<String>) {
    let gateway = &config.gateway;
    if !is_name(&gateway.name, 64) {
        wrong.push(format!(
            "`openshell.gateway.name`: {:?} is not a name; use 1 to 64 of a-z, A-Z, 0-9, - and _, \
             beginning with a letter or a digit",
            gateway.name
        ));
    }
    if gateway.disable_tls && !gateway.bind_address.ip().is_loopback() {
        wrong.push(format!(
            "`openshell.gateway.disable_tls`: plaintext is allowed on a loopback address only, and \
             bind_address is {}; bind 127.0.0.1, or leave TLS on",
            gateway.bind_address
        ));
    }
    if gateway.auth.allow_unauthenticated_users && !gateway.bind_address.ip().is_loopback() {
        wrong.push(format!(
            "`openshell.gateway.auth.allow_unauthenticated_users`: is allowed on a loopback address \
             only, and bind_address is {}; give each client a certificate instead",
            gateway.bind_address
        ));
    }
    let tls = &gateway.tls;
    let given = [&tls.cert_path, &tls.key_path, &tls.client_ca_path];
    let count = given.iter().filter(|path| path.is_some()).count();
    if count != 0 && count != given.len() {
        wrong.push(
            "`openshell.gateway.tls`: cert_path, key_path and client_ca_path belong together; set all \
             three, or none for certificates made by the gateway"
                .to_owned(),
        );
    }
    if gateway.disable_tls && count != 0 {
        wrong.push(
            "`openshell.gateway.tls`: certificates are set although disable_tls is true; remove one \
             or the other"
                .to_owned(),
        );
    }
    if gateway.max_connections == 0 {
        wrong.push("`openshell.gateway.max_connections`: must be at least 1".to_owned());
    }
    if let Some(bad) = gateway.server_sans.iter().find(|san| !is_san(san)) {
        wrong.push(format!(
            "`openshell.gateway.server_sans`: {bad:?} is neither an IP address nor a host name"
        ));
    }
}

fn lifecycle(lifecycle: &Lifecycle, wrong: &mut Vec<String>) {
    let bounds = [
        ("stop_grace_secs", lifecycle.stop_grace_secs, 0),
        ("adoption_window_secs", lifecycle.adoption_window_secs, 1),
        (
            "engine_outage_limit_secs",
            lifecycle.engine_outage_limit_secs,
            1,
        ),
        (
            "gateway_outage_limit_secs",
            lifecycle.gateway_outage_limit_secs,
            0,
        ),
        (
            "provisioning_timeout_secs",
            lifecycle.provisioning_timeout_secs,
            1,
        ),
        (
            "containment_limit_secs",
            lifecycle.containment_limit_secs,
            1,
        ),
        ("shutdown_grace_secs", lifecycle.shutdown_grace_secs, 1),
    ];
    for (name, value, least) in bounds {
        if value < least || value > LONGEST.as_secs() {
            wrong.push(format!(
                "`openshell.lifecycle.{name}`: {value} is out of range; use {least} to {} seconds",
                LONGEST.as_secs()
            ));
        }
    }
    if !(1..=256).contains(&lifecycle.restore_concurrency) {
        wrong.push(format!(
            "`openshell.lifecycle.restore_concurrency`: {} is out of range; use 1 to 256",
            lifecycle.restore_concurrency
        ));
    }
}

fn driver(kind: DriverKind, driver: &Driver, wrong: &mut Vec<String>) {
    let label = &driver.sandbox_label;
    if label.contains("--") || WorkspaceName::new(label.clone()).is_err() {
        wrong.push(format!(
            "`openshell.drivers.{kind}.sandbox_label`: {label:?} is not a label; use a-z, 0-9 and single \
             dashes, not at either end"
        ));
    }
    if driver.default_image.trim().is_empty() {
        wrong.push(format!(
            "`openshell.drivers.{kind}.default_image`: must name an image, such as \
             docker.io/library/debian:12-slim"
        ));
    }
    if driver.sandbox_pids_limit < 16 {
        wrong.push(format!(
            "`openshell.drivers.{kind}.sandbox_pids_limit`: {} is too small to run anything; use 16 \
             or more",
            driver.sandbox_pids_limit
        ));
    }
    if driver.supervisor_network.is_empty() {
        wrong.push(format!(
            "`openshell.drivers.{kind}.supervisor_network`: must name a network of the engine, such \
             as host"
        ));
    }
    if driver.stop_timeout_secs == 0 || driver.stop_timeout_secs > 3600 {
        wrong.push(format!(
            "`openshell.drivers.{kind}.stop_timeout_secs`: {} is out of range; use 1 to 3600",
            driver.stop_timeout_secs
        ));
    }
    if let Some(endpoint) = &driver.grpc_endpoint
        && !(endpoint.starts_with("https://") || endpoint.starts_with("http://"))
    {
        wrong.push(format!(
            "`openshell.drivers.{kind}.grpc_endpoint`: {endpoint:?} is not an address; write \
             https://HOST:PORT"
        ));
    }
}

fn is_name(text: &str, longest: usize) -> bool {
    text.len() <= longest
        && text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_')
}

/// An IP address, or a DNS name (a leading `*.` is allowed).
pub(crate) fn is_san(text: &str) -> bool {
    let name = text.strip_prefix("*.").unwrap_or(text);
    text.parse::<std::net::IpAddr>().is_ok()
        || (!name.is_empty()
            && name.len() <= 253
            && name.split('.').all(|label| {
                (1..=63).contains(&label.len())
                    && label
                        .chars()
                        .all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_')
            }))
}
