//! What is delivered to the two containers: files by one tar archive, where there is anything to renew; bootstraps
//! on standard input, so that their secrets never lie anywhere.

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use openshell_core::bootstrap::{RESERVED, RUNTIME_BINARY, SUPERVISOR_UID, WORKSPACE};
use openshell_lifecycle::driver::{ByteStream, DriverError, DriverErrorKind};
use serde::Serialize;

use crate::archive::{ROOT, Writer};
use crate::binary::Binary;
use crate::identity::UserIds;
use crate::plan::RESOLVER;

/// The supervisor's own user.
pub const SUPERVISOR: UserIds = UserIds {
    uid: SUPERVISOR_UID,
    gid: SUPERVISOR_UID,
};

/// What a workload lacks, delivered as one archive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Delivery {
    /// What a new container stands on.
    Ground {
        /// To whom the workspace is to belong.
        owner: UserIds,
        /// Whether its file system is to say whom to ask for names.
        resolver: bool,
    },
    /// The sandbox runtime.
    Runtime,
}

impl Delivery {
    /// Where its archive is unpacked: the runtime on the link volume itself, because an engine that does not mount
    /// the volumes of a container that does not run would put it beside.
    pub const fn directory(self) -> &'static str {
        match self {
            Self::Ground { .. } => "/",
            Self::Runtime => RESERVED,
        }
    }

    /// The archive. The directory of the link socket is the supervisor's, and comes with its image.
    pub fn archive(self, runtime: &Binary) -> Result<ByteStream, DriverError> {
        match self {
            Self::Ground { owner, resolver } => ground(owner, resolver),
            Self::Runtime => whole_runtime(runtime),
        }
    }
}

fn ground(owner: UserIds, resolver: bool) -> Result<ByteStream, DriverError> {
    let mut archive = Writer::default();
    archive.directory(relative(WORKSPACE), 0o755, owner)?;
    if resolver {
        let text = format!("nameserver {RESOLVER}\n");
        archive.file("etc/resolv.conf", 0o644, ROOT, text.as_bytes())?;
    }
    Ok(Box::pin(stream::iter([Ok(archive.finish())])))
}

fn whole_runtime(runtime: &Binary) -> Result<ByteStream, DriverError> {
    let mut head = Writer::default();
    head.directory(parent(inside(RUNTIME_BINARY)), 0o755, ROOT)?
        .header_at(
            inside(RUNTIME_BINARY),
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

/// A path of the reserved tree as a member of an archive that is unpacked there.
fn inside(path: &str) -> &str {
    relative(path.strip_prefix(RESERVED).unwrap_or(path))
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
