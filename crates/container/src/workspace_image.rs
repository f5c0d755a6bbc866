//! The image of an empty workspace that belongs to one user. A container made from it, and never started, has the
//! engine give a new workspace volume that owner: far cheaper than an archive call, for which Docker forks itself.

use openshell_core::bootstrap::WORKSPACE;
use openshell_lifecycle::driver::DriverError;
use serde_json::json;

use crate::archive::Writer;
use crate::delivery::relative;
use crate::identity::UserIds;
use crate::saved_image::{Piece, SavedImage};

/// The images' repository.
pub const REPOSITORY: &str = "openshell-workspace";

/// Describes the image for a user.
pub(crate) fn workspace_image(
    architecture: &str,
    user: UserIds,
) -> Result<SavedImage, DriverError> {
    let layer = Writer::default()
        .directory(relative(WORKSPACE), 0o755, user)?
        .finish();
    let config = json!({ "User": user.to_string(), "WorkingDir": "/" });
    SavedImage::new(REPOSITORY, architecture, config, vec![Piece::Bytes(layer)])
}

#[cfg(test)]
mod tests;
