//! `sandbox upload|download`, with the naming rules of `docker cp`.

use std::io::Write;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use clap::{Args, ValueHint};
use clap_complete::ArgValueCandidates;
use openshell_proto::plus;
use tokio::sync::mpsc;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Streaming};

use crate::archive::{ChunkReader, ChunkWriter, Unpacked, pack, unpack};
use crate::complete;
use crate::connect::Gateway;
use crate::error::{CliError, CliResult};
use crate::exit::Exit;
use crate::global::GlobalArgs;
use crate::output::say;

/// The working directory of every sandbox.
const HOME: &str = "/sandbox";
/// Chunks under way.
const DEPTH: usize = 4;

/// `openshell sandbox upload`
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  openshell sandbox upload demo main.py              # to /sandbox/main.py\n  \
    openshell sandbox upload demo src lib               # to lib/src if lib exists, else to lib\n  \
    openshell sandbox upload demo src/. lib             # the contents of src\n\n\
    Sockets, pipes and devices are left out; the files belong to the sandbox's user."
)]
pub(crate) struct UploadArgs {
    /// The sandbox's name
    #[arg(add = ArgValueCandidates::new(complete::sandboxes))]
    name: String,
    /// A file or a directory here
    #[arg(value_hint = ValueHint::AnyPath)]
    local: PathBuf,
    /// Where to put it: absolute, or relative to /sandbox
    #[arg(default_value = HOME)]
    dest: String,
}

/// `openshell sandbox download`
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  openshell sandbox download demo out.txt            # to ./out.txt\n  \
    openshell sandbox download demo result /tmp/r       # to /tmp/r/result if /tmp/r exists, else to /tmp/r\n  \
    openshell sandbox download demo result/. .          # the contents of result\n  \
    openshell sandbox download demo result - | tar t    # the archive itself\n\n\
    Works in every phase in which the sandbox's files exist. Links that point outside and devices are left out."
)]
pub(crate) struct DownloadArgs {
    /// The sandbox's name
    #[arg(add = ArgValueCandidates::new(complete::sandboxes))]
    name: String,
    /// A file or a directory in the sandbox: absolute, or relative to /sandbox
    path: String,
    /// Where to put it
    #[arg(default_value = ".", value_hint = ValueHint::AnyPath)]
    dest: PathBuf,
}

/// What lies at a path in a sandbox.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Remote {
    Nothing,
    File,
    Directory,
}

/// Where an upload goes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Place {
    /// A directory that exists.
    pub(super) directory: String,
    /// The name in it; empty for the contents of a directory.
    pub(super) name: PathBuf,
}

impl UploadArgs {
    /// Copies into the sandbox.
    pub(crate) async fn run(self, global: &GlobalArgs) -> CliResult<Exit> {
        let what = format!("{} could not be uploaded", self.local.display());
        let local = CliError::local(what.as_str());
        let meta = std::fs::metadata(&self.local)
            .map_err(|e| local.why(format!("{}: {e}", self.local.display())))?;
        let gateway = Gateway::connect(global).await?;
        let dest = absolute(&self.dest);
        let remote = if dest == HOME {
            Remote::Directory
        } else {
            look(&gateway, &self.name, &dest).await?
        };
        let contents = self.local.as_os_str().as_encoded_bytes().ends_with(b"/.");
        let base = std::path::absolute(&self.local)
            .ok()
            .and_then(|p| p.file_name().map(PathBuf::from));
        let base = if contents {
            PathBuf::new()
        } else {
            base.unwrap_or_default()
        };
        let place = place(
            &base,
            meta.is_dir(),
            &dest,
            self.dest.ends_with('/'),
            remote,
        )
        .map_err(|why| CliError::new(Exit::Conflict, what.as_str()).why(why))?;
        let (bytes, skipped) = self.send(&gateway, place, &what).await?;
        for line in &skipped {
            say(format_args!("left out: {line}"));
        }
        say(format_args!("{bytes} bytes uploaded"));
        Ok(Exit::Done)
    }

    async fn send(
        &self,
        gateway: &Gateway,
        place: Place,
        what: &str,
    ) -> CliResult<(u64, Vec<String>)> {
        let start = plus::UploadChunk {
            chunk: Some(plus::upload_chunk::Chunk::Start(plus::UploadStart {
                workspace_scope: gateway.scope(),
                sandbox: self.name.clone(),
                directory: place.directory,
            })),
        };
        let (data, packed) = mpsc::channel::<Bytes>(DEPTH);
        let local = self.local.clone();
        let packing =
            tokio::task::spawn_blocking(move || pack(&local, &place.name, ChunkWriter::new(data)));
        let (checked, chunks) = mpsc::channel::<plus::UploadChunk>(DEPTH);
        let request = tokio_stream::once(start).chain(ReceiverStream::new(chunks));
        let mut plus = gateway.plus();
        let call = plus.upload(request);
        tokio::pin!(call);
        // The stream must not end in good order if packing failed: the gateway would unpack a part.
        let relay = relay(packed, packing, checked);
        tokio::pin!(relay);
        let (answer, skipped) = tokio::select! {
            answer = &mut call => (answer, None),
            skipped = &mut relay => {
                let skipped = skipped.map_err(|e| CliError::local(what).why(e.to_string()))?;
                (call.await, Some(skipped))
            }
        };
        let answer = answer.map_err(|s| gateway.failed(what, &s))?.into_inner();
        Ok((answer.bytes, skipped.unwrap_or_default()))
    }
}

/// Passes packed chunks on. Its end closes the upload only if everything was packed.
async fn relay(
    mut packed: mpsc::Receiver<Bytes>,
    packing: tokio::task::JoinHandle<std::io::Result<Vec<String>>>,
    out: mpsc::Sender<plus::UploadChunk>,
) -> std::io::Result<Vec<String>> {
    while let Some(data) = packed.recv().await {
        let chunk = plus::UploadChunk {
            chunk: Some(plus::upload_chunk::Chunk::Data(data)),
        };
        if out.send(chunk).await.is_err() {
            // The gateway has answered already; its answer is what counts.
            std::future::pending::<()>().await;
        }
    }
    packing.await.map_err(std::io::Error::other)?
}

/// `docker cp`'s rules: into a directory that exists, else under the name given.
pub(super) fn place(
    base: &Path,
    is_dir: bool,
    dest: &str,
    slash: bool,
    remote: Remote,
) -> Result<Place, String> {
    let (parent, name) = dest.rsplit_once('/').unwrap_or(("", dest));
    let parent = if parent.is_empty() { "/" } else { parent };
    let beside = |name: &str| Place {
        directory: parent.to_owned(),
        name: PathBuf::from(name),
    };
    match remote {
        Remote::Directory => Ok(Place {
            directory: dest.to_owned(),
            name: base.to_owned(),
        }),
        Remote::File if is_dir => Err(format!(
            "{dest} in the sandbox is a file, and a directory cannot replace it"
        )),
        Remote::File if slash => Err(format!("{dest} in the sandbox is a file, not a directory")),
        Remote::File => Ok(beside(name)),
        Remote::Nothing if slash && !is_dir => {
            Err(format!("there is no directory {dest} in the sandbox"))
        }
        Remote::Nothing => Ok(beside(name)),
    }
}

/// As the sandbox sees it, without `.` at its end and without a trailing slash.
fn absolute(path: &str) -> String {
    let mut clean = String::new();
    let from_root = if path.starts_with('/') {
        path.to_owned()
    } else {
        format!("{HOME}/{path}")
    };
    for part in from_root.split('/').filter(|p| !p.is_empty() && *p != ".") {
        clean.push('/');
        clean.push_str(part);
    }
    if clean.is_empty() {
        "/".to_owned()
    } else {
        clean
    }
}

/// Looks what lies at a path: the first header of its archive tells.
async fn look(gateway: &Gateway, name: &str, path: &str) -> CliResult<Remote> {
    let request = plus::DownloadRequest {
        workspace_scope: gateway.scope(),
        sandbox: name.to_owned(),
        path: path.to_owned(),
    };
    let failed = |s: &tonic::Status| {
        gateway.failed(
            format!("{path} in sandbox {name:?} could not be looked at"),
            s,
        )
    };
    let mut head = Vec::with_capacity(512);
    let mut stream = match gateway.plus().download(request).await {
        Ok(answer) => answer.into_inner(),
        Err(s) if is_absent(&s) => return absent(gateway, name).await,
        Err(s) => return Err(failed(&s)),
    };
    while head.len() < 512 {
        match stream.message().await {
            Ok(Some(chunk)) => head.extend_from_slice(&chunk.data),
            Ok(None) => break,
            Err(s) if is_absent(&s) => return absent(gateway, name).await,
            Err(s) => return Err(failed(&s)),
        }
    }
    // The type flag of a tar header.
    Ok(match head.get(156) {
        Some(b'5') => Remote::Directory,
        Some(_) => Remote::File,
        None => Remote::Nothing,
    })
}

/// A path that the engine cannot give; if it is one that may not be used at all, the upload will say so.
fn is_absent(status: &tonic::Status) -> bool {
    matches!(status.code(), Code::NotFound | Code::InvalidArgument)
}

/// Not found: the path, or the sandbox?
async fn absent(gateway: &Gateway, name: &str) -> CliResult<Remote> {
    super::get(gateway, name).await.map(|_| Remote::Nothing)
}

impl DownloadArgs {
    /// Copies out of the sandbox.
    pub(crate) async fn run(self, global: &GlobalArgs) -> CliResult<Exit> {
        let what = format!(
            "{} could not be downloaded from sandbox {:?}",
            self.path, self.name
        );
        let path = absolute(&self.path);
        let contents = self.path.ends_with("/.") || self.path == ".";
        let gateway = Gateway::connect(global).await?;
        let request = plus::DownloadRequest {
            workspace_scope: gateway.scope(),
            sandbox: self.name.clone(),
            path,
        };
        let stream = gateway.plus().download(request).await;
        let stream = stream
            .map_err(|s| gateway.failed(what.as_str(), &s))?
            .into_inner();
        if self.dest.as_os_str() == "-" {
            return to_stdout(&gateway, stream, &what).await;
        }
        let (into, rename) =
            target(&self.dest, contents).map_err(|why| CliError::local(what.as_str()).why(why))?;
        let done = receive(&gateway, stream, into, rename, &what).await?;
        for line in &done.skipped {
            say(format_args!("left out: {line}"));
        }
        say(format_args!("{} bytes downloaded", done.bytes));
        Ok(Exit::Done)
    }
}

/// Where to unpack, and under which name the archive's top shall lie (none: its own).
pub(super) fn target(dest: &Path, contents: bool) -> Result<(PathBuf, Option<PathBuf>), String> {
    if dest.is_dir() {
        return Ok((dest.to_owned(), contents.then(PathBuf::new)));
    }
    if dest.as_os_str().as_encoded_bytes().ends_with(b"/") {
        return Err(format!("there is no directory {}", dest.display()));
    }
    let name = dest
        .file_name()
        .ok_or_else(|| format!("{} is not a place for a file", dest.display()))?;
    let parent = match dest.parent() {
        Some(p) if !p.as_os_str().is_empty() => p.to_owned(),
        _ => PathBuf::from("."),
    };
    if !parent.is_dir() {
        return Err(format!("there is no directory {}", parent.display()));
    }
    Ok((parent, Some(PathBuf::from(name))))
}

async fn to_stdout(
    gateway: &Gateway,
    mut stream: Streaming<plus::FileChunk>,
    what: &str,
) -> CliResult<Exit> {
    while let Some(chunk) = stream
        .message()
        .await
        .map_err(|s| gateway.failed(what, &s))?
    {
        let written = std::io::stdout().lock().write_all(&chunk.data);
        written.map_err(|e| CliError::local(what).why(e.to_string()))?;
    }
    Ok(Exit::Done)
}

async fn receive(
    gateway: &Gateway,
    mut stream: Streaming<plus::FileChunk>,
    into: PathBuf,
    rename: Option<PathBuf>,
    what: &str,
) -> CliResult<Unpacked> {
    let (data, chunks) = mpsc::channel(DEPTH);
    let unpacking = tokio::task::spawn_blocking(move || {
        unpack(ChunkReader::new(chunks), &into, rename.as_deref())
    });
    let mut broken = None;
    loop {
        match stream.message().await {
            // A closed channel: unpacking has ended, and says why.
            Ok(Some(chunk)) => {
                if data.send(chunk.data).await.is_err() {
                    break;
                }
            }
            Ok(None) => break,
            Err(status) => {
                broken = Some(gateway.failed(what, &status));
                break;
            }
        }
    }
    drop(data);
    let result = unpacking.await;
    if let Some(error) = broken {
        return Err(error);
    }
    result
        .unwrap_or_else(|e| Err(std::io::Error::other(e)))
        .map_err(|e| CliError::local(what).why(e.to_string()))
}

#[cfg(test)]
mod tests {
    //! The naming rules.
    use super::*;

    fn put(
        base: &str,
        is_dir: bool,
        dest: &str,
        remote: Remote,
    ) -> Result<(String, String), String> {
        let slash = dest.ends_with('/');
        place(Path::new(base), is_dir, &absolute(dest), slash, remote)
            .map(|p| (p.directory, p.name.display().to_string()))
    }

    #[test]
    fn an_upload_goes_into_a_directory_that_exists_and_else_under_the_name_given() {
        let ok = |d: &str, n: &str| Ok((d.to_owned(), n.to_owned()));
        assert_eq!(
            put("a", false, "/sandbox", Remote::Directory),
            ok("/sandbox", "a")
        );
        assert_eq!(
            put("a", false, "sub", Remote::Directory),
            ok("/sandbox/sub", "a")
        );
        assert_eq!(
            put("a", false, "sub/b", Remote::Nothing),
            ok("/sandbox/sub", "b")
        );
        assert_eq!(put("a", false, "b", Remote::File), ok("/sandbox", "b"));
        assert_eq!(
            put("d", true, "new/", Remote::Nothing),
            ok("/sandbox", "new")
        );
        assert!(put("a", false, "new/", Remote::Nothing).is_err());
        assert!(put("d", true, "b", Remote::File).is_err());
        assert!(put("a", false, "b/", Remote::File).is_err());
    }

    #[test]
    fn a_path_is_relative_to_the_working_directory() {
        for (path, clean) in [
            ("a", "/sandbox/a"),
            ("./a/.", "/sandbox/a"),
            ("/x//y/", "/x/y"),
            (".", "/sandbox"),
            ("/", "/"),
        ] {
            assert_eq!(absolute(path), clean, "{path}");
        }
    }

    #[test]
    fn a_download_lands_in_a_directory_that_exists_or_under_the_name_given() {
        let dir = tempfile::tempdir().unwrap();
        let d = dir.path();
        assert_eq!(target(d, false).unwrap(), (d.to_owned(), None));
        assert_eq!(
            target(d, true).unwrap(),
            (d.to_owned(), Some(PathBuf::new()))
        );
        assert_eq!(
            target(&d.join("new"), false).unwrap(),
            (d.to_owned(), Some("new".into()))
        );
        assert!(target(&d.join("no/where"), false).is_err());
    }
}
