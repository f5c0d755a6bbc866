//! `cargo xtask build`: the binaries, laid out as they are installed: `bin/` for people, `libexec/openshell/`
//! for the two static halves that the gateway carries into every sandbox.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context as _, Result, bail};
use openshell_e2e::command as run;

use crate::say;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Build quickly, without optimisation of the gateway and the CLI; into target/dist-dev
    #[arg(long)]
    pub(crate) dev: bool,
}

/// The root of the checkout.
pub(crate) fn root() -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.parent().unwrap_or(manifest).to_owned()
}

/// Where cargo builds.
pub(crate) fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// Cargo, as whoever started this task has it.
pub(crate) fn cargo() -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(root());
    cargo
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let dist = build(args.dev)?;
    for (name, size) in sizes(&dist)? {
        say::line(&format!(
            "   {name:<22} {:>6.2} MiB",
            size as f64 / 1_048_576.0
        ));
    }
    say::line(&format!("   in {}", dist.display()));
    Ok(())
}

/// Where the binaries are laid out.
pub(crate) fn dist(dev: bool) -> PathBuf {
    target().join(if dev { "dist-dev" } else { "dist" })
}

/// Builds everything and returns the directory it is in.
pub(crate) fn build(dev: bool) -> Result<PathBuf> {
    let started = Instant::now();
    say::step("building the gateway, the CLI and the two halves of a sandbox");
    let mut host = cargo();
    host.args([
        "build",
        "--locked",
        "-p",
        "openshell-gateway",
        "-p",
        "openshell-cli",
    ]);
    let profile = if dev { "debug" } else { "release" };
    if !dev {
        host.arg("--release");
    }
    stream(&mut host)?;
    let triple = triple()?;
    let mut runtime = cargo();
    runtime.args([
        "build",
        "--locked",
        "--profile",
        "runtime",
        "--target",
        &triple,
    ]);
    runtime.args(["-p", "openshell-sandbox", "-p", "openshell-supervisor"]);
    runtime.env("RUSTFLAGS", "-C target-feature=+crt-static");
    stream(&mut runtime)?;

    let dist = dist(dev);
    let bin = dist.join("bin");
    let libexec = dist.join("libexec/openshell");
    std::fs::create_dir_all(&bin)?;
    std::fs::create_dir_all(&libexec)?;
    for name in ["openshell-gateway", "openshell"] {
        place(&target().join(profile).join(name), &bin.join(name))?;
    }
    let static_dir = target().join(&triple).join("runtime");
    for name in ["openshell-sandbox", "openshell-supervisor"] {
        place(&static_dir.join(name), &libexec.join(name))?;
    }
    say::took("built", started.elapsed());
    Ok(dist)
}

/// The four binaries and their sizes.
pub(crate) fn sizes(dist: &Path) -> Result<Vec<(String, u64)>> {
    let mut found = Vec::new();
    for path in [
        "bin/openshell",
        "bin/openshell-gateway",
        "libexec/openshell/openshell-supervisor",
        "libexec/openshell/openshell-sandbox",
    ] {
        let name = path.rsplit('/').next().unwrap_or(path).to_owned();
        found.push((name, dist.join(path).metadata()?.len()));
    }
    Ok(found)
}

/// Runs a command with its output on ours.
pub(crate) fn stream(command: &mut Command) -> Result<()> {
    let text = run::line(command);
    let status = command
        .status()
        .with_context(|| format!("`{text}` could not be started"))?;
    if !status.success() {
        bail!("`{text}` failed ({status})");
    }
    Ok(())
}

/// The runtime halves are built for the machine's own architecture, against glibc, linked statically.
fn triple() -> Result<String> {
    match (std::env::consts::OS, std::env::consts::ARCH) {
        ("linux", arch @ ("x86_64" | "aarch64")) => Ok(format!("{arch}-unknown-linux-gnu")),
        (os, arch) => bail!(
            "the halves of a sandbox are built for Linux on x86_64 or aarch64, not {os} on {arch}"
        ),
    }
}

/// Copies beside and renames, so that a running binary is not written into; an unchanged one keeps its time.
fn place(from: &Path, to: &Path) -> Result<()> {
    let new = std::fs::read(from).with_context(|| format!("{} was not built", from.display()))?;
    if std::fs::read(to).is_ok_and(|old| old == new) {
        return Ok(());
    }
    let beside = to.with_extension("new");
    std::fs::copy(from, &beside)?;
    std::fs::rename(&beside, to).with_context(|| format!("{} cannot be placed", to.display()))
}
