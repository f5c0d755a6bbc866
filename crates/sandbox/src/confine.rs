//! The file system that the workload may see: a Landlock ruleset on the launcher's thread, which all that it
//! starts inherit. Only what is listed exists; the reserved tree can never be listed.

use std::os::fd::{AsFd as _, AsRawFd as _};
use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access as _, AccessFs, CompatLevel, Compatible as _, PathBeneath, PathFd, Ruleset,
    RulesetAttr as _, RulesetCreated, RulesetCreatedAttr as _, RulesetStatus, Scope,
};
use openshell_core::bootstrap::{RESERVED, WORKSPACE};
use openshell_proto::link;
use thiserror::Error;

/// What is used where the kernel has it; the floor is proven by the posture.
const TARGET: ABI = ABI::V6;

/// What the posture says of it.
pub(crate) const LANDLOCK_NOTE: &str =
    "Landlock: only granted paths exist, the reserved tree is unreadable";

/// Where nothing else is asked for.
const READ_ONLY: &[&str] = &[
    "/bin", "/sbin", "/usr", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/opt", "/app",
    "/proc", "/var/log",
];
const READ_WRITE: &[&str] = &["/tmp"];

/// Devices without which programs do not run; part of every policy.
const DEVICES_READ: &[&str] = &["/dev/urandom", "/dev/random", "/dev/zero", "/dev/full"];
const DEVICES_WRITE: &[&str] = &["/dev/null", "/dev/tty", "/dev/ptmx", "/dev/pts", "/dev/shm"];

/// Why the file system could not be confined.
#[derive(Debug, Error)]
pub(crate) enum ConfineError {
    /// A path that the policy insists on.
    #[error(
        "the policy grants {path}, which cannot be opened ({why}); create it in the image, or take it out of filesystem_policy"
    )]
    Missing {
        /// Which.
        path: String,
        /// Why.
        why: String,
    },
    /// Never to be granted.
    #[error(
        "the policy grants {0}, which leads into the reserved tree; take it out of filesystem_policy"
    )]
    Reserved(String),
    /// Paths must be absolute.
    #[error("the policy grants {0}, which is not an absolute path")]
    Relative(String),
    /// The kernel.
    #[error("Landlock refused the ruleset: {0}")]
    Kernel(String),
}

/// What was put in force.
#[derive(Debug)]
pub(crate) struct Confinement {
    /// Paths of the policy that do not exist here.
    pub(crate) skipped: Vec<String>,
}

struct Grant {
    path: PathBuf,
    write: bool,
    /// Not the policy's own wish: missing is fine.
    optional: bool,
}

fn grants(policy: Option<&link::Policy>) -> Vec<Grant> {
    let grant = |write, optional| {
        move |path: &str| Grant {
            path: PathBuf::from(path),
            write,
            optional,
        }
    };
    let mut all: Vec<Grant> = DEVICES_READ
        .iter()
        .map(|p| grant(false, true)(p))
        .chain(DEVICES_WRITE.iter().map(|p| grant(true, true)(p)))
        .collect();
    let asked = policy.filter(|p| !(p.read_only.is_empty() && p.read_write.is_empty()));
    match asked {
        Some(policy) => {
            all.extend(policy.read_only.iter().map(|p| grant(false, false)(p)));
            all.extend(policy.read_write.iter().map(|p| grant(true, false)(p)));
            if policy.include_workdir {
                all.push(grant(true, true)(WORKSPACE));
            }
        }
        None => {
            all.extend(READ_ONLY.iter().map(|p| grant(false, true)(p)));
            all.extend(READ_WRITE.iter().map(|p| grant(true, true)(p)));
            all.push(grant(true, true)(WORKSPACE));
        }
    }
    all
}

/// Confines the calling thread, for good.
pub(crate) fn confine(policy: Option<&link::Policy>) -> Result<Confinement, ConfineError> {
    let kernel = |e: landlock::RulesetError| ConfineError::Kernel(e.to_string());
    let hard = policy.is_some_and(|p| p.hard_requirement);
    let mut ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(ABI::V3))
        .map_err(kernel)?
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(TARGET))
        .map_err(kernel)?
        .scope(Scope::from_all(TARGET))
        .map_err(kernel)?
        .create()
        .map_err(kernel)?;
    let mut skipped = Vec::new();
    for grant in grants(policy) {
        ruleset = match add(ruleset, &grant, hard)? {
            Added::Yes(ruleset) => ruleset,
            Added::Missing(ruleset) => {
                if !grant.optional {
                    skipped.push(grant.path.display().to_string());
                }
                ruleset
            }
        };
    }
    let status = ruleset.restrict_self().map_err(kernel)?;
    if status.ruleset == RulesetStatus::NotEnforced || !status.no_new_privs {
        return Err(ConfineError::Kernel("it was not enforced".to_owned()));
    }
    Ok(Confinement { skipped })
}

enum Added {
    Yes(RulesetCreated),
    Missing(RulesetCreated),
}

fn add(ruleset: RulesetCreated, grant: &Grant, hard: bool) -> Result<Added, ConfineError> {
    let shown = grant.path.display().to_string();
    if !grant.path.is_absolute() {
        return Err(ConfineError::Relative(shown));
    }
    let fd = match PathFd::new(&grant.path) {
        Ok(fd) => fd,
        Err(e) if hard && !grant.optional => {
            return Err(ConfineError::Missing {
                path: shown,
                why: e.to_string(),
            });
        }
        Err(_) => return Ok(Added::Missing(ruleset)),
    };
    // What was opened counts, not what was written: a link may lead anywhere.
    let real = std::fs::read_link(format!("/proc/self/fd/{}", fd.as_fd().as_raw_fd()))
        .map_err(|e| ConfineError::Kernel(format!("{shown} cannot be verified: {e}")))?;
    if real.starts_with(RESERVED) {
        return Err(ConfineError::Reserved(shown));
    }
    if real == Path::new("/") {
        return children(ruleset, grant).map(Added::Yes);
    }
    rule(ruleset, fd, grant).map(Added::Yes)
}

fn rule(
    ruleset: RulesetCreated,
    fd: PathFd,
    grant: &Grant,
) -> Result<RulesetCreated, ConfineError> {
    let directory = rustix::fs::fstat(&fd)
        .is_ok_and(|s| rustix::fs::FileType::from_raw_mode(s.st_mode).is_dir());
    let mut access = if grant.write {
        AccessFs::from_all(TARGET)
    } else {
        AccessFs::from_read(TARGET)
    };
    if !directory {
        access &= AccessFs::from_file(TARGET);
    }
    ruleset
        .add_rule(PathBeneath::new(fd, access))
        .map_err(|e| ConfineError::Kernel(format!("{}: {e}", grant.path.display())))
}

/// A grant of the root is one of each of its children but the reserved tree, since Landlock cannot take away
/// below what it gives.
fn children(mut ruleset: RulesetCreated, grant: &Grant) -> Result<RulesetCreated, ConfineError> {
    let root = std::fs::read_dir("/")
        .map_err(|e| ConfineError::Kernel(format!("/ cannot be listed: {e}")))?;
    for entry in root.flatten() {
        let path = entry.path();
        let link = entry.file_type().is_ok_and(|t| t.is_symlink());
        if link || path == Path::new(RESERVED) {
            continue;
        }
        if let Ok(fd) = PathFd::new(&path) {
            ruleset = rule(ruleset, fd, grant)?;
        }
    }
    Ok(ruleset)
}
