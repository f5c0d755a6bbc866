//! The supervisor's image: `FROM scratch`, one static binary, named after its own content, made here and loaded
//! into the engine whenever it is not there. No registry is needed.

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use openshell_core::bootstrap::{LINK_DIRECTORY, RESERVED};
use openshell_lifecycle::driver::{ByteStream, DriverError, DriverErrorKind};
use ring::digest::{Context, SHA256, digest};
use serde_json::json;

use crate::archive::{ROOT, Writer};
use crate::binary::Binary;
use crate::delivery::{SUPERVISOR, relative};
use crate::labels;

/// The image's repository.
pub const REPOSITORY: &str = "openshell-supervisor";
/// Where its binary is.
pub const ENTRYPOINT: &str = "/openshell-supervisor";

/// The image, ready to be loaded.
#[derive(Clone, Debug)]
pub struct SupervisorImage {
    binary: Binary,
    config: String,
    tag: String,
}

impl SupervisorImage {
    /// Describes the image of a binary: reads it once, for its hash.
    pub fn new(binary: Binary) -> Result<Self, DriverError> {
        let mut hash = Context::new(&SHA256);
        let (head, tail) = layer_frame(&binary)?;
        hash.update(&head);
        for chunk in binary.chunks() {
            hash.update(&chunk.map_err(|e| {
                DriverError::new(
                    DriverErrorKind::Invalid,
                    format!("reading the supervisor's binary failed: {e}"),
                )
            })?);
        }
        hash.update(&tail);
        let config = json!({
            "architecture": binary.architecture(),
            "os": "linux",
            "created": "1970-01-01T00:00:00Z",
            "config": {
                "Entrypoint": [ENTRYPOINT],
                "User": SUPERVISOR.to_string(),
                "WorkingDir": "/",
                "Labels": { labels::MANAGED_BY: labels::OPENSHELL },
            },
            "rootfs": { "type": "layers", "diff_ids": [format!("sha256:{}", hex(hash.finish().as_ref()))] },
            "history": [{ "created": "1970-01-01T00:00:00Z", "created_by": "openshell-gateway" }],
        })
        .to_string();
        // The configuration names the layer by its hash, so its own hash covers everything.
        let hash = hex(digest(&SHA256, config.as_bytes()).as_ref());
        let tag = format!("{REPOSITORY}:{}", &hash[..16]);
        Ok(Self {
            binary,
            config,
            tag,
        })
    }

    /// `openshell-supervisor:<content hash>`.
    pub fn tag(&self) -> &str {
        &self.tag
    }

    /// The saved image, as engines load it.
    pub fn archive(&self) -> Result<ByteStream, DriverError> {
        let (layer_head, layer_tail) = layer_frame(&self.binary)?;
        let layer_len = layer_head.len() as u64 + self.binary.len() + layer_tail.len() as u64;
        let manifest = json!([{
            "Config": "config.json",
            "RepoTags": [self.tag],
            "Layers": ["layer.tar"],
        }])
        .to_string();
        let head = Writer::default()
            .file("manifest.json", 0o644, ROOT, manifest.as_bytes())?
            .file("config.json", 0o644, ROOT, self.config.as_bytes())?
            .header("layer.tar", tar::EntryType::Regular, 0o644, ROOT, layer_len)?
            .take();
        let tail = Writer::default().padding(layer_len).finish();
        Ok(Box::pin(
            stream::iter([Ok(head), Ok(layer_head)])
                .chain(self.binary.stream())
                .chain(stream::iter([Ok(layer_tail), Ok(tail)])),
        ))
    }
}

/// The layer before and after the binary's bytes: the mount point with the directory of the link socket, which an
/// engine copies into a new volume when it makes the container; then the binary.
fn layer_frame(binary: &Binary) -> Result<(Bytes, Bytes), DriverError> {
    let head = Writer::default()
        .directory(relative(RESERVED), 0o755, ROOT)?
        .directory(relative(LINK_DIRECTORY), 0o755, SUPERVISOR)?
        .header(
            relative(ENTRYPOINT),
            tar::EntryType::Regular,
            0o755,
            ROOT,
            binary.len(),
        )?
        .take();
    let tail = Writer::default().padding(binary.len()).finish();
    Ok((head, tail))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests;
