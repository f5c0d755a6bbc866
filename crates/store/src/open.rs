//! Opening: directory, files and their modes, the lock, SQLite's settings.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, ErrorCode};

use crate::StoreError;
use crate::lock::StoreLock;
use crate::schema::{MIGRATIONS, migrate};

const BUSY: Duration = Duration::from_secs(5);

/// A store in a file, locked for this process.
pub(crate) fn on_disk(path: &Path) -> Result<(Connection, StoreLock), StoreError> {
    let failed = |what: &str, e: &dyn std::fmt::Display| {
        StoreError::Failed(format!(
            "the store {} {what}: {e}; check that its directory exists, is yours and can be written",
            path.display()
        ))
    };
    if let Some(directory) = path.parent().filter(|d| !d.as_os_str().is_empty()) {
        private_directory(directory).map_err(|e| failed("has no directory", &e))?;
    }
    let lock = StoreLock::take(path)?;
    // Made before SQLite does, with its mode; SQLite gives `-wal` and `-shm` the mode of the main file.
    private_file(path).map_err(|e| failed("cannot be opened", &e))?;
    let mut connection = Connection::open(path).map_err(|e| failed("cannot be opened", &e))?;
    configure(&connection)
        .and_then(|()| migrate(&mut connection, Some(path), MIGRATIONS))
        .map_err(|e| match e {
            StoreError::Failed(why) if !why.contains(&*path.to_string_lossy()) => {
                StoreError::Failed(format!("the store {}: {why}", path.display()))
            }
            other => other,
        })?;
    Ok((connection, lock))
}

/// A store that ends with its process.
pub(crate) fn in_memory() -> Result<Connection, StoreError> {
    let mut connection = Connection::open_in_memory()?;
    migrate(&mut connection, None, MIGRATIONS)?;
    Ok(connection)
}

fn configure(connection: &Connection) -> Result<(), StoreError> {
    connection.busy_timeout(BUSY)?;
    let mode: String = connection.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0))?;
    if !mode.eq_ignore_ascii_case("wal") {
        return Err(StoreError::Failed(format!(
            "the file system does not support SQLite's write-ahead log (it says {mode:?}); \
             put the store on a local disk"
        )));
    }
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update(None, "foreign_keys", "ON")?;
    connection.pragma_update(None, "trusted_schema", "OFF")?;
    // What is deleted is overwritten: environments may hold secrets.
    connection.pragma_update(None, "secure_delete", "FAST")?;
    Ok(())
}

fn private_directory(directory: &Path) -> io::Result<()> {
    match fs::metadata(directory) {
        Ok(found) if found.is_dir() => {
            if found.permissions().mode() & 0o077 != 0 {
                tracing::warn!(
                    directory = %directory.display(),
                    "the store's directory is open to other users; its files are not"
                );
            }
            Ok(())
        }
        Ok(_) => Err(io::Error::other(format!(
            "{} is not a directory",
            directory.display()
        ))),
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            fs::DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(directory)?;
            // A umask may have taken away the owner's bits too.
            fs::set_permissions(directory, fs::Permissions::from_mode(0o700))
        }
        Err(e) => Err(e),
    }
}

/// Makes or opens a file that only its owner may read, whatever the umask.
pub(crate) fn private_file(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(path)?;
    if file.metadata()?.permissions().mode() & 0o777 != 0o600 {
        file.set_permissions(fs::Permissions::from_mode(0o600))?;
    }
    Ok(file)
}

impl From<rusqlite::Error> for StoreError {
    fn from(e: rusqlite::Error) -> Self {
        let hint = match e.sqlite_error_code() {
            Some(ErrorCode::DiskFull) => "the disk is full; free some space",
            Some(ErrorCode::ReadOnly) => "it is read-only; make its file and directory writable",
            Some(ErrorCode::CannotOpen) => {
                "its files cannot be opened; check their owner and permissions"
            }
            Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt) => {
                "its file is damaged or not a database; restore a backup"
            }
            Some(ErrorCode::SystemIoFailure) => "the disk failed; check the kernel's log",
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
                "another program holds it; end that program"
            }
            _ => return Self::Failed(format!("the store failed: {e}")),
        };
        Self::Failed(format!("{hint} ({e})"))
    }
}
