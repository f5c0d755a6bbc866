//! What lies in the archive for a workload.

use futures_util::StreamExt;
use std::io::Read;

use super::*;

/// The beginning of a binary for x86-64, and some more.
pub(crate) fn binary() -> (tempfile::NamedTempFile, Binary) {
    let file = tempfile::NamedTempFile::new().unwrap();
    let mut bytes = vec![0u8; 700_001];
    bytes[..6].copy_from_slice(b"\x7fELF\x02\x01");
    bytes[18] = 62;
    std::fs::write(file.path(), bytes).unwrap();
    let binary = Binary::open(file.path()).unwrap();
    (file, binary)
}

pub(crate) async fn collect(mut stream: ByteStream) -> Vec<u8> {
    let mut all = Vec::new();
    while let Some(chunk) = stream.next().await {
        all.extend_from_slice(&chunk.unwrap());
    }
    all
}

#[tokio::test]
async fn the_runtime_belongs_to_root_and_the_workspace_to_the_user() {
    let (_file, binary) = binary();
    let user = UserIds { uid: 5, gid: 6 };
    let ground = |resolver| Delivery::Ground {
        owner: user,
        resolver,
    };
    for delivery in [ground(false), ground(true), Delivery::Runtime] {
        let archive = collect(delivery.archive(&binary).unwrap()).await;
        let mut archive = tar::Archive::new(archive.as_slice());
        let members: Vec<_> = archive
            .entries()
            .unwrap()
            .map(|entry| {
                let mut entry = entry.unwrap();
                let mut data = Vec::new();
                entry.read_to_end(&mut data).unwrap();
                let path = entry.path().unwrap().to_string_lossy().into_owned();
                let header = entry.header();
                let marked = header.mtime().unwrap() == u64::from(binary.mark());
                (
                    path,
                    header.uid().unwrap(),
                    header.mode().unwrap(),
                    data.len(),
                    marked,
                )
            })
            .collect();
        let member = |path: &str, uid, mode, len, marked| (path.to_owned(), uid, mode, len, marked);
        let workspace = member("sandbox", 5, 0o755, 0, false);
        let expected = match delivery {
            Delivery::Ground {
                resolver: false, ..
            } => vec![workspace],
            Delivery::Ground { resolver: true, .. } => vec![
                workspace,
                member(
                    "etc/resolv.conf",
                    0,
                    0o644,
                    "nameserver 127.0.0.53\n".len(),
                    false,
                ),
            ],
            // Below the directory that it is unpacked in.
            Delivery::Runtime => vec![
                member("bin", 0, 0o755, 0, false),
                member("bin/openshell-sandbox", 0, 0o755, 700_001, true),
            ],
        };
        assert_eq!(members, expected);
    }
}

#[test]
fn what_is_not_a_linux_binary_is_refused_with_its_path() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "#!/bin/sh\necho this is not it\n").unwrap();
    let error = Binary::open(file.path()).unwrap_err();
    assert!(error.message.contains(&file.path().display().to_string()));
    assert!(Binary::open(std::path::Path::new("/nowhere")).is_err());
}

#[test]
fn another_binary_has_another_mark() {
    let (file, first) = binary();
    let mut bytes = std::fs::read(file.path()).unwrap();
    bytes[100_000] = 1;
    let other = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(other.path(), bytes).unwrap();
    assert_ne!(first.mark(), Binary::open(other.path()).unwrap().mark());
}

#[tokio::test]
async fn a_binary_that_was_written_over_is_refused_with_the_way_out() {
    use futures_util::StreamExt as _;
    let (file, binary) = binary();
    std::fs::write(file.path(), b"\x7fELF\x02\x01 another one").unwrap();
    let first = Box::pin(binary.stream()).next().await.unwrap();
    assert!(first.unwrap_err().message.contains("restart the gateway"));
}
