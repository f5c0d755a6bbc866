//! How many files and processes a container's user may have. Podman asks the kernel for more than its service may
//! give, unless it is told; what this process may have, the service of the same machine may have, too.

use openshell_container::api::ResourcesUlimits;
use rustix::process::{Resource, getrlimit};

/// What Podman asks for by itself.
const FILES: u64 = 1_048_576;
const PROCESSES: u64 = 4_194_304;
/// To this it lowers its own limit of processes.
const PROCESSES_THERE_ARE: &str = "/proc/sys/kernel/pid_max";

/// For every container.
pub(crate) fn limits() -> Vec<ResourcesUlimits> {
    let there_are = std::fs::read_to_string(PROCESSES_THERE_ARE).ok();
    let there_are = there_are.and_then(|text| text.trim().parse().ok());
    [
        ("nofile", Resource::Nofile, FILES),
        ("nproc", Resource::Nproc, there_are.unwrap_or(PROCESSES)),
    ]
    .into_iter()
    .map(|(name, resource, most)| limit(name, getrlimit(resource).maximum, most))
    .collect()
}

/// `None` = no limit.
fn limit(name: &str, ours: Option<u64>, most: u64) -> ResourcesUlimits {
    let value = i64::try_from(ours.unwrap_or(most).min(most)).unwrap_or(i64::MAX);
    ResourcesUlimits {
        name: Some(name.to_owned()),
        soft: Some(value),
        hard: Some(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_container_is_given_more_than_this_process_may_have() {
        let value = |ours| limit("nofile", ours, FILES).hard;
        assert_eq!(value(Some(20_000)), Some(20_000));
        assert_eq!(value(Some(1 << 40)), Some(1_048_576));
        assert_eq!(value(None), Some(1_048_576));
    }
}
