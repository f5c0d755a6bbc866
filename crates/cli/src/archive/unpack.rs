//! Unpacks an archive that a sandbox's files came in. Nothing is written outside the destination, whatever
//! the archive says: no absolute name, no `..`, no writing through a link, no link that points outside, no
//! device, no set-uid bit.

use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt, symlink};
use std::path::{Component, Path, PathBuf};
use std::time::{Duration, SystemTime};

use tar::{Archive, Entry, EntryType};

/// What came of it.
#[derive(Debug, Default)]
pub(crate) struct Unpacked {
    /// Files, directories and links that were made.
    pub(crate) entries: u64,
    /// Bytes of files.
    pub(crate) bytes: u64,
    /// What was left out, and why.
    pub(crate) skipped: Vec<String>,
}

/// Unpacks below `into`. The archive's first component is replaced by `rename` if that is given (empty: its
/// contents go right into `into`).
pub(crate) fn unpack(
    archive: impl Read,
    into: &Path,
    rename: Option<&Path>,
) -> io::Result<Unpacked> {
    let mut archive = Archive::new(archive);
    let mut done = Unpacked::default();
    for entry in archive.entries()? {
        let mut entry = entry?;
        let name = entry.path()?.into_owned();
        let inside = renamed(&safe(&name)?, rename);
        if inside.as_os_str().is_empty() {
            // The destination itself, or the directory whose contents are wanted: it is there already.
            if entry.header().entry_type() != EntryType::Directory {
                return Err(refused(&name, "it takes the place of the destination"));
            }
            continue;
        }
        parents_are_directories(into, &inside, &name)?;
        write(&mut entry, into, &inside, rename, &mut done)?;
    }
    Ok(done)
}

fn write(
    entry: &mut Entry<'_, impl Read>,
    into: &Path,
    inside: &Path,
    rename: Option<&Path>,
    done: &mut Unpacked,
) -> io::Result<()> {
    let target = into.join(inside);
    let at = |e: io::Error| io::Error::new(e.kind(), format!("{}: {e}", target.display()));
    let mode = entry.header().mode()? & 0o777;
    match entry.header().entry_type() {
        EntryType::Directory => directory(&target, mode).map_err(at)?,
        EntryType::Regular | EntryType::Continuous | EntryType::GNUSparse => {
            done.bytes += file(entry, &target, mode).map_err(at)?;
        }
        EntryType::Symlink => {
            let link = entry.link_name()?.unwrap_or_default().into_owned();
            if !stays_inside(inside, &link) {
                done.skipped.push(format!(
                    "{}: a link to {}, outside",
                    inside.display(),
                    link.display()
                ));
                return Ok(());
            }
            clear(&target).map_err(at)?;
            symlink(&link, &target).map_err(at)?;
        }
        EntryType::Link => {
            let named = entry.link_name()?.unwrap_or_default().into_owned();
            let source = renamed(&safe(&named)?, rename);
            parents_are_directories(into, &source, &named)?;
            let source = into.join(source);
            // A link to a link would be followed later: only files are linked.
            if !fs::symlink_metadata(&source).map_err(at)?.is_file() {
                return Err(refused(&named, "a hard link to what is not a file"));
            }
            clear(&target).map_err(at)?;
            fs::hard_link(&source, &target).map_err(at)?;
        }
        kind => {
            done.skipped.push(format!(
                "{}: {kind:?}, neither a file, a directory nor a link",
                inside.display()
            ));
            return Ok(());
        }
    }
    done.entries += 1;
    Ok(())
}

fn directory(target: &Path, mode: u32) -> io::Result<()> {
    match fs::symlink_metadata(target) {
        Ok(meta) if meta.is_dir() => Ok(()),
        Ok(_) => Err(io::Error::new(
            io::ErrorKind::AlreadyExists,
            "a file is in the place of this directory",
        )),
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            fs::create_dir(target)?;
            // Whoever unpacks must be able to write into it.
            fs::set_permissions(target, fs::Permissions::from_mode(mode | 0o700))
        }
        Err(e) => Err(e),
    }
}

fn file(entry: &mut Entry<'_, impl Read>, target: &Path, mode: u32) -> io::Result<u64> {
    clear(target)?;
    let mut file = fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(target)?;
    let bytes = io::copy(entry, &mut file)?;
    file.set_permissions(fs::Permissions::from_mode(mode))?;
    let seconds = entry.header().mtime().unwrap_or(0);
    if let Some(time) = SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(seconds)) {
        file.set_modified(time)?;
    }
    Ok(bytes)
}

/// Makes room: a file or a link gives way, a directory does not.
fn clear(target: &Path) -> io::Result<()> {
    match fs::symlink_metadata(target) {
        Ok(meta) if meta.is_dir() => Err(io::Error::new(
            io::ErrorKind::AlreadyExists,
            "a directory is in the place of this file",
        )),
        Ok(_) => fs::remove_file(target),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(e) => Err(e),
    }
}

/// A name with nothing in it but names.
fn safe(name: &Path) -> io::Result<PathBuf> {
    let mut clean = PathBuf::new();
    for component in name.components() {
        match component {
            Component::Normal(part) => clean.push(part),
            Component::CurDir => {}
            Component::ParentDir => return Err(refused(name, "it contains '..'")),
            Component::RootDir | Component::Prefix(_) => {
                return Err(refused(name, "it is absolute"));
            }
        }
    }
    Ok(clean)
}

fn refused(name: &Path, why: &str) -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        format!(
            "the archive holds {:?}: {why}; it is not unpacked any further",
            name.display().to_string()
        ),
    )
}

fn renamed(name: &Path, rename: Option<&Path>) -> PathBuf {
    match rename {
        None => name.to_owned(),
        Some(first) => {
            let rest: PathBuf = name.components().skip(1).collect();
            if rest.as_os_str().is_empty() {
                first.to_owned()
            } else {
                first.join(rest)
            }
        }
    }
}

/// Everything between the destination and the entry must be a real directory; one that the archive did not
/// mention is made.
fn parents_are_directories(into: &Path, inside: &Path, name: &Path) -> io::Result<()> {
    let mut path = into.to_owned();
    for part in inside.parent().into_iter().flat_map(Path::components) {
        path.push(part);
        match fs::symlink_metadata(&path) {
            Ok(meta) if meta.is_dir() => {}
            Ok(_) => {
                return Err(refused(
                    name,
                    "it leads through something that is not a directory",
                ));
            }
            Err(e) if e.kind() == io::ErrorKind::NotFound => fs::create_dir(&path)?,
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

/// Whether a symbolic link at `inside` leads to a place inside. `..` only counts at its beginning, where the
/// directories above are known to be real ones.
fn stays_inside(inside: &Path, link: &Path) -> bool {
    let mut depth = inside.components().count().saturating_sub(1);
    let mut descended = false;
    for component in link.components() {
        match component {
            Component::ParentDir if descended || depth == 0 => return false,
            Component::ParentDir => depth -= 1,
            Component::Normal(_) => descended = true,
            Component::CurDir => {}
            Component::RootDir | Component::Prefix(_) => return false,
        }
    }
    !link.as_os_str().is_empty()
}
