//! The image that is loaded.

use std::io::Read;

use ring::digest::{SHA256, digest};

use super::*;
use crate::delivery::tests::{binary, collect};
use crate::saved_image::hex;

#[tokio::test]
async fn the_saved_image_is_whole_and_its_hashes_are_right() {
    let (_file, binary) = binary();
    let mark = u64::from(binary.mark());
    let image = supervisor_image(binary.clone(), binary).unwrap();
    let archive = collect(image.archive().unwrap()).await;
    let mut archive = tar::Archive::new(archive.as_slice());
    let members: std::collections::BTreeMap<_, _> = archive
        .entries()
        .unwrap()
        .map(|entry| {
            let mut entry = entry.unwrap();
            let mut data = Vec::new();
            entry.read_to_end(&mut data).unwrap();
            (entry.path().unwrap().to_string_lossy().into_owned(), data)
        })
        .collect();
    let config: serde_json::Value = serde_json::from_slice(&members["config.json"]).unwrap();
    let layer = &members["layer.tar"];
    assert_eq!(
        config["rootfs"]["diff_ids"][0],
        format!("sha256:{}", hex(digest(&SHA256, layer).as_ref()))
    );
    assert_eq!(config["config"]["User"], "65532:65532");
    let manifest: serde_json::Value = serde_json::from_slice(&members["manifest.json"]).unwrap();
    assert_eq!(manifest[0]["RepoTags"][0], image.tag());
    let mut layer = tar::Archive::new(layer.as_slice());
    let members: Vec<_> = layer
        .entries()
        .unwrap()
        .map(|entry| {
            let entry = entry.unwrap();
            let path = entry.path().unwrap().to_string_lossy().into_owned();
            let header = entry.header();
            (
                path,
                header.uid().unwrap(),
                header.mtime().unwrap(),
                header.size().unwrap(),
            )
        })
        .collect();
    // The runtime carries its mark, by which a kept workload is later known to hold it.
    assert_eq!(
        members,
        [
            (".openshell".to_owned(), 0, 0, 0),
            (".openshell/link".to_owned(), 65532, 0, 0),
            (".openshell/bin".to_owned(), 0, 0, 0),
            (
                ".openshell/bin/openshell-sandbox".to_owned(),
                0,
                mark,
                700_001
            ),
            ("openshell-supervisor".to_owned(), 0, 0, 700_001),
        ]
    );
}

#[test]
fn the_tag_follows_the_content_of_either_binary() {
    let (file, first) = binary();
    let tag = |supervisor: &Binary, runtime: &Binary| {
        let image = supervisor_image(supervisor.clone(), runtime.clone()).unwrap();
        image.tag().to_owned()
    };
    let one = tag(&first, &first);
    assert_eq!(one, tag(&first, &Binary::open(file.path()).unwrap()));
    let other = tempfile::NamedTempFile::new().unwrap();
    let mut bytes = std::fs::read(file.path()).unwrap();
    bytes.push(1);
    std::fs::write(other.path(), bytes).unwrap();
    let changed = Binary::open(other.path()).unwrap();
    assert_ne!(one, tag(&changed, &first));
    assert_ne!(one, tag(&first, &changed));
}
