//! Who listens on a port of this machine.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::Check;

/// The port of a gateway that nobody has configured otherwise.
pub(super) const DEFAULT: u16 = 17670;
const NAME: &str = "port";

/// A process, as far as it can be seen.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Holder {
    /// `name (pid N)`.
    pub(super) label: String,
}

/// Without a gateway: can one be started here?
pub(super) fn check_default() -> Check {
    match holder(DEFAULT) {
        None => Check::ok(NAME, format!("{DEFAULT} is free for a gateway")),
        Some(h) if h.label.starts_with("openshell-gatew") => Check::warning(
            NAME,
            format!(
                "a gateway listens on {DEFAULT}, but it is not registered: {}",
                h.label
            ),
            format!("openshell gateway add https://127.0.0.1:{DEFAULT} --ca … --cert … --key …"),
        ),
        Some(h) => in_use(DEFAULT, &h),
    }
}

/// The check's failure.
pub(super) fn in_use(port: u16, holder: &Holder) -> Check {
    Check::failed(
        NAME,
        format!("port {port} is in use by another program: {}", holder.label),
        "end that program, or give the gateway another bind_address in gateway.toml",
    )
}

/// Who listens on it; none if nobody does.
pub(super) fn holder(port: u16) -> Option<Holder> {
    let inodes: Vec<u64> = ["/proc/net/tcp", "/proc/net/tcp6"]
        .into_iter()
        .filter_map(|table| fs::read_to_string(table).ok())
        .flat_map(|table| listening(&table, port))
        .collect();
    if inodes.is_empty() {
        return None;
    }
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let found = processes
        .filter_map(|p| p.file_name().to_str()?.parse::<u32>().ok())
        .find(|pid| holds(*pid, &inodes));
    let label = match found {
        Some(pid) => {
            let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
            format!("{} (pid {pid})", name.trim())
        }
        None => "a process of another user".to_owned(),
    };
    Some(Holder { label })
}

/// The sockets of a table that listen on a port.
pub(super) fn listening(table: &str, port: u16) -> Vec<u64> {
    const LISTEN: &str = "0A";
    let lines = table.lines().skip(1);
    let found = lines.filter_map(|line| {
        let mut fields = line.split_whitespace();
        let (_, local_port) = fields.nth(1)?.rsplit_once(':')?;
        let state = fields.nth(1)?;
        let inode = fields.nth(5)?.parse().ok()?;
        (state == LISTEN && u16::from_str_radix(local_port, 16).ok()? == port).then_some(inode)
    });
    found.collect()
}

fn holds(pid: u32, inodes: &[u64]) -> bool {
    let files = fs::read_dir(Path::new("/proc").join(pid.to_string()).join("fd"));
    let mut files = files.into_iter().flatten().flatten();
    // The link's target has the same inode number as the table's line.
    files.any(|f| fs::metadata(f.path()).is_ok_and(|m| inodes.contains(&m.ino())))
}
