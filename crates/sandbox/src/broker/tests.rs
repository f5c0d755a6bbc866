//! Addresses and callers.

use super::address::{Destination, parse};
use super::caller::{memory, parent_in};
use std::path::PathBuf;

use super::*;

fn v4(ip: [u8; 4], port: u16) -> Vec<u8> {
    let mut bytes = (libc::AF_INET as u16).to_ne_bytes().to_vec();
    bytes.extend(port.to_be_bytes());
    bytes.extend(ip);
    bytes.extend([0; 8]);
    bytes
}

fn v6(ip: std::net::Ipv6Addr, port: u16) -> Vec<u8> {
    let mut bytes = (libc::AF_INET6 as u16).to_ne_bytes().to_vec();
    bytes.extend(port.to_be_bytes());
    bytes.extend([0; 4]);
    bytes.extend(ip.octets());
    bytes.extend([0; 4]);
    bytes
}

fn local(name: &[u8]) -> Vec<u8> {
    let mut bytes = (libc::AF_UNIX as u16).to_ne_bytes().to_vec();
    bytes.extend(name);
    bytes
}

#[test]
fn what_stays_inside_is_told_from_what_leaves() {
    for ip in [[127, 0, 0, 1], [127, 9, 9, 9], [0, 0, 0, 0]] {
        assert_eq!(parse(&v4(ip, 80)), Destination::Loopback);
    }
    for ip in ["::1", "::", "::ffff:127.0.0.1"] {
        assert_eq!(parse(&v6(ip.parse().unwrap(), 80)), Destination::Loopback);
    }
    for (bytes, want) in [
        (v4([192, 0, 2, 7], 443), "192.0.2.7:443"),
        (v6("2001:db8::1".parse().unwrap(), 53), "[2001:db8::1]:53"),
        (
            v6("::ffff:192.0.2.7".parse().unwrap(), 1),
            "[::ffff:192.0.2.7]:1",
        ),
    ] {
        assert_eq!(parse(&bytes), Destination::Remote(want.parse().unwrap()));
    }
}

#[test]
fn unix_sockets_are_looked_at_only_if_they_have_a_path() {
    assert_eq!(
        parse(&local(b"/run/x\0junk")),
        Destination::Path("/run/x".into())
    );
    assert_eq!(parse(&local(b"\0abstract")), Destination::Kernel);
    assert_eq!(parse(&local(b"")), Destination::Kernel);
}

#[test]
fn no_bytes_at_all_panic() {
    for length in 0..=address::MAX_LENGTH {
        for family in 0..=40u16 {
            let mut bytes = vec![0xff; length];
            for (to, from) in bytes.iter_mut().zip(family.to_ne_bytes()) {
                *to = from;
            }
            let _any = parse(&bytes);
        }
    }
}

#[test]
fn the_parent_is_found_behind_any_name() {
    assert_eq!(parent_in("12 (a) b) R) S 7 12 12"), Some(7));
    assert_eq!(parent_in("nonsense"), None);
}

#[test]
fn memory_is_copied_through_proc() {
    let secret = *b"openshell";
    let pid = i32::try_from(std::process::id()).unwrap();
    let copy = memory(pid, secret.as_ptr() as u64, secret.len()).unwrap();
    assert_eq!(copy, secret);
    assert!(memory(pid, 0, 8).is_err());
}

#[test]
fn a_socket_says_what_it_speaks() {
    use std::os::fd::{AsRawFd as _, RawFd};
    let pid = i32::try_from(std::process::id()).unwrap();
    let of = |fd: RawFd| caller::protocol(pid, u64::try_from(fd).unwrap());
    let datagram = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let datagram6 = rustix::net::socket(
        rustix::net::AddressFamily::INET6,
        rustix::net::SocketType::DGRAM,
        None,
    );
    let stream = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    assert_eq!(of(datagram.as_raw_fd()).as_deref(), Some("UDP"));
    if let Ok(socket) = datagram6 {
        assert_eq!(of(socket.as_raw_fd()).as_deref(), Some("UDPv6"));
    }
    assert_eq!(of(stream.as_raw_fd()).as_deref(), Some("TCP"));
    let file = std::fs::File::open("/dev/null").unwrap();
    assert_eq!(of(file.as_raw_fd()), None);
    assert_eq!(of(RawFd::MAX), None);
}

#[test]
fn a_path_leads_where_it_leads_for_the_caller() {
    let mut other = std::process::Command::new("/bin/sleep")
        .arg("100")
        .current_dir("/usr")
        .spawn()
        .unwrap();
    let pid = i32::try_from(other.id()).unwrap();
    let links = tempfile::tempdir().unwrap();
    let link = |name: &str, to: &str| {
        let path = links.path().join(name);
        std::os::unix::fs::symlink(to, &path).unwrap();
        path
    };
    let roads = [
        PathBuf::from("bin"),
        PathBuf::from("/proc/self/cwd/bin"),
        PathBuf::from("/proc/thread-self/cwd/../usr/./bin"),
        link("a", "/proc/self/cwd").join("bin"),
        link("b", "a/bin"),
    ];
    for road in roads {
        let real = caller::resolve(pid, &road);
        assert_eq!(real, Some(PathBuf::from("/usr/bin")), "{road:?}");
    }
    let endless = link("c", "c");
    assert_eq!(caller::resolve(pid, &endless), None);
    assert_eq!(unix(pid, &endless), Answer::Fail(libc::ENOENT));
    assert_eq!(unix(pid, Path::new("/usr/bin")), Answer::Continue);
    other.kill().unwrap();
    other.wait().unwrap();
}
