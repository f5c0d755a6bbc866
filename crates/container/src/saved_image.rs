//! Images that are made here: `FROM scratch`, one layer, named after their own content, loaded into the engine
//! whenever they are not there. No registry is needed.

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use openshell_lifecycle::driver::{ByteStream, DriverError, DriverErrorKind};
use ring::digest::{Context, SHA256, digest};
use serde_json::{Value, json};

use crate::archive::{ROOT, Writer};
use crate::binary::Binary;
use crate::labels;

/// A stretch of a layer.
#[derive(Clone, Debug)]
pub(crate) enum Piece {
    /// At hand.
    Bytes(Bytes),
    /// The contents of a binary; its header stands before it.
    Binary(Binary),
}

/// An image, ready to be loaded.
#[derive(Clone, Debug)]
pub(crate) struct SavedImage {
    layer: Vec<Piece>,
    config: String,
    tag: String,
}

impl SavedImage {
    /// Describes the image of a layer (a whole tar archive): reads it once, for its hash.
    pub(crate) fn new(
        repository: &str,
        architecture: &str,
        mut config: Value,
        layer: Vec<Piece>,
    ) -> Result<Self, DriverError> {
        let mut hash = Context::new(&SHA256);
        for piece in &layer {
            match piece {
                Piece::Bytes(bytes) => hash.update(bytes),
                Piece::Binary(binary) => {
                    for chunk in binary.chunks() {
                        hash.update(&chunk.map_err(|e| {
                            DriverError::new(
                                DriverErrorKind::Invalid,
                                format!("reading a runtime binary failed: {e}"),
                            )
                        })?);
                    }
                }
            }
        }
        config["Labels"] = json!({ labels::MANAGED_BY: labels::OPENSHELL });
        let config = json!({
            "architecture": architecture,
            "os": "linux",
            "created": "1970-01-01T00:00:00Z",
            "config": config,
            "rootfs": { "type": "layers", "diff_ids": [format!("sha256:{}", hex(hash.finish().as_ref()))] },
            "history": [{ "created": "1970-01-01T00:00:00Z", "created_by": "openshell-gateway" }],
        })
        .to_string();
        // The configuration names the layer by its hash, so its own hash covers everything.
        let hash = hex(digest(&SHA256, config.as_bytes()).as_ref());
        Ok(Self {
            layer,
            config,
            tag: format!("{repository}:{}", &hash[..16]),
        })
    }

    /// `<repository>:<content hash>`.
    pub(crate) fn tag(&self) -> &str {
        &self.tag
    }

    /// The saved image, as engines load it.
    pub(crate) fn archive(&self) -> Result<ByteStream, DriverError> {
        let len = self.layer.iter().map(Piece::len).sum();
        let manifest = json!([{
            "Config": "config.json",
            "RepoTags": [self.tag],
            "Layers": ["layer.tar"],
        }])
        .to_string();
        let head = Writer::default()
            .file("manifest.json", 0o644, ROOT, manifest.as_bytes())?
            .file("config.json", 0o644, ROOT, self.config.as_bytes())?
            .header("layer.tar", tar::EntryType::Regular, 0o644, ROOT, len)?
            .take();
        let tail = Writer::default().padding(len).finish();
        let layer = stream::iter(self.layer.clone()).flat_map(Piece::stream);
        Ok(Box::pin(
            stream::iter([Ok(head)])
                .chain(layer)
                .chain(stream::iter([Ok(tail)])),
        ))
    }
}

impl Piece {
    fn len(&self) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::Binary(binary) => binary.len(),
        }
    }

    fn stream(self) -> ByteStream {
        match self {
            Self::Bytes(bytes) => Box::pin(stream::iter([Ok(bytes)])),
            Self::Binary(binary) => Box::pin(binary.stream()),
        }
    }
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
