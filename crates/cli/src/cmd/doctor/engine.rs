//! The engines' sockets: is one there, may we, does it answer, is it what it should be, is it new enough. Of the two
//! engines one is enough.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use openshell_core::engine::{NotASocket, OLDEST_API, PODMAN_COMPONENT, Sockets};
use serde::Deserialize;

use super::{Check, Verdict};

/// An engine that needs longer is not well.
const PATIENCE: Duration = Duration::from_secs(3);
/// More than any engine says about itself.
const MAX_ANSWER: u64 = 1 << 20;

/// What is particular to an engine.
pub(super) struct Kind {
    /// The check's name.
    pub(super) name: &'static str,
    title: &'static str,
    oldest: &'static str,
    install: &'static str,
    start: &'static str,
    permission: &'static str,
    log: &'static str,
}

pub(super) const DOCKER: Kind = Kind {
    name: "docker",
    title: "Docker",
    oldest: "Docker Engine 20.10",
    install: "apt-get install docker.io && systemctl start docker",
    start: "systemctl start docker (or: dockerd &)",
    permission: "add the user to the group that owns it: sudo usermod -aG docker $USER, then log in again",
    log: "journalctl -u docker",
};

pub(super) const PODMAN: Kind = Kind {
    name: "podman",
    title: "Podman",
    oldest: "Podman 4",
    install: "apt-get install podman && systemctl --user start podman.socket",
    start: "systemctl --user start podman.socket (or: podman system service --time=0 &)",
    permission: "use this user's own Podman: systemctl --user start podman.socket",
    log: "journalctl --user -u podman",
};

#[derive(Deserialize)]
struct Version {
    #[serde(rename = "Version")]
    version: String,
    #[serde(rename = "ApiVersion")]
    api: String,
    #[serde(rename = "Components", default)]
    components: Vec<Component>,
}

#[derive(Deserialize)]
struct Component {
    #[serde(rename = "Name", default)]
    name: String,
}

/// Looks at both, where the gateway looks.
pub(super) fn check() -> Vec<Check> {
    let variable = |name: &str| std::env::var(name).ok();
    let uid = rustix::process::getuid().as_raw();
    enough(
        one(&PODMAN, Sockets::podman(variable, uid)),
        one(&DOCKER, Sockets::docker(variable)),
    )
}

fn one(kind: &Kind, sockets: Result<Sockets, NotASocket>) -> (Check, bool) {
    match sockets {
        Ok(sockets) => (at(kind, sockets.pick(Path::exists)), sockets.chosen()),
        Err(refused) => (
            Check::warning(kind.name, format!("{refused}; not checked"), ""),
            true,
        ),
    }
}

/// One that is well is enough: of the other nothing is said, unless it is there or somebody named it.
pub(super) fn enough(podman: (Check, bool), docker: (Check, bool)) -> Vec<Check> {
    let well = |check: &Check| check.status == Verdict::Ok;
    let some_is_well = well(&podman.0) || well(&docker.0);
    let both = [podman, docker].into_iter();
    both.filter_map(|(mut check, named)| {
        if some_is_well && check.status == Verdict::Failed {
            if check.message.starts_with(ABSENT) && !named {
                return None;
            }
            check.status = Verdict::Warning;
        }
        Some(check)
    })
    .collect()
}

const ABSENT: &str = "there is no engine";

/// Looks at one socket.
pub(super) fn at(kind: &Kind, path: &Path) -> Check {
    let shown = path.display();
    match ask(path) {
        Ok(version) => judge(kind, path, &version),
        Err(e) => match e.kind() {
            io::ErrorKind::NotFound => Check::failed(
                kind.name,
                format!("{ABSENT}: {shown} does not exist"),
                format!("install and start it: {}", kind.install),
            ),
            io::ErrorKind::PermissionDenied => Check::failed(
                kind.name,
                format!("this user may not use {shown}"),
                kind.permission,
            ),
            io::ErrorKind::ConnectionRefused => Check::failed(
                kind.name,
                format!("the engine is down: nothing listens at {shown}"),
                format!("start it: {}", kind.start),
            ),
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => Check::failed(
                kind.name,
                format!(
                    "the engine at {shown} does not answer within {} s",
                    PATIENCE.as_secs()
                ),
                format!("look at its log ({}) and restart it", kind.log),
            ),
            _ => Check::failed(
                kind.name,
                format!("the engine at {shown} cannot be used: {e}"),
                format!("look at its log ({})", kind.log),
            ),
        },
    }
}

fn judge(kind: &Kind, path: &Path, version: &Version) -> Check {
    let shown = path.display();
    let is_podman = version
        .components
        .iter()
        .any(|c| c.name == PODMAN_COMPONENT);
    if is_podman != (kind.name == PODMAN.name) {
        let other = if is_podman { &PODMAN } else { &DOCKER };
        return Check::failed(
            kind.name,
            format!(
                "{} {} answers at {shown}, not {}",
                other.title, version.version, kind.title
            ),
            format!(
                "set compute_driver = \"{}\" for the gateway, or name {}'s own socket",
                other.name, kind.title
            ),
        );
    }
    if is_older(&version.api) {
        return Check::failed(
            kind.name,
            format!(
                "the engine {} at {shown} speaks API {} only",
                version.version, version.api
            ),
            format!(
                "upgrade it: API {}.{} ({}) is needed",
                OLDEST_API.0, OLDEST_API.1, kind.oldest
            ),
        );
    }
    Check::ok(
        kind.name,
        format!(
            "engine {} (API {}) answers at {shown}",
            version.version, version.api
        ),
    )
}

fn ask(path: &Path) -> io::Result<Version> {
    let mut stream = UnixStream::connect(path)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    // HTTP/1.0: the answer comes in one piece and its end is the connection's.
    stream.write_all(b"GET /version HTTP/1.0\r\nHost: engine\r\n\r\n")?;
    let mut answer = Vec::new();
    stream.take(MAX_ANSWER).read_to_end(&mut answer)?;
    let odd = |why: &str| {
        io::Error::new(
            io::ErrorKind::InvalidData,
            format!("what listens there is no engine ({why})"),
        )
    };
    let text = String::from_utf8_lossy(&answer);
    let (head, body) = text.split_once("\r\n\r\n").ok_or_else(|| odd("no HTTP"))?;
    let status = head.split_whitespace().nth(1).unwrap_or_default();
    if status != "200" {
        return Err(odd(&format!("HTTP status {status:?}")));
    }
    serde_json::from_str(body).map_err(|_| odd("no version"))
}

fn is_older(api: &str) -> bool {
    let number = |s: Option<&str>| s.and_then(|s| s.parse::<u32>().ok()).unwrap_or(0);
    let mut parts = api.split('.');
    (number(parts.next()), number(parts.next())) < OLDEST_API
}
