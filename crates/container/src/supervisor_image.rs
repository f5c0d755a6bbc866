//! The supervisor's image: its static binary, and what a new link volume is filled with: the directory of the link
//! socket, and the sandbox runtime.

use openshell_core::bootstrap::{LINK_DIRECTORY, RESERVED, RUNTIME_BINARY};
use openshell_lifecycle::driver::DriverError;
use serde_json::json;

use crate::archive::{ROOT, Writer};
use crate::binary::Binary;
use crate::delivery::{SUPERVISOR, parent, relative};
use crate::saved_image::{Piece, SavedImage};

/// The image's repository.
pub const REPOSITORY: &str = "openshell-supervisor";
/// Where its binary is.
pub const ENTRYPOINT: &str = "/openshell-supervisor";

/// Describes the image of both binaries.
pub(crate) fn supervisor_image(
    supervisor: Binary,
    runtime: Binary,
) -> Result<SavedImage, DriverError> {
    let config = json!({
        "Entrypoint": [ENTRYPOINT],
        "User": SUPERVISOR.to_string(),
        "WorkingDir": "/",
    });
    let architecture = supervisor.architecture();
    let (one, other) = (supervisor.len(), runtime.len());
    let directories = Writer::default()
        .directory(relative(RESERVED), 0o755, ROOT)?
        .directory(relative(LINK_DIRECTORY), 0o755, SUPERVISOR)?
        .directory(parent(RUNTIME_BINARY), 0o755, ROOT)?
        .header_at(
            relative(RUNTIME_BINARY),
            tar::EntryType::Regular,
            0o755,
            ROOT,
            other,
            runtime.mark(),
        )?
        .take();
    let between = Writer::default()
        .padding(other)
        .header(
            relative(ENTRYPOINT),
            tar::EntryType::Regular,
            0o755,
            ROOT,
            one,
        )?
        .take();
    let layer = vec![
        Piece::Bytes(directories),
        Piece::Binary(runtime),
        Piece::Bytes(between),
        Piece::Binary(supervisor),
        Piece::Bytes(Writer::default().padding(one).finish()),
    ];
    SavedImage::new(REPOSITORY, architecture, config, layer)
}

#[cfg(test)]
mod tests;
