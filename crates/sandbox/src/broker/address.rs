//! Socket addresses as programs hand them to the kernel. Pure.

use std::ffi::OsStr;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

/// No address is longer (`struct sockaddr_storage`).
pub(super) const MAX_LENGTH: usize = 128;

/// Where a call would lead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Destination {
    /// Stays on `lo`.
    Loopback,
    /// Would leave the sandbox.
    Remote(SocketAddr),
    /// A Unix socket in the file system.
    Path(PathBuf),
    /// Nothing to decide: no path, no address, or too short; the kernel knows what to say.
    Kernel,
}

fn number(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

/// Reads it.
pub(super) fn parse(bytes: &[u8]) -> Destination {
    let Some(family) = bytes.get(..2).and_then(|b| b.try_into().ok()) else {
        return Destination::Kernel;
    };
    let address = match i32::from(u16::from_ne_bytes(family)) {
        libc::AF_INET => internet(bytes),
        libc::AF_INET6 => internet6(bytes),
        libc::AF_UNIX => return local(bytes),
        _ => None,
    };
    match address {
        None => Destination::Kernel,
        Some(address) if stays(address.ip()) => Destination::Loopback,
        Some(address) => Destination::Remote(address),
    }
}

fn internet(bytes: &[u8]) -> Option<SocketAddr> {
    let octets: [u8; 4] = bytes.get(4..8)?.try_into().ok()?;
    Some(SocketAddr::new(
        Ipv4Addr::from(octets).into(),
        number(bytes, 2)?,
    ))
}

fn internet6(bytes: &[u8]) -> Option<SocketAddr> {
    let octets: [u8; 16] = bytes.get(8..24)?.try_into().ok()?;
    Some(SocketAddr::new(
        Ipv6Addr::from(octets).into(),
        number(bytes, 2)?,
    ))
}

fn local(bytes: &[u8]) -> Destination {
    let name = bytes.get(2..).unwrap_or_default();
    // Unnamed, or abstract: those end at the network namespace, which is ours alone.
    if name.first().is_none_or(|b| *b == 0) {
        return Destination::Kernel;
    }
    let end = name.iter().position(|b| *b == 0).unwrap_or(name.len());
    Destination::Path(PathBuf::from(OsStr::from_bytes(&name[..end])))
}

/// The unspecified address means this host, so it stays too.
fn stays(ip: IpAddr) -> bool {
    let ip = ip.to_canonical();
    ip.is_loopback() || ip.is_unspecified()
}
