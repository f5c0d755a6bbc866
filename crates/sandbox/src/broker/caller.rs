//! Who made a call, and what it said: read from `/proc` while the caller is held.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Component, Path, PathBuf};

/// Ancestors beyond this are not named.
const MAX_ANCESTORS: usize = 16;

/// Copies memory of the caller. `/proc/<pid>/mem`, because engines refuse `process_vm_readv`.
pub(super) fn memory(pid: i32, address: u64, length: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; length];
    File::open(format!("/proc/{pid}/mem"))?.read_exact_at(&mut bytes, address)?;
    Ok(bytes)
}

/// What a socket of the caller speaks, by the kernel's name; `None` where that is not said. Read through `/proc`,
/// because engines refuse `pidfd_getfd`.
pub(super) fn protocol(pid: i32, descriptor: u64) -> Option<String> {
    // The kernel looks at 32 bits of it.
    let descriptor = descriptor & 0xffff_ffff;
    let mut name = [0; 32];
    let path = format!("/proc/{pid}/fd/{descriptor}");
    let length = rustix::fs::getxattr(path, "system.sockprotoname", &mut name).ok()?;
    let name = name.get(..length)?.split(|byte| *byte == 0).next()?;
    String::from_utf8(name.to_vec()).ok()
}

/// The program that a process runs; empty where the kernel does not say.
pub(super) fn binary(pid: i32) -> String {
    std::fs::read_link(format!("/proc/{pid}/exe"))
        .map(|path| path.display().to_string())
        .unwrap_or_default()
}

/// The programs of its ancestors, nearest first, up to but without PID 1.
pub(super) fn ancestors(pid: i32) -> Vec<String> {
    let mut found = Vec::new();
    let mut at = pid;
    while found.len() < MAX_ANCESTORS {
        let Some(parent) = parent(at) else { break };
        if parent <= 1 {
            break;
        }
        found.push(binary(parent));
        at = parent;
    }
    found
}

fn parent(pid: i32) -> Option<i32> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    parent_in(&stat)
}

/// The name in parentheses may hold anything, so what counts begins behind the last one.
pub(super) fn parent_in(stat: &str) -> Option<i32> {
    stat.rsplit_once(')')?
        .1
        .split_whitespace()
        .nth(1)?
        .parse()
        .ok()
}

/// Symbolic links beyond this are a loop, as for the kernel.
const MAX_LINKS: usize = 40;

/// Where a path leads for the caller, symbolic links followed one by one: what `/proc/self` is depends on who asks.
/// `None` if it leads nowhere.
pub(super) fn resolve(pid: i32, path: &Path) -> Option<PathBuf> {
    let mut done = if path.is_absolute() {
        PathBuf::from("/")
    } else {
        std::fs::read_link(format!("/proc/{pid}/cwd")).ok()?
    };
    let mut rest: Vec<OsString> = steps(path);
    let mut links = 0;
    while let Some(step) = rest.pop() {
        if step == ".." {
            done.pop();
            continue;
        }
        if done == Path::new("/proc") && step == "self" {
            done.push(pid.to_string());
            continue;
        }
        if done == Path::new("/proc") && step == "thread-self" {
            done.extend([&pid.to_string(), "task", &pid.to_string()]);
            continue;
        }
        done.push(step);
        if !std::fs::symlink_metadata(&done).ok()?.is_symlink() {
            continue;
        }
        links += 1;
        if links > MAX_LINKS {
            return None;
        }
        let target = std::fs::read_link(&done).ok()?;
        if target.is_absolute() {
            done = PathBuf::from("/");
        } else {
            done.pop();
        }
        rest.extend(steps(&target));
    }
    Some(done)
}

/// The steps of a path, last first.
fn steps(path: &Path) -> Vec<OsString> {
    path.components()
        .rev()
        .filter_map(|c| match c {
            Component::Normal(name) => Some(name.to_owned()),
            Component::ParentDir => Some("..".into()),
            Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
        })
        .collect()
}
