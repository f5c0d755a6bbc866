//! Binding a port; and when it is taken, saying by whom.

use std::io;
use std::net::SocketAddr;

use thiserror::Error;
use tokio::net::TcpListener;

/// Why nothing listens.
#[derive(Debug, Error)]
pub(crate) enum ListenError {
    /// Somebody else does.
    #[error("{address} is in use{holder}; stop that, or choose another {what}")]
    InUse {
        /// The address.
        address: SocketAddr,
        /// ` by NAME (process N)`, if it can be told.
        holder: String,
        /// The key that says otherwise.
        what: &'static str,
    },
    /// Anything else.
    #[error("cannot listen on {address} ({what}): {why}")]
    Failed {
        /// The address.
        address: SocketAddr,
        /// The key.
        what: &'static str,
        /// The system's words.
        why: io::Error,
    },
}

/// Binds; `what` is the configuration key.
pub(crate) async fn bind(
    address: SocketAddr,
    what: &'static str,
) -> Result<TcpListener, ListenError> {
    TcpListener::bind(address).await.map_err(|why| {
        if why.kind() == io::ErrorKind::AddrInUse {
            let holder = holder(address.port())
                .map(|(pid, name)| format!(" by {name} (process {pid})"))
                .unwrap_or_default();
            ListenError::InUse {
                address,
                holder,
                what,
            }
        } else {
            ListenError::Failed { address, what, why }
        }
    })
}

/// Who listens on a port, as far as this user may see.
#[cfg(target_os = "linux")]
fn holder(port: u16) -> Option<(u32, String)> {
    use std::fs;

    let listening = |file: &str| -> Vec<String> {
        let table = fs::read_to_string(file).unwrap_or_default();
        let inode = |line: &str| {
            let mut fields = line.split_whitespace();
            let local = fields.nth(1)?;
            let state = fields.nth(1)?;
            let inode = fields.nth(5)?;
            let hex = local.rsplit(':').next()?;
            // 0A: listening.
            (state == "0A" && u16::from_str_radix(hex, 16).ok()? == port)
                .then(|| format!("socket:[{inode}]"))
        };
        table.lines().skip(1).filter_map(inode).collect()
    };
    let mut sockets = listening("/proc/net/tcp");
    sockets.extend(listening("/proc/net/tcp6"));
    let processes = fs::read_dir("/proc").ok()?.flatten();
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.filter(|_| !sockets.is_empty())
        .find(|pid| {
            let open = fs::read_dir(format!("/proc/{pid}/fd"))
                .into_iter()
                .flatten();
            open.flatten()
                .filter_map(|fd| fs::read_link(fd.path()).ok())
                .any(|target| sockets.iter().any(|s| target.as_os_str() == s.as_str()))
        })
        .map(|pid| {
            let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
            (pid, name.trim().to_owned())
        })
}

#[cfg(not(target_os = "linux"))]
fn holder(_port: u16) -> Option<(u32, String)> {
    None
}

#[cfg(test)]
mod tests;
