//! Workload images made from nothing but a static busybox: no registry is needed.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};

use crate::command;

/// The tag under which the tests of the crates look for a workload image.
pub const TEST_IMAGE: &str = "openshell-dev/busybox:1";

/// What an image is to be.
#[derive(Clone, Debug)]
pub struct Recipe<'a> {
    /// `name:tag`.
    pub tag: &'a str,
    /// `USER`, empty for none (root).
    pub user: &'a str,
    /// Files beside busybox: path, content, mode.
    pub files: &'a [(&'a str, &'a [u8], u32)],
    /// Leaves out `/bin` altogether.
    pub without_shell: bool,
}

impl<'a> Recipe<'a> {
    /// The usual workload: busybox, an ordinary user.
    pub const fn usual(tag: &'a str) -> Self {
        Self {
            tag,
            user: "1000:1000",
            files: &[],
            without_shell: false,
        }
    }
}

/// Where the static busybox of this machine is.
///
/// # Errors
/// When there is none.
pub fn busybox() -> Result<PathBuf> {
    let candidates = ["/bin/busybox", "/usr/bin/busybox", "/bin/busybox.static"];
    match candidates.iter().map(Path::new).find(|path| path.exists()) {
        Some(path) => Ok(path.to_owned()),
        None => bail!("no busybox here; on Debian or Ubuntu: apt-get install busybox-static"),
    }
}

/// Makes an image by `docker import`.
///
/// # Errors
/// When busybox is missing or the engine refuses.
pub fn import(host: &str, recipe: &Recipe<'_>) -> Result<()> {
    let archive = archive(recipe)?;
    let mut docker = Command::new("docker");
    docker.args(["-H", host, "import"]);
    docker.args(["--change", "ENV PATH=/bin", "--change", "CMD [\"/bin/sh\"]"]);
    docker.args(["--change", "LABEL openshell.ai/made-by=xtask"]);
    if !recipe.user.is_empty() {
        docker.args(["--change", &format!("USER {}", recipe.user)]);
    }
    docker.args(["-", recipe.tag]);
    command::run_with(&mut docker, &archive, Duration::from_secs(60))?.success()?;
    Ok(())
}

/// Gives an image the name of another architecture: what a machine of that kind would have pushed.
///
/// # Errors
/// When the engine refuses, or saves images in a form that is not known here.
pub fn claim_architecture(host: &str, tag: &str, architecture: &str) -> Result<()> {
    let docker = || {
        let mut docker = Command::new("docker");
        docker.args(["-H", host]);
        docker
    };
    let saved = command::ok(docker().args(["save", tag]))?.stdout;
    let part = |name: &str| -> Result<Vec<u8>> {
        let mut saved = tar::Archive::new(saved.as_slice());
        for entry in saved.entries()? {
            let mut entry = entry?;
            if entry.path()?.as_ref() == Path::new(name) {
                let mut bytes = Vec::new();
                entry.read_to_end(&mut bytes)?;
                return Ok(bytes);
            }
        }
        bail!("there is no {name} in the saved image {tag}")
    };
    let manifest: serde_json::Value = serde_json::from_slice(&part("manifest.json")?)?;
    let named = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    let mut config: serde_json::Value =
        serde_json::from_slice(&part(&named(&manifest[0]["Config"]))?)?;
    config["architecture"] = architecture.into();
    let layer = part(&named(&manifest[0]["Layers"][0]))?;
    let manifest = serde_json::json!([
        { "Config": "config.json", "RepoTags": [tag], "Layers": ["layer.tar"] }
    ]);
    let mut tar = tar::Builder::new(Vec::new());
    file(
        &mut tar,
        "manifest.json",
        manifest.to_string().as_bytes(),
        0o644,
    )?;
    file(
        &mut tar,
        "config.json",
        config.to_string().as_bytes(),
        0o644,
    )?;
    file(&mut tar, "layer.tar", &layer, 0o644)?;
    let changed = tar.into_inner().context("the image could not be packed")?;
    command::run_with(docker().arg("load"), &changed, Duration::from_secs(60))?.success()?;
    Ok(())
}

fn archive(recipe: &Recipe<'_>) -> Result<Vec<u8>> {
    let mut tar = tar::Builder::new(Vec::new());
    for (path, mode) in [
        ("bin", 0o755),
        ("etc", 0o755),
        ("tmp", 0o1777),
        ("dev", 0o755),
        ("proc", 0o755),
        ("sys", 0o755),
        ("usr", 0o755),
        ("home", 0o755),
    ] {
        directory(&mut tar, path, mode)?;
    }
    let accounts = b"root:x:0:0:root:/root:/bin/sh\nagent:x:1000:1000:agent:/sandbox:/bin/sh\n";
    file(&mut tar, "etc/passwd", accounts, 0o644)?;
    file(&mut tar, "etc/group", b"root:x:0:\nagent:x:1000:\n", 0o644)?;
    if !recipe.without_shell {
        shell(&mut tar)?;
    }
    for (path, content, mode) in recipe.files {
        file(&mut tar, path, content, *mode)?;
    }
    tar.into_inner().context("the image could not be packed")
}

fn shell(tar: &mut tar::Builder<Vec<u8>>) -> Result<()> {
    let busybox = busybox()?;
    let binary =
        std::fs::read(&busybox).with_context(|| format!("{} is unreadable", busybox.display()))?;
    file(tar, "bin/busybox", &binary, 0o755)?;
    let list = command::ok(Command::new(&busybox).arg("--list"))?.text();
    // The list names busybox itself, which must not become a link to itself.
    for applet in list.lines().filter(|applet| *applet != "busybox") {
        let mut header = header(tar::EntryType::Symlink, 0, 0o777);
        tar.append_link(&mut header, format!("bin/{applet}"), "busybox")?;
    }
    Ok(())
}

fn header(kind: tar::EntryType, size: u64, mode: u32) -> tar::Header {
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(kind);
    header.set_size(size);
    header.set_mode(mode);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(0);
    header
}

fn directory(tar: &mut tar::Builder<Vec<u8>>, path: &str, mode: u32) -> Result<()> {
    let mut header = header(tar::EntryType::Directory, 0, mode);
    tar.append_data(&mut header, path, std::io::empty())?;
    Ok(())
}

fn file(tar: &mut tar::Builder<Vec<u8>>, path: &str, content: &[u8], mode: u32) -> Result<()> {
    let mut header = header(tar::EntryType::Regular, content.len() as u64, mode);
    tar.append_data(&mut header, path, content)?;
    Ok(())
}
