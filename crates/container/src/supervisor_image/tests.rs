//! The image that is loaded.

use std::io::Read;

use super::*;
use crate::delivery::tests::{binary, collect};

#[tokio::test]
async fn the_saved_image_is_whole_and_its_hashes_are_right() {
    let (_file, binary) = binary();
    let image = SupervisorImage::new(binary).unwrap();
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
    let names: Vec<_> = layer
        .entries()
        .unwrap()
        .map(|e| e.unwrap().path().unwrap().to_string_lossy().into_owned())
        .collect();
    assert_eq!(
        names,
        [".openshell", ".openshell/link", "openshell-supervisor"]
    );
}

#[test]
fn the_tag_follows_the_content() {
    let (file, first) = binary();
    let again = Binary::open(file.path()).unwrap();
    let (one, two) = (
        SupervisorImage::new(first).unwrap(),
        SupervisorImage::new(again).unwrap(),
    );
    assert_eq!(one.tag(), two.tag());
    let mut bytes = std::fs::read(file.path()).unwrap();
    bytes.push(1);
    std::fs::write(file.path(), bytes).unwrap();
    let changed = SupervisorImage::new(Binary::open(file.path()).unwrap()).unwrap();
    assert_ne!(one.tag(), changed.tag());
}
