//! Hosts: names as rules write them and as programs ask for them; exact, or with a wildcard as the first label.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::address;
use crate::problem::{Why, why};

/// The longest name that the domain name system has.
const LONGEST: usize = 253;

/// The name under which the machine of the gateway is known in a sandbox.
pub const GATEWAY_HOST: &str = "host.openshell.internal";

/// The host of a rule.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum HostPattern {
    /// This name.
    Name(String),
    /// `*.suffix`: one label before the suffix.
    OneLabel(String),
    /// `**.suffix`: one label or more before the suffix.
    Labels(String),
    /// This address.
    Address(IpAddr),
}

impl fmt::Display for HostPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::OneLabel(suffix) => write!(f, "*.{suffix}"),
            Self::Labels(suffix) => write!(f, "**.{suffix}"),
            Self::Address(address) => write!(f, "{address}"),
        }
    }
}

impl HostPattern {
    /// Reads a host of a rule.
    pub(crate) fn parse(text: &str) -> Result<Self, Why> {
        let text = text.to_ascii_lowercase();
        if text.contains("://") {
            return Err(why("a URL is not a host").hint("write the name alone: api.example.com"));
        }
        if let Some(address) = literal(&text) {
            return Self::address(address);
        }
        let (wild, name) = match text.split_once('.') {
            Some(("*", rest)) => (Some(false), rest),
            Some(("**", rest)) => (Some(true), rest),
            _ => (None, text.as_str()),
        };
        if name.contains('*') {
            return Err(why("`*` can only be the whole first label")
                .hint("write `*.example.com`, or one rule for each name"));
        }
        check_name(name)?;
        if name == "localhost" || name.ends_with(".localhost") {
            return Err(
                why("`localhost` is the sandbox itself, which needs no rule")
                    .hint(format!("the machine of the gateway is `{GATEWAY_HOST}`")),
            );
        }
        if address::is_metadata_name(name) {
            return Err(why("metadata services are never reached"));
        }
        let name = name.to_owned();
        match wild {
            None => Ok(Self::Name(name)),
            Some(_) if !name.contains('.') => Err(why(format!(
                "a wildcard needs two labels after it: `{text}` would be a whole top-level domain"
            ))),
            Some(false) => Ok(Self::OneLabel(name)),
            Some(true) => Ok(Self::Labels(name)),
        }
    }

    fn address(address: IpAddr) -> Result<Self, Why> {
        match address::never(address) {
            Some(kind) => Err(why(format!("{address} is {kind}, which is never reached"))),
            None => Ok(Self::Address(address)),
        }
    }

    /// Whether this is one host, not many.
    pub(crate) fn is_exact(&self) -> bool {
        matches!(self, Self::Name(_) | Self::Address(_))
    }
}

/// A host that a program asked for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Host {
    /// A name: lower case, no dot at its end.
    Name(String),
    /// An address.
    Address(IpAddr),
}

impl Host {
    /// Reads a host as a program gives it: an address with or without brackets, or a name.
    pub fn parse(text: &str) -> Option<Self> {
        let bare = text
            .strip_prefix('[')
            .and_then(|text| text.strip_suffix(']'))
            .unwrap_or(text);
        if let Some(address) = literal(bare) {
            return Some(Self::Address(address));
        }
        let name = text.strip_suffix('.').unwrap_or(text).to_ascii_lowercase();
        check_name(&name).ok().map(|()| Self::Name(name))
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::Address(address) => write!(f, "{address}"),
        }
    }
}

fn literal(text: &str) -> Option<IpAddr> {
    let v4 = text.parse::<Ipv4Addr>().map(IpAddr::V4);
    v4.or_else(|_| text.parse::<Ipv6Addr>().map(IpAddr::V6))
        .ok()
}

fn check_name(name: &str) -> Result<(), Why> {
    if name.is_empty() {
        return Err(why("the host is empty"));
    }
    if !name.is_ascii() {
        return Err(
            why("a name outside ASCII must be written in its ASCII form")
                .hint("the form that begins with `xn--`"),
        );
    }
    if let Some(bare) = name.strip_suffix('.') {
        return Err(why("a host has no dot at its end")
            .hint(format!("write `{}`", crate::shape::short(bare))));
    }
    if name.len() > LONGEST {
        return Err(why(format!("a name has at most {LONGEST} characters")));
    }
    if let Some((_, port)) = name.rsplit_once(':')
        && !port.is_empty()
        && port.bytes().all(|b| b.is_ascii_digit())
    {
        return Err(why("the port is a key of its own").hint(format!("add `port: {port}`")));
    }
    for label in name.split('.') {
        let edge = label.starts_with('-') || label.ends_with('-');
        let known =
            |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'-' | b'_');
        if label.is_empty() || label.len() > 63 || edge || !label.bytes().all(known) {
            return Err(why(format!(
                "`{}` is not a host name",
                crate::shape::short(name)
            )));
        }
    }
    // `127.1`, `0x7f.1` and `2130706433` are addresses to some programs.
    let last = name.rsplit('.').next().unwrap_or_default();
    let hex = last
        .strip_prefix("0x")
        .is_some_and(|rest| rest.bytes().all(|b| b.is_ascii_hexdigit()));
    if hex || last.bytes().all(|b| b.is_ascii_digit()) {
        return Err(why(format!(
            "`{}` is neither a name nor a whole address",
            crate::shape::short(name)
        ))
        .hint("write all four numbers of an address"));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
