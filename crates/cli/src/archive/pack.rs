//! Packs a local file or directory, under the name that it shall have.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::Path;

use tar::{Builder, EntryType, Header};

/// What was left out, and why.
pub(crate) type Skipped = Vec<String>;

/// Writes `local` as `name` (an empty name: the contents of a directory). Sockets, devices and pipes are
/// left out and told. Owners are not kept: files belong to the sandbox's user.
pub(crate) fn pack<W: Write>(local: &Path, name: &Path, out: W) -> io::Result<Skipped> {
    let mut tar = Builder::new(out);
    let mut skipped = Skipped::new();
    append(&mut tar, local, name, &mut skipped)?;
    let mut out = tar.into_inner()?;
    out.flush()?;
    Ok(skipped)
}

fn append<W: Write>(
    tar: &mut Builder<W>,
    local: &Path,
    name: &Path,
    skipped: &mut Skipped,
) -> io::Result<()> {
    let at = |e: io::Error| io::Error::new(e.kind(), format!("{}: {e}", local.display()));
    // What the user names may be a link to it; links below are kept as links.
    let top = name.components().count() <= 1;
    let meta = if top {
        fs::metadata(local)
    } else {
        fs::symlink_metadata(local)
    }
    .map_err(at)?;
    let kind = meta.file_type();
    if kind.is_dir() {
        if !name.as_os_str().is_empty() {
            tar.append_data(
                &mut header(&meta, EntryType::Directory, 0),
                name,
                io::empty(),
            )
            .map_err(at)?;
        }
        let mut children: Vec<_> = fs::read_dir(local)
            .map_err(at)?
            .collect::<Result<_, _>>()
            .map_err(at)?;
        children.sort_by_key(fs::DirEntry::file_name);
        for child in children {
            append_child(tar, &child.path(), &name.join(child.file_name()), skipped)?;
        }
        return Ok(());
    }
    append_leaf(tar, local, name, &meta, skipped).map_err(at)
}

fn append_child<W: Write>(
    tar: &mut Builder<W>,
    local: &Path,
    name: &Path,
    skipped: &mut Skipped,
) -> io::Result<()> {
    let meta = fs::symlink_metadata(local)
        .map_err(|e| io::Error::new(e.kind(), format!("{}: {e}", local.display())))?;
    if meta.is_dir() {
        append(tar, local, name, skipped)
    } else {
        append_leaf(tar, local, name, &meta, skipped)
            .map_err(|e| io::Error::new(e.kind(), format!("{}: {e}", local.display())))
    }
}

fn append_leaf<W: Write>(
    tar: &mut Builder<W>,
    local: &Path,
    name: &Path,
    meta: &fs::Metadata,
    skipped: &mut Skipped,
) -> io::Result<()> {
    let kind = meta.file_type();
    if kind.is_symlink() {
        let target = fs::read_link(local)?;
        return tar.append_link(&mut header(meta, EntryType::Symlink, 0), name, target);
    }
    if kind.is_fifo() || kind.is_socket() || kind.is_block_device() || kind.is_char_device() {
        skipped.push(format!(
            "{}: neither a file, a directory nor a link",
            local.display()
        ));
        return Ok(());
    }
    let file = fs::File::open(local)?;
    // The length in the header is a promise: a file that grows is cut, one that shrinks is an error.
    let length = meta.len();
    let mut exact = Exact { file, left: length };
    tar.append_data(
        &mut header(meta, EntryType::Regular, length),
        name,
        &mut exact,
    )
}

fn header(meta: &fs::Metadata, kind: EntryType, size: u64) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_size(size);
    header.set_mode(meta.permissions().mode() & 0o777);
    header.set_mtime(u64::try_from(meta.mtime()).unwrap_or(0));
    header.set_uid(0);
    header.set_gid(0);
    header
}

/// Exactly so many bytes of a file.
struct Exact {
    file: fs::File,
    left: u64,
}

impl io::Read for Exact {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.left == 0 {
            return Ok(0);
        }
        let most = usize::try_from(self.left)
            .unwrap_or(usize::MAX)
            .min(buffer.len());
        let read = self.file.read(&mut buffer[..most])?;
        if read == 0 {
            return Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                "it became shorter while it was read",
            ));
        }
        self.left -= read as u64;
        Ok(read)
    }
}
