//! Packing what is ours; refusing what a sandbox must not do to us.

use std::fs;
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use tar::{EntryType, Header};

use super::*;

/// An archive with one entry under a name that the builder would refuse to write.
fn entry(kind: EntryType, name: &str, link: &str, data: &[u8]) -> Vec<u8> {
    let mut header = Header::new_old();
    let raw = header.as_mut_bytes();
    raw[..name.len()].copy_from_slice(name.as_bytes());
    raw[157..157 + link.len()].copy_from_slice(link.as_bytes());
    header.set_entry_type(kind);
    header.set_size(data.len() as u64);
    header.set_mode(0o4755);
    header.set_mtime(1_000_000_000);
    header.set_cksum();
    let mut bytes = header.as_bytes().to_vec();
    bytes.extend_from_slice(data);
    bytes.resize(bytes.len().next_multiple_of(512), 0);
    bytes
}

fn archive(entries: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = entries.concat();
    bytes.resize(bytes.len() + 1024, 0);
    bytes
}

struct Fixture {
    root: tempfile::TempDir,
}

impl Fixture {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("dest")).unwrap();
        fs::write(root.path().join("outside"), "untouched").unwrap();
        Self { root }
    }

    fn unpack(&self, entries: &[Vec<u8>]) -> std::io::Result<Unpacked> {
        unpack(&*archive(entries), &self.root.path().join("dest"), None)
    }

    fn nothing_outside_changed(&self) {
        let mut names: Vec<_> = fs::read_dir(self.root.path())
            .unwrap()
            .map(|e| e.unwrap().file_name())
            .collect();
        names.sort();
        assert_eq!(names, ["dest", "outside"]);
        assert_eq!(
            fs::read_to_string(self.root.path().join("outside")).unwrap(),
            "untouched"
        );
    }
}

#[test]
fn a_name_that_leads_outside_is_refused_and_nothing_is_written_there() {
    for name in ["../outside", "/outside", "a/../../outside", ".."] {
        let f = Fixture::new();
        let error = f
            .unpack(&[entry(EntryType::Regular, name, "", b"evil")])
            .unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::InvalidData, "{name}");
        f.nothing_outside_changed();
    }
}

#[test]
fn a_link_that_points_outside_is_left_out_and_told() {
    for link in [
        "/etc/passwd",
        "../outside",
        "x/../../outside",
        "../dest/../outside",
    ] {
        let f = Fixture::new();
        let done = f
            .unpack(&[entry(EntryType::Symlink, "link", link, b"")])
            .unwrap();
        assert_eq!(done.skipped.len(), 1, "{link}");
        assert!(fs::symlink_metadata(f.root.path().join("dest/link")).is_err());
    }
}

#[test]
fn links_that_stay_inside_are_kept() {
    let f = Fixture::new();
    let done = f
        .unpack(&[
            entry(EntryType::Regular, "a/file", "", b"x"),
            entry(EntryType::Symlink, "a/b/link", "../file", b""),
        ])
        .unwrap();
    assert!(done.skipped.is_empty());
    assert_eq!(
        fs::read_to_string(f.root.path().join("dest/a/b/link")).unwrap(),
        "x"
    );
}

#[test]
fn nothing_is_written_through_a_link_that_was_there_before() {
    let f = Fixture::new();
    symlink("..", f.root.path().join("dest/up")).unwrap();
    f.unpack(&[entry(EntryType::Regular, "up/outside", "", b"evil")])
        .unwrap_err();
    f.nothing_outside_changed();
    symlink("../outside", f.root.path().join("dest/file")).unwrap();
    f.unpack(&[entry(EntryType::Regular, "file", "", b"new")])
        .unwrap();
    f.nothing_outside_changed();
}

#[test]
fn a_chain_of_links_cannot_lead_outside() {
    let f = Fixture::new();
    let done = f
        .unpack(&[
            entry(EntryType::Directory, "deep", "", b""),
            entry(EntryType::Symlink, "deep/l", "..", b""),
            entry(EntryType::Symlink, "m", "deep/l/..", b""),
        ])
        .unwrap();
    assert_eq!(done.skipped.len(), 1);
    f.unpack(&[entry(EntryType::Regular, "deep/l/x", "", b"evil")])
        .unwrap_err();
    f.nothing_outside_changed();
}

#[test]
fn a_hard_link_to_a_link_or_to_outside_is_refused() {
    let f = Fixture::new();
    f.unpack(&[entry(EntryType::Link, "h", "../outside", b"")])
        .unwrap_err();
    symlink("../outside", f.root.path().join("dest/s")).unwrap();
    f.unpack(&[entry(EntryType::Link, "h", "s", b"")])
        .unwrap_err();
    f.nothing_outside_changed();
}

#[test]
fn devices_are_left_out_and_set_uid_bits_are_dropped() {
    let f = Fixture::new();
    let done = f
        .unpack(&[
            entry(EntryType::Char, "null", "", b""),
            entry(EntryType::Fifo, "pipe", "", b""),
            entry(EntryType::Regular, "tool", "", b"#!"),
        ])
        .unwrap();
    assert_eq!((done.entries, done.skipped.len()), (1, 2));
    let meta = fs::metadata(f.root.path().join("dest/tool")).unwrap();
    assert_eq!(meta.permissions().mode() & 0o7777, 0o755);
}

#[test]
fn a_cut_archive_is_an_error() {
    let f = Fixture::new();
    let whole = entry(EntryType::Regular, "a", "", &[7; 2000]);
    unpack(&whole[..1000], &f.root.path().join("dest"), None).unwrap_err();
}

#[test]
fn what_is_packed_unpacks_to_the_same_under_another_name() {
    let root = tempfile::tempdir().unwrap();
    let from = root.path().join("from");
    fs::create_dir_all(from.join("sub/empty")).unwrap();
    fs::write(from.join("sub/tool"), vec![9; 100_000]).unwrap();
    fs::set_permissions(from.join("sub/tool"), fs::Permissions::from_mode(0o750)).unwrap();
    symlink("tool", from.join("sub/link")).unwrap();
    fs::write(from.join(format!("{}.txt", "long".repeat(50))), "long name").unwrap();

    let mut bytes = Vec::new();
    assert!(
        pack(&from, Path::new("name"), &mut bytes)
            .unwrap()
            .is_empty()
    );
    let done = unpack(&*bytes, root.path(), Some(Path::new("to"))).unwrap();
    assert_eq!(done.bytes, 100_000 + 9);
    let to = root.path().join("to");
    assert_eq!(fs::read(to.join("sub/link")).unwrap().len(), 100_000);
    assert!(to.join("sub/empty").is_dir());
    assert_eq!(
        fs::metadata(to.join("sub/tool"))
            .unwrap()
            .permissions()
            .mode()
            & 0o777,
        0o750
    );

    let contents = root.path().join("contents");
    fs::create_dir(&contents).unwrap();
    unpack(&*bytes, &contents, Some(Path::new(""))).unwrap();
    assert!(contents.join("sub/tool").exists());
}

#[test]
fn sockets_and_pipes_are_not_packed() {
    let root = tempfile::tempdir().unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(root.path().join("socket")).unwrap();
    let mut bytes = Vec::new();
    assert_eq!(
        pack(root.path(), Path::new("d"), &mut bytes).unwrap().len(),
        1
    );
    assert!(!bytes.is_empty());
}

#[test]
fn chunks_come_out_as_they_went_in() {
    let (tx, rx) = tokio::sync::mpsc::channel(2);
    let sent: Vec<u8> = (0..200_000_u32).map(|i| i as u8).collect();
    let copy = sent.clone();
    let writer = std::thread::spawn(move || {
        let mut writer = ChunkWriter::new(tx);
        writer.write_all(&copy).unwrap();
        writer.flush().unwrap();
    });
    let mut got = Vec::new();
    std::io::Read::read_to_end(&mut ChunkReader::new(rx), &mut got).unwrap();
    writer.join().unwrap();
    assert_eq!(got, sent);
}
