//! Files in and out of a sandbox's working directory, as tar archives.

use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures_util::{StreamExt as _, stream};
use openshell_core::bootstrap::WORKSPACE;
use openshell_lifecycle::LifecycleFence;
use openshell_lifecycle::driver::{ByteStream, DriverError, DriverErrorKind};
use openshell_proto::plus::{self, upload_chunk};
use tonic::{Status, Streaming};

use super::Inner;
use super::exec::first_message;
use super::orders::named;
use crate::status;
use crate::stream::Answer;

const MAX_PATH: usize = 4096;

/// A path in the working directory, made absolute and free of `.` and `..` without asking any file system.
pub(super) fn inside(field: &str, text: &str) -> Result<PathBuf, Status> {
    let refuse = |why: &str| Err(status::invalid(field, why));
    if text.len() > MAX_PATH {
        return refuse("is too long");
    }
    if text.contains('\0') {
        return refuse("contains a NUL byte");
    }
    let root = Path::new(WORKSPACE);
    let mut path = PathBuf::from("/");
    for part in root.join(text).components() {
        match part {
            Component::Normal(part) => path.push(part),
            Component::ParentDir => {
                path.pop();
            }
            Component::CurDir | Component::RootDir | Component::Prefix(_) => {}
        }
    }
    if path.starts_with(root) {
        return Ok(path);
    }
    refuse("must lie in /sandbox, the sandbox's working directory")
}

impl<F: LifecycleFence> Inner<F> {
    pub(super) async fn download(
        &self,
        request: plus::DownloadRequest,
    ) -> Result<Answer<plus::FileChunk>, Status> {
        let path = inside("path", &request.path)?;
        let record = self.find(request.workspace_scope, "sandbox", &request.sandbox)?;
        let archive = self
            .fence
            .read_archive(record.meta.id, path)
            .await
            .map_err(|e| named(e, &record))?;
        Ok(Box::pin(archive.map(|chunk| {
            chunk
                .map(|data| plus::FileChunk { data })
                .map_err(|e| status::driver(&e))
        })))
    }

    pub(super) async fn upload(
        &self,
        mut chunks: Streaming<plus::UploadChunk>,
    ) -> Result<plus::UploadResponse, Status> {
        let first = chunks.message().await?.and_then(|c| c.chunk);
        let Some(upload_chunk::Chunk::Start(start)) = first else {
            return Err(first_message("start"));
        };
        let directory = inside("start.directory", &start.directory)?;
        let record = self.find(start.workspace_scope, "start.sandbox", &start.sandbox)?;
        let count = Arc::new(AtomicU64::new(0));
        self.fence
            .write_archive(
                record.meta.id,
                directory,
                archive(chunks, Arc::clone(&count)),
            )
            .await
            .map_err(|e| named(e, &record))?;
        Ok(plus::UploadResponse {
            bytes: count.load(Ordering::Relaxed),
        })
    }
}

/// A client that breaks off breaks the archive: it must not look like its end.
fn archive(chunks: Streaming<plus::UploadChunk>, count: Arc<AtomicU64>) -> ByteStream {
    let invalid = |why: String| DriverError::new(DriverErrorKind::Invalid, why);
    Box::pin(stream::try_unfold(
        (chunks, count),
        move |(mut chunks, count)| async move {
            let next = chunks
                .message()
                .await
                .map_err(|e| invalid(format!("the upload broke off: {}", e.message())))?;
            match next.map(|c| c.chunk) {
                None => Ok(None),
                Some(Some(upload_chunk::Chunk::Data(data))) => {
                    count.fetch_add(data.len() as u64, Ordering::Relaxed);
                    Ok(Some((data, (chunks, count))))
                }
                Some(_) => Err(invalid("only data follows the first chunk".to_owned())),
            }
        },
    ))
}

#[cfg(test)]
mod tests;
