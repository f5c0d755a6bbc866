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

/// Files that a workload lacks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Delivery {
    /// The workload's user.
    pub user: UserIds,
    /// The workspace is new, and is to belong to that user.
    pub new_workspace: bool,
}

/// Files for the workload: the runtime, and (with a new workspace) the workspace itself, so that it belongs to the
/// workload's user. The directory of the link socket is the supervisor's, and comes with its image.
pub fn workload(runtime: &Binary, delivery: Delivery) -> Result<ByteStream, DriverError> {
    let mut head = Writer::default();
    if delivery.new_workspace {
        head.directory(relative(WORKSPACE), 0o755, delivery.user)?;
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

fn parent(path: &str) -> &str {
    let path = relative(path);
    path.rsplit_once('/').map_or("", |(parent, _)| parent)
}

#[cfg(test)]
pub(crate) mod tests;
