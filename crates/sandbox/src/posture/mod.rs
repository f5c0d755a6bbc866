//! What this container really gives: measured before anything runs, each missing primitive named.

mod facts;
mod probe;
#[cfg(test)]
mod tests;

use crate::sys;

/// The oldest Landlock that can hold a truncation back.
pub(crate) const LANDLOCK_FLOOR: u32 = 3;

/// One property of the boundary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Property {
    /// As the link names it.
    pub(crate) name: &'static str,
    /// Whether it holds.
    pub(crate) enforced: bool,
    /// By what, or what is missing.
    pub(crate) mechanism: String,
}

impl Property {
    /// It holds, by `mechanism`.
    pub(crate) fn held(name: &'static str, mechanism: impl Into<String>) -> Self {
        Self {
            name,
            enforced: true,
            mechanism: mechanism.into(),
        }
    }

    /// It does not, because `missing`.
    pub(crate) fn missing(name: &'static str, missing: impl Into<String>) -> Self {
        Self {
            name,
            enforced: false,
            mechanism: missing.into(),
        }
    }

    fn of(name: &'static str, faults: &[String], mechanism: impl Into<String>) -> Self {
        if faults.is_empty() {
            Self::held(name, mechanism)
        } else {
            Self::missing(name, faults.join("; "))
        }
    }
}

/// Names as the link carries them.
pub(crate) const FILESYSTEM: &str = "filesystem_confinement";
pub(crate) const EGRESS: &str = "egress_interception";
pub(crate) const ATTRIBUTION: &str = "request_attribution";
pub(crate) const PRIVILEGE: &str = "privilege_floor";
pub(crate) const NETWORK: &str = "network_isolation";

/// All of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Posture {
    /// Each property.
    pub(crate) properties: Vec<Property>,
    /// Who we are.
    pub(crate) uid: u32,
    /// And our group.
    pub(crate) gid: u32,
    /// What the kernel has; 0 for none.
    pub(crate) landlock_abi: u32,
}

impl Posture {
    /// What is missing, in words; empty if nothing is.
    pub(crate) fn faults(&self) -> String {
        let faults: Vec<String> = self
            .properties
            .iter()
            .filter(|p| !p.enforced)
            .map(|p| format!("{}: {}", p.name, p.mechanism))
            .collect();
        faults.join("; ")
    }

    /// Replaces a property by what was measured later.
    pub(crate) fn set(&mut self, property: Property) {
        match self.properties.iter_mut().find(|p| p.name == property.name) {
            Some(old) => *old = property,
            None => self.properties.push(property),
        }
    }
}

/// Measures what can be measured before a policy is known.
pub(crate) fn measure() -> Posture {
    let uid = rustix::process::getuid().as_raw();
    let gid = rustix::process::getgid().as_raw();
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let status = facts::privilege_faults(&read("/proc/self/status"), uid);
    let network = facts::network_faults(
        &read("/proc/net/dev"),
        &read("/proc/net/route"),
        &read("/proc/net/ipv6_route"),
    );
    let abi = sys::landlock_abi();
    let filesystem = if abi < LANDLOCK_FLOOR {
        Property::missing(
            FILESYSTEM,
            format!(
                "Landlock ABI {abi} where {LANDLOCK_FLOOR} is needed (Linux 6.2 with landlock among its lsm=)"
            ),
        )
    } else {
        Property::held(FILESYSTEM, format!("Landlock ABI {abi}"))
    };
    let notification = match probe::notification() {
        Ok(()) => Property::held(EGRESS, "seccomp user notification"),
        Err(why) => Property::missing(EGRESS, why),
    };
    let attribution = match std::fs::read_link("/proc/self/exe") {
        Ok(_) => Property::held(ATTRIBUTION, "/proc/<pid>/exe and ancestors"),
        Err(error) => Property::missing(ATTRIBUTION, format!("/proc/<pid>/exe: {error}")),
    };
    Posture {
        properties: vec![
            filesystem,
            notification,
            attribution,
            Property::of(
                PRIVILEGE,
                &status,
                format!("no capabilities, no-new-privileges, uid {uid}"),
            ),
            Property::of(NETWORK, &network, "only lo, no route"),
        ],
        uid,
        gid,
        landlock_abi: abi,
    }
}
