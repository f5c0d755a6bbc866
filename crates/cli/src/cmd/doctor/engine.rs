//! The engine's socket: is it there, may we, does it answer, is it new enough.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;

use super::Check;

/// The check's name.
pub(super) const NAME: &str = "docker";
/// An engine that needs longer is not well.
const PATIENCE: Duration = Duration::from_secs(3);
/// Docker Engine 20.10.
const OLDEST_API: (u32, u32) = (1, 41);
/// More than any engine says about itself.
const MAX_ANSWER: u64 = 1 << 20;

#[derive(Deserialize)]
struct Version {
    #[serde(rename = "Version")]
    version: String,
    #[serde(rename = "ApiVersion")]
    api: String,
}

/// Looks at `$DOCKER_HOST` or the usual place.
pub(super) fn check() -> Check {
    match std::env::var("DOCKER_HOST") {
        Ok(host) if !host.is_empty() => match host.strip_prefix("unix://") {
            Some(path) => at(Path::new(path)),
            None => Check::warning(
                NAME,
                format!("DOCKER_HOST is {host}: not a local socket, not checked"),
                "",
            ),
        },
        _ => at(&PathBuf::from("/var/run/docker.sock")),
    }
}

/// Looks at one socket.
pub(super) fn at(path: &Path) -> Check {
    let shown = path.display();
    match ask(path) {
        Ok(version) if is_older(&version.api) => Check::failed(
            NAME,
            format!(
                "the engine {} at {shown} speaks API {} only",
                version.version, version.api
            ),
            format!(
                "upgrade it: API {}.{} (Docker Engine 20.10) is needed",
                OLDEST_API.0, OLDEST_API.1
            ),
        ),
        Ok(version) => Check::ok(
            NAME,
            format!(
                "engine {} (API {}) answers at {shown}",
                version.version, version.api
            ),
        ),
        Err(e) => match e.kind() {
            io::ErrorKind::NotFound => Check::failed(
                NAME,
                format!("there is no engine: {shown} does not exist"),
                "install and start it: apt-get install docker.io && systemctl start docker",
            ),
            io::ErrorKind::PermissionDenied => Check::failed(
                NAME,
                format!("this user may not use {shown}"),
                "add the user to the group that owns it: sudo usermod -aG docker $USER, then log in again",
            ),
            io::ErrorKind::ConnectionRefused => Check::failed(
                NAME,
                format!("the engine is down: nothing listens at {shown}"),
                "start it: systemctl start docker (or: dockerd &)",
            ),
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => Check::failed(
                NAME,
                format!(
                    "the engine at {shown} does not answer within {} s",
                    PATIENCE.as_secs()
                ),
                "look at its log (journalctl -u docker) and restart it",
            ),
            _ => Check::failed(
                NAME,
                format!("the engine at {shown} cannot be used: {e}"),
                "look at its log (journalctl -u docker)",
            ),
        },
    }
}

fn ask(path: &Path) -> io::Result<Version> {
    let mut stream = UnixStream::connect(path)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    // HTTP/1.0: the answer comes in one piece and its end is the connection's.
    stream.write_all(b"GET /version HTTP/1.0\r\nHost: docker\r\n\r\n")?;
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
