//! Whether a program may open a connection, and how the connection is then treated.

use std::net::IpAddr;

use super::missing::Missing;
use super::request::{Request, Verdict};
use super::{CompiledEndpoint, Engine, request};
use crate::address::{self, Leave, Refusal};
use crate::host::{GATEWAY_HOST, Host, HostPattern};
use crate::model::Protocol;

/// A connection that a program wants.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Connection<'a> {
    /// Where to: the name that was asked for, else the address.
    pub host: &'a Host,
    /// The port.
    pub port: u16,
    /// The program, by its absolute path as the kernel tells it.
    pub binary: &'a str,
    /// The programs that started it, the nearest first.
    pub ancestors: &'a [&'a str],
}

/// How the bytes of a connection are treated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Inspection {
    /// Passed on as they are.
    None,
    /// HTTP is looked into, in TLS or not; anything else is passed on.
    IfHttp,
    /// Only HTTP passes, each request held against rules.
    Requests,
}

/// A connection that is allowed: what is behind it may still be refused.
#[derive(Clone, Debug)]
pub struct Admitted<'e> {
    engine: &'e Engine,
    host: Host,
    port: u16,
    binary: String,
    /// Never empty.
    endpoints: Vec<usize>,
}

impl Engine {
    /// Decides about a connection.
    pub fn connection(&self, asked: Connection<'_>) -> Result<Admitted<'_>, Missing> {
        let about = self.about(asked.host);
        let fits = |index: &usize| {
            self.endpoints[*index].endpoint.ports.contains(&asked.port)
                && self.rule_of(*index).covers(asked.binary, asked.ancestors)
        };
        let endpoints: Vec<usize> = about.iter().copied().filter(fits).collect();
        if endpoints.is_empty() {
            return Err(Missing::of(self, asked, &about));
        }
        Ok(Admitted {
            engine: self,
            host: asked.host.clone(),
            port: asked.port,
            binary: asked.binary.to_owned(),
            endpoints,
        })
    }
}

impl<'e> Admitted<'e> {
    pub(super) fn endpoints(&self) -> impl Iterator<Item = (&'e str, &'e CompiledEndpoint)> + '_ {
        let engine = self.engine;
        self.endpoints.iter().map(move |index| {
            (
                engine.rule_of(*index).key.as_str(),
                &engine.endpoints[*index],
            )
        })
    }

    /// The keys of the rules that allow it, each once, in order.
    pub fn rules(&self) -> Vec<&'e str> {
        let mut keys: Vec<_> = self.endpoints().map(|(key, _)| key).collect();
        keys.sort_unstable();
        keys.dedup();
        keys
    }

    /// What logs call the rules that allow it.
    pub fn names(&self) -> Vec<&'e str> {
        let engine = self.engine;
        let names = self
            .endpoints
            .iter()
            .map(|i| engine.rule_of(*i).name.as_str());
        let mut names: Vec<_> = names.collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// How its bytes are treated: if any endpoint inspects, the connection is inspected.
    pub fn inspection(&self) -> Inspection {
        let one = |endpoint: &CompiledEndpoint| match endpoint.endpoint.protocol {
            Protocol::Rest | Protocol::Websocket => Inspection::Requests,
            Protocol::Unsaid if !endpoint.endpoint.tls_skip => Inspection::IfHttp,
            Protocol::Unsaid | Protocol::Tcp => Inspection::None,
        };
        let mut strictest = Inspection::None;
        for (_, endpoint) in self.endpoints() {
            match one(endpoint) {
                Inspection::Requests => return Inspection::Requests,
                Inspection::IfHttp => strictest = Inspection::IfHttp,
                Inspection::None => {}
            }
        }
        strictest
    }

    /// Whether it may be dialled at an address that its name resolved to: one endpoint that gives leave is enough.
    pub fn address(&self, address: IpAddr) -> Result<(), Refusal> {
        let gateway_host = matches!(&self.host, Host::Name(name) if name == GATEWAY_HOST);
        let mut refusal = Refusal::NotAllowed(address);
        for (_, compiled) in self.endpoints() {
            let host = compiled.endpoint.host.as_ref();
            let leave = Leave {
                exact: host.is_some_and(HostPattern::is_exact),
                allowed: &compiled.endpoint.allowed_ips,
                gateway_host: gateway_host && host.is_some_and(HostPattern::is_exact),
            };
            match address::admit(address, leave) {
                Ok(()) => return Ok(()),
                Err(why) => refusal = why,
            }
        }
        Err(refusal)
    }

    /// Decides about a request on it.
    pub fn request(&self, request: Request<'_>) -> Verdict<'e> {
        request::decide(self, request)
    }

    /// Where it goes.
    pub const fn host(&self) -> &Host {
        &self.host
    }

    /// The port.
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// The program that opened it.
    pub fn binary(&self) -> &str {
        &self.binary
    }
}
