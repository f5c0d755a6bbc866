//! Small tar archives in memory, and large members that pass through as streams.

use bytes::Bytes;
use openshell_lifecycle::driver::{DriverError, DriverErrorKind};

use crate::identity::UserIds;

/// The tar block.
pub const BLOCK: u64 = 512;

/// The root user, who owns what nobody inside may change.
pub const ROOT: UserIds = UserIds { uid: 0, gid: 0 };

/// Builds the bytes of an archive, piece by piece.
#[derive(Default)]
pub struct Writer(Vec<u8>);

impl Writer {
    /// A directory.
    pub fn directory(
        &mut self,
        path: &str,
        mode: u32,
        owner: UserIds,
    ) -> Result<&mut Self, DriverError> {
        self.header(path, tar::EntryType::Directory, mode, owner, 0)
    }

    /// A file whose contents are at hand.
    pub fn file(
        &mut self,
        path: &str,
        mode: u32,
        owner: UserIds,
        contents: &[u8],
    ) -> Result<&mut Self, DriverError> {
        self.header(
            path,
            tar::EntryType::Regular,
            mode,
            owner,
            contents.len() as u64,
        )?;
        self.0.extend_from_slice(contents);
        Ok(self.padding(contents.len() as u64))
    }

    /// The header of a member; `size` bytes of contents and [`padding`](Self::padding) have to follow.
    pub fn header(
        &mut self,
        path: &str,
        kind: tar::EntryType,
        mode: u32,
        owner: UserIds,
        size: u64,
    ) -> Result<&mut Self, DriverError> {
        self.header_at(path, kind, mode, owner, size, 0)
    }

    /// Likewise, with a time of last modification.
    pub fn header_at(
        &mut self,
        path: &str,
        kind: tar::EntryType,
        mode: u32,
        owner: UserIds,
        size: u64,
        modified: u32,
    ) -> Result<&mut Self, DriverError> {
        let mut header = tar::Header::new_gnu();
        header.set_path(path).map_err(|e| {
            DriverError::new(
                DriverErrorKind::Invalid,
                format!("the path {path:?} does not fit an archive: {e}"),
            )
        })?;
        header.set_entry_type(kind);
        header.set_mode(mode);
        header.set_uid(u64::from(owner.uid));
        header.set_gid(u64::from(owner.gid));
        header.set_mtime(u64::from(modified));
        header.set_size(size);
        header.set_cksum();
        self.0.extend_from_slice(header.as_bytes());
        Ok(self)
    }

    /// Fills the last block of a member of this size.
    pub fn padding(&mut self, size: u64) -> &mut Self {
        let short = (BLOCK - size % BLOCK) % BLOCK;
        self.0.resize(self.0.len() + short as usize, 0);
        self
    }

    /// What has been written so far, without an end.
    pub fn take(&mut self) -> Bytes {
        Bytes::from(std::mem::take(&mut self.0))
    }

    /// The end of the archive.
    pub fn finish(&mut self) -> Bytes {
        self.0.resize(self.0.len() + 2 * BLOCK as usize, 0);
        self.take()
    }
}
