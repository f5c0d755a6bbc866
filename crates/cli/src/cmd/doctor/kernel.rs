//! What the kernel must offer to the sandbox runtime: Landlock and seccomp's user notification.

use std::fs;

use super::{Check, Verdict};

/// Landlock with truncation (ABI 3).
const LANDLOCK_KERNEL: (u32, u32) = (6, 2);

/// Looks at this machine's kernel; an engine elsewhere has another one.
pub(super) fn check() -> Vec<Check> {
    let release = read("/proc/sys/kernel/osrelease").unwrap_or_default();
    let lsm = read("/sys/kernel/security/lsm");
    let actions = read("/proc/sys/kernel/seccomp/actions_avail");
    vec![
        landlock(&release, lsm.as_deref()),
        seccomp(actions.as_deref()),
    ]
}

fn read(path: &str) -> Option<String> {
    fs::read_to_string(path).ok().map(|s| s.trim().to_owned())
}

/// The list of security modules says whether it is on; the release, whether it can do what is needed.
pub(super) fn landlock(release: &str, lsm: Option<&str>) -> Check {
    const NAME: &str = "landlock";
    let on = lsm.map(|list| list.split(',').any(|m| m == "landlock"));
    let new = version(release) >= LANDLOCK_KERNEL;
    match (on, new) {
        (Some(false), _) => Check::failed(
            NAME,
            "Landlock is not enabled in the kernel",
            "boot with lsm=landlock,… (add it to the list in /sys/kernel/security/lsm)",
        ),
        (_, false) => Check::warning(
            NAME,
            format!(
                "kernel {release} is older than {}.{}",
                LANDLOCK_KERNEL.0, LANDLOCK_KERNEL.1
            ),
            "use a kernel with Landlock ABI 3 or newer; a distribution may have it backported",
        ),
        (Some(true), true) => Check::ok(NAME, format!("enabled, kernel {release}")),
        (None, true) => Check::ok(
            NAME,
            format!("kernel {release} has it (the list of modules cannot be read here)"),
        ),
    }
}

pub(super) fn seccomp(actions: Option<&str>) -> Check {
    const NAME: &str = "seccomp";
    match actions {
        Some(list) if list.split_whitespace().any(|a| a == "user_notif") => {
            Check::ok(NAME, "user notification is available")
        }
        Some(_) => Check::failed(
            NAME,
            "seccomp has no user notification",
            "use a kernel 5.0 or newer with CONFIG_SECCOMP_FILTER",
        ),
        None => Check::new(
            NAME,
            Verdict::Warning,
            "it cannot be seen here what seccomp offers",
            "run this on the engine's host",
        ),
    }
}

fn version(release: &str) -> (u32, u32) {
    let mut parts = release
        .split(|c: char| !c.is_ascii_digit())
        .map(|p| p.parse().unwrap_or(0));
    (parts.next().unwrap_or(0), parts.next().unwrap_or(0))
}
