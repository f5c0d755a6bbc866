//! Archives of every common format, cut into pieces of every size.

use futures_util::{StreamExt, stream};

use super::*;

const USER: UserIds = UserIds { uid: 7, gid: 8 };

async fn rewritten(archive: &[u8], piece: usize) -> Result<Vec<u8>, DriverError> {
    let pieces: Vec<_> = archive
        .chunks(piece)
        .map(|chunk| Ok(Bytes::copy_from_slice(chunk)))
        .collect();
    let (mut stream, broken) = owned_by(USER, Box::pin(stream::iter(pieces)));
    let mut out = Vec::new();
    while let Some(chunk) = stream.next().await {
        match chunk {
            Ok(chunk) => out.extend_from_slice(&chunk),
            Err(error) => {
                assert_eq!(broken.take(), Some(error.clone()));
                return Err(error);
            }
        }
    }
    Ok(out)
}

/// A directory, a file, a long name, a link, and (pax) an owner and a size in an extended header.
fn sample(gnu: bool) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    let header = |kind, size| {
        let mut header = if gnu {
            tar::Header::new_gnu()
        } else {
            tar::Header::new_ustar()
        };
        header.set_entry_type(kind);
        header.set_size(size);
        header.set_uid(1234);
        header.set_gid(1234);
        header.set_username("root").unwrap();
        header.set_groupname("root").unwrap();
        header.set_mode(0o640);
        header
    };
    let mut add = |kind, path: &str, data: &[u8]| {
        let mut header = header(kind, data.len() as u64);
        builder.append_data(&mut header, path, data).unwrap();
    };
    add(tar::EntryType::Directory, "d", b"");
    add(tar::EntryType::Regular, "d/f", &[1; 1000]);
    let long = format!("d/{}", "n".repeat(if gnu { 200 } else { 90 }));
    add(tar::EntryType::Regular, &long, b"");
    if !gnu {
        builder
            .append_pax_extensions([
                ("uid", &b"4000000"[..]),
                ("path", b"d/pax"),
                ("gname", b"root"),
            ])
            .unwrap();
        let mut last = header(tar::EntryType::Regular, 3);
        last.set_path("short").unwrap();
        last.set_cksum();
        builder.append(&last, &b"abc"[..]).unwrap();
    }
    builder.into_inner().unwrap()
}

#[tokio::test]
async fn every_member_changes_its_owner_and_nothing_else() {
    for gnu in [true, false] {
        let before = sample(gnu);
        let whole = rewritten(&before, before.len()).await.unwrap();
        for piece in [1, 7, 511, 512, 513, 4096] {
            assert_eq!(rewritten(&before, piece).await.unwrap(), whole, "{piece}");
        }
        assert_eq!(whole.len(), before.len());
        let mut seen = Vec::new();
        let mut archive = tar::Archive::new(whole.as_slice());
        for entry in archive.entries().unwrap() {
            let mut entry = entry.unwrap();
            let extensions: Vec<_> = entry
                .pax_extensions()
                .unwrap()
                .into_iter()
                .flatten()
                .map(|e| e.unwrap().key().unwrap().to_owned())
                .collect();
            assert!(!extensions.iter().any(|key| key == "uid" || key == "gname"));
            let header = entry.header();
            assert_eq!((header.uid().unwrap(), header.gid().unwrap()), (7, 8));
            assert_eq!(header.mode().unwrap(), 0o640);
            assert_eq!(header.username_bytes().map(<[u8]>::len), Some(0));
            seen.push(entry.path().unwrap().to_string_lossy().into_owned());
            let mut data = Vec::new();
            std::io::Read::read_to_end(&mut entry, &mut data).unwrap();
            assert_eq!(data.len() as u64, entry.size());
        }
        let last = if gnu { "d/nnn" } else { "d/pax" };
        assert!(seen.last().unwrap().starts_with(last), "{seen:?}");
    }
}

#[tokio::test]
async fn what_is_not_a_whole_archive_is_refused() {
    let good = sample(true);
    for bad in [&good[..700], &good[..100], &[7; 512][..]] {
        assert!(rewritten(bad, 512).await.is_err());
    }
    let mut sparse = good.clone();
    sparse[156] = b'S';
    let refused = rewritten(&sparse, 512).await.unwrap_err();
    assert!(refused.message.contains("sparse"), "{refused}");
}

#[tokio::test]
async fn an_oversized_extended_header_is_refused_before_it_is_held() {
    let mut header = tar::Header::new_ustar();
    header.set_entry_type(tar::EntryType::XHeader);
    header.set_size(MAX_EXTENDED + 1);
    header.set_cksum();
    assert!(rewritten(header.as_bytes(), 512).await.is_err());
}
