//! What is delivered to the two containers: files by one tar archive, where there is anything to renew; bootstraps
//! on standard input, so that their secrets never lie anywhere.

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use openshell_core::bootstrap::{RUNTIME_BINARY, SUPERVISOR_UID, WORKSPACE};
use openshell_lifecycle::driver::{ByteStream, DriverError, DriverErrorKind};
use serde::Serialize;

use crate::archive::{ROOT, Writer};
use crate::binary::Binary;
use crate::identity::UserIds;

/// Where the workload's archive is unpacked. Its members lie on the link volume and the workspace volume.
pub const WORKLOAD_DIRECTORY: &str = "/";

/// The supervisor's own user.
pub const SUPERVISOR: UserIds = UserIds {
    uid: SUPERVISOR_UID,
    gid: SUPERVISOR_UID,
};

/// What a workload lacks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Delivery {
    /// The workspace is to belong to this user.
    pub workspace_of: Option<UserIds>,
    /// The sandbox runtime.
    pub runtime: bool,
}

/// What the workload lacks, as an archive. The directory of the link socket is the supervisor's, and comes with its
/// image.
pub fn workload(runtime: &Binary, delivery: Delivery) -> Result<ByteStream, DriverError> {
    let mut head = Writer::default();
    if let Some(user) = delivery.workspace_of {
        head.directory(relative(WORKSPACE), 0o755, user)?;
    }
    if !delivery.runtime {
        return Ok(Box::pin(stream::iter([Ok(head.finish())])));
    }
    head.directory(parent(RUNTIME_BINARY), 0o755, ROOT)?
        .header_at(
            relative(RUNTIME_BINARY),
            tar::EntryType::Regular,
            0o755,
            ROOT,
            runtime.len(),
            runtime.mark(),
        )?;
    let head = head.take();
    let tail = Writer::default().padding(runtime.len()).finish();
    Ok(Box::pin(
        stream::iter([Ok(head)])
            .chain(runtime.stream())
            .chain(stream::iter([Ok(tail)])),
    ))
}

/// A bootstrap as its reader takes it.
pub fn bootstrap(value: &impl Serialize) -> Result<Bytes, DriverError> {
    serde_json::to_vec(value).map(Bytes::from).map_err(|e| {
        DriverError::new(
            DriverErrorKind::Invalid,
            format!("a bootstrap cannot be written as JSON: {e}"),
        )
    })
}

/// A path as a member of an archive that is unpacked at `/`.
pub(crate) fn relative(path: &str) -> &str {
    path.trim_start_matches('/')
}

pub(crate) fn parent(path: &str) -> &str {
    let path = relative(path);
    path.rsplit_once('/').map_or("", |(parent, _)| parent)
}

#[cfg(test)]
pub(crate) mod tests;
