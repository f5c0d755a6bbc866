//! The ends of a process's input and output that stay here: pipes, or one pseudo terminal for all three.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use bytes::Bytes;
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::pty::OpenptFlags;
use rustix::termios::Winsize;
use tokio::io::unix::AsyncFd;

use crate::sys;

/// One read; well below the bound of a message.
pub(crate) const CHUNK: usize = 32 * 1024;

/// One end, read and written without blocking the thread.
#[derive(Debug, Clone)]
pub(crate) struct End(Arc<AsyncFd<OwnedFd>>);

impl End {
    fn new(fd: OwnedFd) -> io::Result<Self> {
        rustix::io::ioctl_fionbio(&fd, true)?;
        Ok(Self(Arc::new(sys::watched(fd)?)))
    }

    /// The next bytes; `None` at the end.
    pub(crate) async fn read(&self, buffer: &mut [u8]) -> io::Result<Option<Bytes>> {
        loop {
            let mut ready = self.0.readable().await?;
            match self.try_read(buffer) {
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => ready.clear_ready(),
                other => return other,
            }
        }
    }

    /// What is there at once; an error of kind `WouldBlock` if nothing is.
    pub(crate) fn try_read(&self, buffer: &mut [u8]) -> io::Result<Option<Bytes>> {
        loop {
            return match rustix::io::read(self.0.get_ref(), &mut *buffer) {
                Ok(0) => Ok(None),
                Ok(n) => Ok(Some(Bytes::copy_from_slice(&buffer[..n]))),
                // A terminal that nobody holds open any more.
                Err(Errno::IO) => Ok(None),
                Err(Errno::INTR) => continue,
                Err(e) => Err(e.into()),
            };
        }
    }

    /// Writes all of it.
    pub(crate) async fn write(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let mut ready = self.0.writable().await?;
            match rustix::io::write(self.0.get_ref(), bytes) {
                Ok(n) => bytes = &bytes[n..],
                Err(Errno::AGAIN) => ready.clear_ready(),
                Err(Errno::INTR) => {}
                Err(e) => return Err(e.into()),
            }
        }
        Ok(())
    }

    /// Tells a terminal its size.
    pub(crate) fn resize(&self, cols: u32, rows: u32) {
        // A size that does not fit, or something that is no terminal, changes nothing.
        let _no_terminal = rustix::termios::tcsetwinsize(self.0.get_ref(), size(cols, rows));
    }
}

fn size(cols: u32, rows: u32) -> Winsize {
    let fit = |n: u32, or: u16| match u16::try_from(n) {
        Ok(0) | Err(_) => or,
        Ok(n) => n,
    };
    Winsize {
        ws_col: fit(cols, 80),
        ws_row: fit(rows, 24),
        ws_xpixel: 0,
        ws_ypixel: 0,
    }
}

/// Our ends.
#[derive(Debug)]
pub(crate) struct Ours {
    /// To its standard input.
    pub(crate) stdin: End,
    /// From its standard output.
    pub(crate) stdout: End,
    /// From its standard error; none with a terminal.
    pub(crate) stderr: Option<End>,
}

/// Its ends: 0, 1, 2.
#[derive(Debug)]
pub(crate) struct Theirs(pub(crate) [OwnedFd; 3]);

/// Three pipes.
pub(crate) fn pipes() -> io::Result<(Ours, Theirs)> {
    let (stdin, to) = pipe_with(PipeFlags::CLOEXEC)?;
    let (from, stdout) = pipe_with(PipeFlags::CLOEXEC)?;
    let (from_err, stderr) = pipe_with(PipeFlags::CLOEXEC)?;
    let ours = Ours {
        stdin: End::new(to)?,
        stdout: End::new(from)?,
        stderr: Some(End::new(from_err)?),
    };
    Ok((ours, Theirs([stdin, stdout, stderr])))
}

/// A pseudo terminal.
pub(crate) fn terminal(cols: u32, rows: u32) -> io::Result<(Ours, Theirs)> {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let master = rustix::pty::openpt(flags)?;
    rustix::pty::unlockpt(&master)?;
    rustix::termios::tcsetwinsize(&master, size(cols, rows))?;
    let slave = rustix::pty::ioctl_tiocgptpeer(&master, flags)?;
    let theirs = Theirs([slave.try_clone()?, slave.try_clone()?, slave]);
    let end = End::new(master)?;
    let ours = Ours {
        stdin: end.clone(),
        stdout: end,
        stderr: None,
    };
    Ok((ours, theirs))
}
