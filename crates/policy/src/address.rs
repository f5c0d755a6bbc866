//! Addresses after a name was resolved: which are never reached, which need leave, and networks that give it.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::problem::{Why, why};

/// Why an address is never reached, whatever a policy says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Never {
    /// The machine itself.
    Loopback,
    /// The link: whoever is on it, among them metadata services.
    LinkLocal,
    /// A metadata service of a cloud.
    Metadata,
    /// No address at all, which some systems take for the machine itself.
    Unspecified,
    /// Many machines.
    Multicast,
    /// Not given to anybody.
    Reserved,
    /// An IPv4 address in the clothes of IPv6.
    Mapped,
}

impl fmt::Display for Never {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Loopback => "a loopback address",
            Self::LinkLocal => "a link-local address",
            Self::Metadata => "the address of a metadata service",
            Self::Unspecified => "an unspecified address",
            Self::Multicast => "a multicast address",
            Self::Reserved => "a reserved address",
            Self::Mapped => "an IPv4 address written as IPv6",
        })
    }
}

/// Why an address must not be dialled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// Never reached.
    Never(IpAddr, Never),
    /// Not among the `allowed_ips` of the endpoints.
    NotAllowed(IpAddr),
    /// Private, and no exact host and no `allowed_ips` speaks for it.
    Private(IpAddr),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Never(address, kind) => write!(f, "{address} is {kind}, which is never reached"),
            Self::NotAllowed(address) => write!(f, "{address} is not among the allowed_ips"),
            Self::Private(address) => write!(
                f,
                "{address} is private: it needs an exact host or allowed_ips"
            ),
        }
    }
}

/// The metadata services of clouds that are not on the link.
const METADATA: [IpAddr; 4] = [
    // Alibaba.
    IpAddr::V4(Ipv4Addr::new(100, 100, 100, 200)),
    // Azure.
    IpAddr::V4(Ipv4Addr::new(168, 63, 129, 16)),
    // Oracle, which also has one on the link.
    IpAddr::V4(Ipv4Addr::new(192, 0, 0, 192)),
    // Amazon.
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254)),
];

pub(crate) fn is_metadata_name(name: &str) -> bool {
    matches!(
        name,
        "metadata.google.internal" | "metadata.goog" | "instance-data.ec2.internal"
    )
}

/// Whether an address is one that is never reached.
pub fn never(address: IpAddr) -> Option<Never> {
    if METADATA.contains(&address) {
        return Some(Never::Metadata);
    }
    match address {
        IpAddr::V4(address) => never_v4(address),
        IpAddr::V6(address) => never_v6(address),
    }
}

fn never_v4(address: Ipv4Addr) -> Option<Never> {
    let [first, ..] = address.octets();
    match address {
        Ipv4Addr::BROADCAST => Some(Never::Reserved),
        a if a == Ipv4Addr::new(169, 254, 169, 254) => Some(Never::Metadata),
        a if a.is_loopback() => Some(Never::Loopback),
        a if a.is_link_local() => Some(Never::LinkLocal),
        // All of 0.0.0.0/8: some systems take any of it for themselves.
        _ if first == 0 => Some(Never::Unspecified),
        a if a.is_multicast() => Some(Never::Multicast),
        _ if first >= 240 => Some(Never::Reserved),
        _ => None,
    }
}

fn never_v6(address: Ipv6Addr) -> Option<Never> {
    let [first, ..] = address.segments();
    match address {
        Ipv6Addr::LOCALHOST => Some(Never::Loopback),
        Ipv6Addr::UNSPECIFIED => Some(Never::Unspecified),
        a if a.is_multicast() => Some(Never::Multicast),
        _ if first & 0xffc0 == 0xfe80 => Some(Never::LinkLocal),
        // Site-local, given up long ago.
        _ if first & 0xffc0 == 0xfec0 => Some(Never::Reserved),
        a => inner_v4(a),
    }
}

/// An IPv4 address in an IPv6 one. Mapped and compatible forms and translated ones are refused for what they are:
/// a name that resolves to one means the IPv4 address, and can say so.
fn inner_v4(address: Ipv6Addr) -> Option<Never> {
    let segments = address.segments();
    let mapped = matches!(
        segments,
        [0, 0, 0, 0, 0, 0xffff, ..] | [0, 0, 0, 0, 0, 0, ..]
    ) || matches!(segments, [0, 0, 0, 0, 0xffff, 0, ..]);
    let translated = matches!(segments, [0x64, 0xff9b, ..]);
    let tunnelled = matches!(segments, [0x2002, ..] | [0x2001, 0, ..]);
    (mapped || translated || tunnelled).then_some(Never::Mapped)
}

/// Whether an address belongs to somebody's own network: reached only by leave.
pub fn is_private(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => {
            let [a, b, c, _] = address.octets();
            address.is_private()
                || address.is_documentation()
                // Carriers' networks, protocol assignments, benchmarks.
                || (a == 100 && b & 0xc0 == 64)
                || (a == 192 && b == 0 && c == 0)
                || (a == 198 && b & 0xfe == 18)
        }
        IpAddr::V6(address) => {
            let [first, second, ..] = address.segments();
            first & 0xfe00 == 0xfc00 || (first == 0x2001 && second == 0xdb8)
        }
    }
}

/// A network, or one address.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Network {
    base: IpAddr,
    prefix: u8,
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.prefix == width(self.base) {
            return write!(f, "{}", self.base);
        }
        write!(f, "{}/{}", self.base, self.prefix)
    }
}

const fn width(address: IpAddr) -> u8 {
    match address {
        IpAddr::V4(_) => 32,
        IpAddr::V6(_) => 128,
    }
}

/// All bits from the left, so that the two families are alike.
fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u128::from(u32::from(address)) << 96,
        IpAddr::V6(address) => u128::from(address),
    }
}

const fn mask(prefix: u8) -> u128 {
    match prefix {
        0 => 0,
        prefix => u128::MAX << (128 - prefix as u32),
    }
}

impl Network {
    /// Reads `10.0.0.0/8` or `10.1.2.3`.
    pub(crate) fn parse(text: &str) -> Result<Self, Why> {
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix)),
            None => (text, None),
        };
        let not = || {
            why(format!(
                "`{}` is neither an address nor a network",
                crate::shape::short(text)
            ))
        };
        let base: IpAddr = address.parse().map_err(|_| not())?;
        let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        let prefix = match prefix {
            None => width(base),
            Some(text) if digits(text) => text.parse().map_err(|_| not())?,
            Some(_) => return Err(not()),
        };
        if prefix > width(base) {
            return Err(why(format!(
                "a network of this kind has a prefix of at most {}",
                width(base)
            )));
        }
        let network = Self {
            base: truncate(base, prefix),
            prefix,
        };
        if network.base != base {
            return Err(
                why(format!("{base} is not the first address of its network"))
                    .hint(format!("write `{network}`")),
            );
        }
        network.reachable()?;
        Ok(network)
    }

    /// A network is refused if nothing in it could ever be reached.
    fn reachable(self) -> Result<(), Why> {
        let last = match self.base {
            IpAddr::V4(base) => {
                let ones = u32::MAX.checked_shr(self.prefix.into()).unwrap_or(0);
                IpAddr::V4((u32::from(base) | ones).into())
            }
            IpAddr::V6(base) => IpAddr::V6((u128::from(base) | !mask(self.prefix)).into()),
        };
        match (never(self.base), never(last)) {
            (Some(first), Some(second)) if first == second => {
                Err(why(format!("{self} is {first}, which is never reached")))
            }
            _ => Ok(()),
        }
    }

    /// Whether an address is in it.
    pub fn contains(&self, address: IpAddr) -> bool {
        address.is_ipv4() == self.base.is_ipv4()
            && bits(address) & mask(self.prefix) == bits(self.base)
    }
}

fn truncate(address: IpAddr, prefix: u8) -> IpAddr {
    let kept = bits(address) & mask(prefix);
    match address {
        IpAddr::V4(_) => {
            let high = u32::try_from(kept >> 96).unwrap_or_default();
            IpAddr::V4(high.into())
        }
        IpAddr::V6(_) => IpAddr::V6(kept.into()),
    }
}

/// What an endpoint says about the addresses behind it.
#[derive(Clone, Copy, Debug)]
pub struct Leave<'a> {
    /// The host is one name or address, which the owner has written down.
    pub exact: bool,
    /// The networks that the owner has written down; none: any public address.
    pub allowed: &'a [Network],
    /// The host is the machine of the gateway: its loopback is what is meant, and nothing else.
    pub gateway_host: bool,
}

/// Decides about one address, after the name was resolved and before it is dialled.
pub fn admit(address: IpAddr, leave: Leave<'_>) -> Result<(), Refusal> {
    if leave.gateway_host && address.is_loopback() {
        return Ok(());
    }
    if let Some(kind) = never(address) {
        return Err(Refusal::Never(address, kind));
    }
    if !leave.allowed.is_empty() {
        let allowed = leave
            .allowed
            .iter()
            .any(|network| network.contains(address));
        return if allowed {
            Ok(())
        } else {
            Err(Refusal::NotAllowed(address))
        };
    }
    if is_private(address) && !leave.exact {
        return Err(Refusal::Private(address));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
