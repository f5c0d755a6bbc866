//! Private files: 0600 in 0700 directories whatever the umask, written whole or not at all, and on the disk when
//! the call returns.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

/// For us alone.
pub(crate) const PRIVATE_FILE: u32 = 0o600;
const PRIVATE_DIR: u32 = 0o700;

/// Makes a directory, with its parents, for us alone. One that is there is left as it is: it may be shared, and
/// what we put into it has modes of its own.
pub(crate) fn private_dir(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    if let Some(parent) = path.parent()
        && !parent.as_os_str().is_empty()
    {
        private_dir(parent)?;
    }
    match DirBuilder::new().mode(PRIVATE_DIR).create(path) {
        // Somebody else was quicker.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
        Err(error) => Err(error),
        // The umask may have taken away the owner's bits too.
        Ok(()) => fs::set_permissions(path, Permissions::from_mode(PRIVATE_DIR)),
    }
}

/// Writes a private file: a new one beside it, flushed, renamed over it, and the directory flushed.
pub(crate) fn write_private(path: &Path, contents: &[u8]) -> io::Result<()> {
    let directory = path.parent().unwrap_or(Path::new("."));
    let name = path
        .file_name()
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "not a file name"))?;
    let mut draft = std::ffi::OsString::from(".");
    draft.push(name);
    draft.push(format!(".{}.new", std::process::id()));
    let draft = directory.join(draft);
    let written = write_new(&draft, contents).and_then(|()| fs::rename(&draft, path));
    if written.is_err() {
        // The error that counts is the first one.
        let _ = fs::remove_file(&draft);
    }
    written?;
    sync_dir(directory)
}

fn write_new(path: &Path, contents: &[u8]) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(PRIVATE_FILE)
        .open(path)?;
    file.set_permissions(Permissions::from_mode(PRIVATE_FILE))?;
    file.write_all(contents)?;
    file.sync_all()
}

/// Makes renames in a directory durable.
pub(crate) fn sync_dir(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}
