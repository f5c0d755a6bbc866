//! Which engine is used: the one that is named, else the one that is found. Decided once, at the start, and said.

use std::os::unix::net::UnixStream;
use std::path::Path;

use openshell_container::ContainerConfig;
use openshell_container::api::ApiDriver;
use openshell_core::engine::Sockets;
use openshell_lifecycle::DriverError;

use crate::config::{Config, DriverKind, Drivers};

/// An engine, and why it is that one.
#[derive(Debug)]
pub(crate) struct Choice {
    pub(crate) kind: DriverKind,
    pub(crate) sockets: Sockets,
    pub(crate) why: String,
}

/// Decides. Whether an engine is there is asked by connecting to its socket, not of the engine.
pub(crate) fn choose(config: &Config) -> Result<Choice, DriverError> {
    let found = |kind| sockets(kind, &config.drivers);
    if let Some(kind) = config.gateway.compute_driver {
        return Ok(Choice {
            kind,
            sockets: found(kind)?,
            why: "compute_driver says so".to_owned(),
        });
    }
    Ok(between(
        found(DriverKind::Podman)?,
        found(DriverKind::Docker)?,
        |socket| UnixStream::connect(socket).is_ok(),
    ))
}

fn between(podman: Sockets, docker: Sockets, answers: impl Fn(&Path) -> bool) -> Choice {
    const UNSET: &str = "compute_driver is not set";
    let at = |sockets: &Sockets| sockets.pick(|path| answers(path)).to_owned();
    let (at_podman, at_docker) = (at(&podman), at(&docker));
    let (podman_answers, docker_answers) = (answers(&at_podman), answers(&at_docker));
    let (kind, why) = match (podman.chosen(), docker.chosen()) {
        (true, false) => (
            DriverKind::Podman,
            "and only Podman's socket was named".to_owned(),
        ),
        (false, true) => (
            DriverKind::Docker,
            "and only Docker's socket was named".to_owned(),
        ),
        _ => match (podman_answers, docker_answers) {
            (true, true) => (
                DriverKind::Podman,
                format!(
                    "and of the two that were found Podman comes first (Docker listens at {}; set compute_driver = \"docker\" to use it)",
                    at_docker.display()
                ),
            ),
            (true, false) => (DriverKind::Podman, "and only Podman was found".to_owned()),
            (false, true) => (DriverKind::Docker, "and only Docker was found".to_owned()),
            (false, false) => (
                DriverKind::Docker,
                format!(
                    "and neither Podman (at {}) nor Docker (at {}) was found; start one, and then the gateway again, or say where its socket is",
                    at_podman.display(),
                    at_docker.display()
                ),
            ),
        },
    };
    let sockets = match kind {
        DriverKind::Podman => podman,
        DriverKind::Docker => docker,
    };
    Choice {
        kind,
        sockets,
        why: format!("{UNSET}, {why}"),
    }
}

fn sockets(kind: DriverKind, drivers: &Drivers) -> Result<Sockets, DriverError> {
    let configured = drivers.of(kind).socket_path.as_deref();
    match kind {
        DriverKind::Docker => openshell_driver_docker::sockets(configured),
        DriverKind::Podman => openshell_driver_podman::sockets(configured),
    }
}

impl Choice {
    /// Says which engine is used, and why.
    pub(crate) fn tell(&self) {
        let socket = self.sockets.pick(Path::exists);
        tracing::info!(driver = %self.kind, socket = %socket.display(), why = self.why, "compute driver chosen");
    }

    /// Makes its driver.
    pub(crate) fn connect(self, containers: ContainerConfig) -> Result<ApiDriver, DriverError> {
        match self.kind {
            DriverKind::Docker => openshell_driver_docker::connect(self.sockets, containers),
            DriverKind::Podman => openshell_driver_podman::connect(self.sockets, containers),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(podman: &str, docker: &str, there: &[&str]) -> Choice {
        let sockets = |path: &str, rule: Result<Sockets, _>| match path {
            "" => rule.unwrap(),
            named => Sockets::at(named),
        };
        let nothing = |_: &str| None;
        between(
            sockets(podman, Sockets::podman(nothing, 0)),
            sockets(docker, Sockets::docker(nothing)),
            |socket| there.iter().any(|path| socket == Path::new(path)),
        )
    }

    const PODMAN: &str = "/run/podman/podman.sock";
    const DOCKER: &str = "/var/run/docker.sock";

    #[test]
    fn of_what_is_found_podman_comes_first_and_the_other_is_spoken_of() {
        let both = chosen("", "", &[PODMAN, DOCKER]);
        assert_eq!(both.kind, DriverKind::Podman);
        assert!(both.why.contains(DOCKER), "{}", both.why);
        assert_eq!(chosen("", "", &[PODMAN]).kind, DriverKind::Podman);
        assert_eq!(chosen("", "", &[DOCKER]).kind, DriverKind::Docker);
    }

    #[test]
    fn a_socket_that_somebody_named_decides_whether_it_answers_or_not() {
        assert_eq!(chosen("", "/x", &[PODMAN]).kind, DriverKind::Docker);
        assert_eq!(chosen("/x", "", &[DOCKER]).kind, DriverKind::Podman);
        assert_eq!(chosen("/x", "/y", &["/y"]).kind, DriverKind::Docker);
    }

    #[test]
    fn where_nothing_is_found_it_says_where_it_looked() {
        let none = chosen("", "", &[]);
        for place in [PODMAN, DOCKER] {
            assert!(none.why.contains(place), "{}", none.why);
        }
    }
}
