//! The two runtime binaries that the gateway carries. Each is opened once and read as it is needed: a package
//! upgrade under a running gateway does not change what it delivers, and nothing is held in memory.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use bytes::Bytes;
use futures_util::{Stream, stream};
use openshell_lifecycle::driver::{DriverError, DriverErrorKind};
use ring::digest::{Context, SHA256};

/// Small enough to be reused by the allocator rather than to leave holes.
const CHUNK: usize = 64 * 1024;

/// A static ELF binary on disk, held open.
#[derive(Clone, Debug)]
pub struct Binary {
    file: Arc<File>,
    path: PathBuf,
    len: u64,
    architecture: &'static str,
    mark: u32,
    modified: SystemTime,
}

impl Binary {
    /// Opens it and reads its ELF header.
    pub fn open(path: &Path) -> Result<Self, DriverError> {
        let fail = |why: String| {
            DriverError::new(
                DriverErrorKind::Invalid,
                format!(
                    "the runtime binary {} cannot be used: {why}; reinstall the gateway, or point its configuration at the right directory",
                    path.display()
                ),
            )
        };
        let file = File::open(path).map_err(|e| fail(e.to_string()))?;
        let facts = file.metadata().map_err(|e| fail(e.to_string()))?;
        let len = facts.len();
        let modified = facts.modified().map_err(|e| fail(e.to_string()))?;
        let mut header = [0u8; 20];
        file.read_exact_at(&mut header, 0)
            .map_err(|e| fail(e.to_string()))?;
        let architecture = elf_architecture(&header)
            .ok_or_else(|| fail("it is not a Linux binary for x86-64 or arm64".to_owned()))?;
        let mut binary = Self {
            file: Arc::new(file),
            path: path.to_owned(),
            len,
            architecture,
            mark: 0,
            modified,
        };
        binary.mark = binary.content_mark().map_err(|e| fail(e.to_string()))?;
        Ok(binary)
    }

    /// Stands for the contents, in 31 bits. It is written as the time of last modification of what is delivered, by
    /// which a container that has this very binary already is known.
    pub const fn mark(&self) -> u32 {
        self.mark
    }

    fn content_mark(&self) -> io::Result<u32> {
        let mut hash = Context::new(&SHA256);
        for chunk in self.chunks() {
            hash.update(&chunk?);
        }
        let mut first = [0; 4];
        first.copy_from_slice(&hash.finish().as_ref()[..4]);
        Ok(u32::from_be_bytes(first) >> 1)
    }

    /// In the words of images: `amd64`, `arm64`.
    pub const fn architecture(&self) -> &'static str {
        self.architecture
    }

    /// Its length in bytes.
    pub const fn len(&self) -> u64 {
        self.len
    }

    /// Whether it is empty; an opened one never is.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Its bytes from the beginning, exactly [`len`](Self::len) of them or an error.
    pub fn chunks(&self) -> impl Iterator<Item = io::Result<Bytes>> + Send + use<> {
        let file = Arc::clone(&self.file);
        let path = self.path.clone();
        let len = self.len;
        let mut at = 0;
        std::iter::from_fn(move || {
            if at >= len {
                return None;
            }
            let want = CHUNK.min(usize::try_from(len - at).unwrap_or(CHUNK));
            let mut chunk = vec![0; want];
            if let Err(error) = file.read_exact_at(&mut chunk, at) {
                at = len;
                return Some(Err(io::Error::new(
                    error.kind(),
                    format!("{}: {error}", path.display()),
                )));
            }
            at += want as u64;
            Some(Ok(Bytes::from(chunk)))
        })
    }

    /// The same as a stream. One that was written over since it was opened is an error: half of it would be another.
    pub fn stream(&self) -> impl Stream<Item = Result<Bytes, DriverError>> + Send + use<> {
        let refused = self.overwritten().map(Err);
        let chunks = self.chunks().map(|chunk| {
            chunk.map_err(|e| {
                DriverError::new(
                    DriverErrorKind::Engine,
                    format!("reading a runtime binary failed: {e}"),
                )
            })
        });
        stream::iter(refused.into_iter().chain(chunks))
    }

    fn overwritten(&self) -> Option<DriverError> {
        let now = self.file.metadata();
        let same = now.is_ok_and(|facts| {
            facts.len() == self.len && facts.modified().is_ok_and(|at| at == self.modified)
        });
        (!same).then(|| {
            DriverError::new(
                DriverErrorKind::Invalid,
                format!(
                    "{} was written over while the gateway runs; restart the gateway",
                    self.path.display()
                ),
            )
        })
    }
}

fn elf_architecture(header: &[u8; 20]) -> Option<&'static str> {
    // Magic, 64 bits, little-endian; e_machine at 18.
    if header[..6] != *b"\x7fELF\x02\x01" {
        return None;
    }
    match u16::from_le_bytes([header[18], header[19]]) {
        62 => Some("amd64"),
        183 => Some("arm64"),
        _ => None,
    }
}
