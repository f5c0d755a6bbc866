//! What is put into the two containers before a run, as tar archives: one for each, so that each costs one call.

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use openshell_core::bootstrap::{
    LINK_DIRECTORY, RUNTIME_BINARY, SANDBOX_BOOTSTRAP, SUPERVISOR_BOOTSTRAP, SUPERVISOR_UID,
    SandboxBootstrap, SupervisorBootstrap, WORKSPACE,
};
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

/// For the workload: the runtime, its bootstrap, the directory of the link socket, and (with a new workspace)
/// the workspace itself, so that it belongs to the workload's user.
pub fn workload(
    runtime: &Binary,
    bootstrap: &SandboxBootstrap,
    user: UserIds,
    new_workspace: bool,
) -> Result<ByteStream, DriverError> {
    let (bin, boot) = (parent(RUNTIME_BINARY), parent(SANDBOX_BOOTSTRAP));
    let mut head = Writer::default();
    // The bootstrap first: a runtime that is there always finds it.
    head.directory(boot, 0o700, user)?
        .file(
            relative(SANDBOX_BOOTSTRAP),
            0o600,
            user,
            &json(bootstrap, "the sandbox's bootstrap")?,
        )?
        .directory(relative(LINK_DIRECTORY), 0o711, SUPERVISOR)?;
    if new_workspace {
        head.directory(relative(WORKSPACE), 0o755, user)?;
    }
    head.directory(bin, 0o755, ROOT)?.header(
        relative(RUNTIME_BINARY),
        tar::EntryType::Regular,
        0o755,
        ROOT,
        runtime.len(),
    )?;
    let head = head.take();
    let tail = Writer::default().padding(runtime.len()).finish();
    Ok(Box::pin(
        stream::iter([Ok(head)])
            .chain(runtime.stream())
            .chain(stream::iter([Ok(tail)])),
    ))
}

/// For the supervisor: its bootstrap, into its private volume.
pub fn supervisor(bootstrap: &SupervisorBootstrap) -> Result<ByteStream, DriverError> {
    let name = SUPERVISOR_BOOTSTRAP
        .rsplit('/')
        .next()
        .unwrap_or(SUPERVISOR_BOOTSTRAP);
    let archive = Writer::default()
        .file(
            name,
            0o600,
            SUPERVISOR,
            &json(bootstrap, "the supervisor's bootstrap")?,
        )?
        .finish();
    Ok(whole(archive))
}

/// An archive that is all there, as a stream.
pub fn whole(archive: Bytes) -> ByteStream {
    Box::pin(stream::iter([Ok(archive)]))
}

fn json(value: &impl Serialize, what: &str) -> Result<Vec<u8>, DriverError> {
    serde_json::to_vec(value).map_err(|e| {
        DriverError::new(
            DriverErrorKind::Invalid,
            format!("{what} cannot be written as JSON: {e}"),
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
mod tests;
