//! What a machine must have, and how it gets it: by itself as root on Debian or Ubuntu, by a printed command
//! elsewhere.

use std::path::Path;
use std::process::Command;

use anyhow::{Result, bail};
use openshell_e2e::{command as run, host, image};

use crate::{build, say};

/// A package, and how its presence is seen.
struct Need {
    package: &'static str,
    present: fn() -> bool,
}

/// What is to be done.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    Demo,
    /// Tests and benchmarks also run the published Python client.
    Tests,
}

const PYTHON: Need = Need {
    package: "python3-venv",
    present: python_makes_environments,
};

const SYSTEMD: Need = Need {
    package: "systemd",
    present: || has("systemd-analyze"),
};

const NEEDS: &[Need] = &[
    Need {
        package: "docker.io",
        present: || {
            ["docker", "dockerd", "containerd"]
                .iter()
                .all(|name| has(name))
        },
    },
    Need {
        package: "podman",
        present: || has("podman") && has("conmon"),
    },
    Need {
        package: "busybox-static",
        present: || image::busybox().is_ok(),
    },
    Need {
        package: "iptables",
        present: || has("iptables"),
    },
    Need {
        package: "iproute2",
        present: || has("ip"),
    },
    Need {
        package: "ca-certificates",
        present: || Path::new("/etc/ssl/certs").exists(),
    },
];

fn has(program: &str) -> bool {
    host::find_program(program).is_some()
}

fn python_makes_environments() -> bool {
    let mut python = Command::new("/usr/bin/python3");
    run::run(python.args(["-c", "import ensurepip, venv"])).is_ok_and(|outcome| outcome.code == 0)
}

/// Installs what is missing, or says how.
///
/// # Errors
/// When something is missing and cannot be installed by this process.
pub(crate) fn ensure(purpose: Purpose) -> Result<()> {
    let tests: &[Need] = match purpose {
        Purpose::Demo => &[],
        Purpose::Tests => &[PYTHON, SYSTEMD],
    };
    let missing: Vec<&str> = NEEDS
        .iter()
        .chain(tests)
        .filter(|need| !(need.present)())
        .map(|need| need.package)
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    let list = missing.join(" ");
    if !has("apt-get") {
        bail!(
            "this machine lacks {list}: install Docker Engine and a static busybox, then run this again"
        );
    }
    if !host::is_root() {
        bail!(
            "this machine lacks {list}; run this, then try again:\n\n  sudo apt-get install -y {list}\n"
        );
    }
    say::step(&format!("installing {list}"));
    // Debian would start the engine; here whoever needs one starts his own.
    build::stream(apt().arg("update").arg("-qq"))?;
    build::stream(
        apt()
            .args(["install", "-y", "-qq", "--no-install-recommends"])
            .args(&missing),
    )
}

fn apt() -> Command {
    let mut apt = Command::new("apt-get");
    apt.env("DEBIAN_FRONTEND", "noninteractive");
    apt.stdin(std::process::Stdio::null());
    apt
}
