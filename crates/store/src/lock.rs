//! One gateway for each store: an OS lock beside it, which ends with its holder however that ends.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

use crate::StoreError;
use crate::open::private_file;

/// Held while the store is open.
pub(crate) struct StoreLock {
    _file: File,
}

impl StoreLock {
    /// Takes it, or says who has it.
    pub(crate) fn take(store: &Path) -> Result<Self, StoreError> {
        let path = lock_path(store);
        let failed = |e: &dyn std::fmt::Display| {
            StoreError::Failed(format!(
                "the lock {} cannot be taken: {e}; check that the directory is yours and can be written",
                path.display()
            ))
        };
        let mut file = private_file(&path).map_err(|e| failed(&e))?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(e) if e == rustix::io::Errno::WOULDBLOCK => {
                return Err(StoreError::Locked {
                    path: store.display().to_string(),
                    pid: holder(&mut file),
                });
            }
            Err(e) => return Err(failed(&e)),
        }
        file.set_len(0)
            .and_then(|()| file.seek(SeekFrom::Start(0)))
            .and_then(|_| writeln!(file, "{}", std::process::id()))
            .map_err(|e| failed(&e))?;
        Ok(Self { _file: file })
    }
}

fn lock_path(store: &Path) -> PathBuf {
    let mut name = store.as_os_str().to_owned();
    name.push(".lock");
    PathBuf::from(name)
}

fn holder(file: &mut File) -> u32 {
    let mut text = String::new();
    // Ten digits and a newline; more is not a pid.
    match file.take(16).read_to_string(&mut text) {
        Ok(_) => text.trim().parse().unwrap_or(0),
        Err(_) => 0,
    }
}
