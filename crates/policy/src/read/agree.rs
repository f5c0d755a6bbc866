//! Endpoints for one host and one port, wherever they stand, must agree on what is done with a connection.

use std::collections::{BTreeSet, HashMap};

use super::Spot;
use crate::address::Network;
use crate::host::HostPattern;
use crate::model::Endpoint;
use crate::problem::{Findings, Place, why};

/// What was said first about a host and a port.
struct Said {
    path: String,
    at: Option<Place>,
    tls_skip: bool,
    allowed_ips: BTreeSet<Network>,
    allow_encoded_slash: bool,
}

/// What was said so far.
#[derive(Default)]
pub(super) struct Agreement {
    said: HashMap<(HostPattern, u16), Said>,
}

impl Agreement {
    pub(super) fn check(&mut self, endpoint: &Endpoint, spot: Spot<'_>, found: &mut Findings) {
        let Some(host) = &endpoint.host else {
            return;
        };
        let allowed_ips: BTreeSet<_> = endpoint.allowed_ips.iter().copied().collect();
        for port in &endpoint.ports {
            let key = (host.clone(), *port);
            let Some(said) = self.said.get(&key) else {
                let said = Said {
                    path: spot.path.to_owned(),
                    at: spot.at(),
                    tls_skip: endpoint.tls_skip,
                    allowed_ips: allowed_ips.clone(),
                    allow_encoded_slash: endpoint.allow_encoded_slash,
                };
                self.said.insert(key, said);
                continue;
            };
            let about = [
                ("tls", said.tls_skip == endpoint.tls_skip),
                ("allowed_ips", said.allowed_ips == allowed_ips),
                (
                    "allow_encoded_slash",
                    said.allow_encoded_slash == endpoint.allow_encoded_slash,
                ),
            ];
            for (key, _) in about.iter().filter(|(_, agrees)| !agrees) {
                let line = said
                    .at
                    .map_or_else(String::new, |at| format!(" (line {})", at.line));
                let message = format!(
                    "{host}:{port} is also in {}{line}, with another `{key}`",
                    said.path
                );
                spot.wrong(
                    found,
                    why(message).hint("one connection is treated in one way: let them agree"),
                );
            }
        }
    }
}
