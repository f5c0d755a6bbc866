//! Finds the supervisor's socket: at once when it appears, without looking for it all the time.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::inotify;
use tokio::io::unix::AsyncFd;
use tokio::net::UnixStream;
use tokio::time::sleep;

use crate::sys;

/// With a watch: covers a socket that is there but not listened on yet.
const WATCHED_RETRY: Duration = Duration::from_millis(50);
/// Without one, if the directory may not be read.
const FIRST_RETRY: Duration = Duration::from_millis(2);
const LAST_RETRY: Duration = Duration::from_millis(10);

/// Where the supervisor listens, and who it must be.
pub(super) struct Dialer {
    socket: PathBuf,
    supervisor: u32,
}

impl Dialer {
    /// For one socket.
    pub(super) fn new(socket: PathBuf, supervisor: u32) -> Self {
        Self { socket, supervisor }
    }

    /// Connects, however long it takes: the caller sets the deadline. `note` hears of peers that are not ours.
    pub(super) async fn dial(&self, note: impl Fn(String)) -> UnixStream {
        let watch = self.socket.parent().and_then(|d| Watch::new(d).ok());
        let mut retry = FIRST_RETRY;
        let mut noted = false;
        loop {
            match self.attempt().await {
                Ok(stream) => return stream,
                Err(e) if e.kind() == io::ErrorKind::PermissionDenied && !noted => {
                    noted = true;
                    note(format!("the link socket {}: {e}", self.socket.display()));
                }
                Err(_) => {}
            }
            match &watch {
                Some(watch) => {
                    tokio::select! {
                        () = watch.changed() => {}
                        () = sleep(WATCHED_RETRY) => {}
                    }
                }
                None => {
                    sleep(retry).await;
                    retry = (retry * 2).min(LAST_RETRY);
                }
            }
        }
    }

    async fn attempt(&self) -> io::Result<UnixStream> {
        let stream = UnixStream::connect(&self.socket).await?;
        let peer = stream.peer_cred()?.uid();
        if peer != self.supervisor {
            return Err(io::Error::new(
                io::ErrorKind::PermissionDenied,
                format!(
                    "its listener runs as uid {peer}, the supervisor is uid {}",
                    self.supervisor
                ),
            ));
        }
        Ok(stream)
    }
}

/// A watch on the directory of the socket.
struct Watch(AsyncFd<OwnedFd>);

impl Watch {
    fn new(directory: &Path) -> io::Result<Self> {
        let fd = inotify::init(inotify::CreateFlags::NONBLOCK | inotify::CreateFlags::CLOEXEC)?;
        let what = inotify::WatchFlags::CREATE
            | inotify::WatchFlags::MOVED_TO
            | inotify::WatchFlags::ATTRIB;
        inotify::add_watch(&fd, directory, what)?;
        Ok(Self(sys::watched(fd)?))
    }

    async fn changed(&self) {
        let mut buffer = [0; 1024];
        let Ok(mut ready) = self.0.readable().await else {
            return std::future::pending().await;
        };
        // What happened does not matter, only that something did: take it all.
        while rustix::io::read(self.0.get_ref(), &mut buffer).is_ok() {}
        ready.clear_ready();
    }
}

#[cfg(test)]
mod tests;
