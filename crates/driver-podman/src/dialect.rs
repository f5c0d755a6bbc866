//! How Podman speaks the API.

use openshell_container::EngineErrorKind;
use openshell_container::api::{ContainerCreateBody, Dialect, Manner, SystemInfo};
use openshell_container::plan::{ContainerPlan, Mount};

use crate::limits::limits;

const MANNER: Manner = Manner {
    name: "podman",
    title: "Podman",
    oldest: "Podman 4",
    start: "systemctl --user start podman.socket, or as root: systemctl start podman.socket",
    permission: "run the gateway as the user whose Podman it is, or set socket_path in [openshell.drivers.podman] to that user's own socket",
    // Only as a container is first started, or attached to.
    fills_volumes: false,
    // A container without a network keeps the `resolv.conf` of its image.
    tells_resolver: false,
    // TERM, and ten seconds for those that ignore it.
    removal_is_gentle: true,
};

/// What Podman says of a container that is not in the state for a call, with status 500.
const IMPROPER_STATE: &str = "container state improper";
/// And of a name that another container has.
const NAME_IN_USE: &str = "that name is already in use";

pub(crate) struct Podman;

impl Dialect for Podman {
    fn manner(&self) -> &'static Manner {
        &MANNER
    }

    fn is_podman(&self) -> bool {
        true
    }

    /// Its own id is made up for each answer, so only its storage names it.
    fn identity(&self, _info: &SystemInfo) -> Option<String> {
        Some(MANNER.name.to_owned())
    }

    fn create(&self, plan: &ContainerPlan, mut body: ContainerCreateBody) -> ContainerCreateBody {
        let host = body.host_config.get_or_insert_default();
        host.ulimits = Some(limits());
        // It does not read the options of a mounted volume, only those of a bind.
        host.mounts = None;
        host.binds = Some(plan.mounts.iter().map(bind).collect());
        body
    }

    fn meaning(&self, status: u16, message: &str) -> Option<EngineErrorKind> {
        let conflict = [IMPROPER_STATE, NAME_IN_USE];
        (status == 500 && conflict.iter().any(|words| message.contains(words)))
            .then_some(EngineErrorKind::Conflict)
    }
}

/// A named volume. Two containers share it, which SELinux has to be told.
fn bind(mount: &Mount) -> String {
    let copy = if mount.copy_image_content {
        ""
    } else {
        ",nocopy"
    };
    format!("{}:{}:z{copy}", mount.volume, mount.target)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_container_in_another_state_is_a_conflict_whatever_the_status() {
        let meaning = |status, words| Podman.meaning(status, words);
        let state =
            "can only kill running containers. 1 is in state created: container state improper";
        assert_eq!(meaning(500, state), Some(EngineErrorKind::Conflict));
        let name = "creating container storage: the container name \"n\" is already in use by 1: that name is already in use";
        assert_eq!(meaning(500, name), Some(EngineErrorKind::Conflict));
        assert_eq!(meaning(500, "no space left on device"), None);
        assert_eq!(meaning(404, "no such container"), None);
    }

    #[test]
    fn an_image_puts_nothing_into_a_volume_that_is_not_its() {
        let mount = |copy_image_content| Mount {
            volume: "v".to_owned(),
            target: "/t".to_owned(),
            copy_image_content,
            labels: Default::default(),
        };
        assert_eq!(bind(&mount(true)), "v:/t:z");
        assert_eq!(bind(&mount(false)), "v:/t:z,nocopy");
    }
}
