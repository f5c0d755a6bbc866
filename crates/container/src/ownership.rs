//! Rewrites a passing tar archive so that everything in it belongs to one user. Not every engine can do that
//! itself, and an uploader's own ids mean nothing inside a sandbox.

use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use futures_util::Stream;
use openshell_lifecycle::driver::{ByteStream, DriverError, DriverErrorKind};

use crate::archive::BLOCK;
use crate::identity::UserIds;

/// The most that is held of one extended header.
const MAX_EXTENDED: u64 = 1 << 20;
const BLOCK_LEN: usize = BLOCK as usize;

/// What broke the archive on its way, if something did.
#[derive(Clone, Default)]
pub struct Broken(Arc<Mutex<Option<DriverError>>>);

impl Broken {
    /// Takes the cause.
    pub fn take(&self) -> Option<DriverError> {
        self.0.lock().ok()?.take()
    }

    fn put(&self, error: &DriverError) {
        if let Ok(mut cause) = self.0.lock() {
            *cause = Some(error.clone());
        }
    }
}

/// The same archive with another owner.
pub fn owned_by(user: UserIds, tar: ByteStream) -> (ByteStream, Broken) {
    let broken = Broken::default();
    let stream = Rewrite {
        tar,
        broken: broken.clone(),
        rewriter: Some(Rewriter::new(user)),
    };
    (Box::pin(stream), broken)
}

struct Rewrite {
    tar: ByteStream,
    broken: Broken,
    /// `None` once the stream has ended.
    rewriter: Option<Rewriter>,
}

impl Stream for Rewrite {
    type Item = Result<Bytes, DriverError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            if self.rewriter.is_none() {
                return Poll::Ready(None);
            }
            let next = match self.tar.as_mut().poll_next(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(next) => next,
            };
            let outcome = match (next, self.rewriter.as_mut()) {
                (Some(Ok(chunk)), Some(rewriter)) => rewriter.push(&chunk).map(Some),
                (Some(Err(e)), _) => Err(e),
                (None, Some(rewriter)) => rewriter.end().map(|()| None),
                (None, None) | (Some(Ok(_)), None) => Ok(None),
            };
            match outcome {
                Ok(Some(bytes)) if bytes.is_empty() => {}
                Ok(Some(bytes)) => return Poll::Ready(Some(Ok(bytes))),
                Ok(None) => {
                    self.rewriter = None;
                    return Poll::Ready(None);
                }
                Err(error) => {
                    self.rewriter = None;
                    self.broken.put(&error);
                    return Poll::Ready(Some(Err(error)));
                }
            }
        }
    }
}

/// What the next bytes are.
enum State {
    /// A header, or the end.
    Header,
    /// So many bytes of a member's contents and padding.
    Contents(u64),
    /// An extended header of this length, of which the padded length is collected.
    Extended { len: usize, padded: usize },
}

struct Rewriter {
    user: UserIds,
    state: State,
    held: BytesMut,
    /// A size that an extended header gives for the next member.
    size: Option<u64>,
}

impl Rewriter {
    fn new(user: UserIds) -> Self {
        Self {
            user,
            state: State::Header,
            held: BytesMut::new(),
            size: None,
        }
    }

    /// Takes a piece of the archive; gives what can go on.
    fn push(&mut self, mut chunk: &[u8]) -> Result<Bytes, DriverError> {
        let mut out = BytesMut::with_capacity(chunk.len() + BLOCK_LEN);
        while !chunk.is_empty() {
            match self.state {
                State::Contents(left) => {
                    let n = chunk.len().min(usize::try_from(left).unwrap_or(usize::MAX));
                    out.extend_from_slice(&chunk[..n]);
                    chunk = &chunk[n..];
                    self.state = after(left - n as u64);
                }
                State::Header => {
                    if self.fill(&mut chunk, BLOCK_LEN) {
                        let mut block = self.held.split();
                        self.header(&mut block)?;
                        out.extend_from_slice(&block);
                    }
                }
                State::Extended { len, padded } => {
                    if self.fill(&mut chunk, padded) {
                        let mut records = self.held.split();
                        self.records(&mut records[..len]);
                        out.extend_from_slice(&records);
                        self.state = State::Header;
                    }
                }
            }
        }
        Ok(out.freeze())
    }

    /// Collects up to `want` bytes; true when they are there.
    fn fill(&mut self, chunk: &mut &[u8], want: usize) -> bool {
        let n = chunk.len().min(want - self.held.len());
        self.held.extend_from_slice(&chunk[..n]);
        *chunk = &chunk[n..];
        self.held.len() == want
    }

    fn end(&self) -> Result<(), DriverError> {
        match self.state {
            State::Header if self.held.is_empty() => Ok(()),
            _ => Err(bad("it ends in the middle of a member")),
        }
    }

    fn header(&mut self, block: &mut [u8]) -> Result<(), DriverError> {
        if block.iter().all(|byte| *byte == 0) {
            return Ok(());
        }
        let mut header = tar::Header::new_old();
        header.as_mut_bytes().copy_from_slice(block);
        let kind = header.entry_type();
        if kind.is_gnu_sparse() {
            return Err(bad("it has sparse members; make it without `--sparse`"));
        }
        let own = header
            .entry_size()
            .map_err(|_| bad("a header has no size"))?;
        if kind.is_pax_local_extensions() || kind.is_pax_global_extensions() {
            if own > MAX_EXTENDED {
                return Err(bad("an extended header is larger than 1 MiB"));
            }
            let len = own as usize;
            self.state = match len.next_multiple_of(BLOCK_LEN) {
                0 => State::Header,
                padded => State::Extended { len, padded },
            };
        } else {
            let names_next = kind.is_gnu_longname() || kind.is_gnu_longlink();
            let size = if names_next {
                own
            } else {
                self.size.take().unwrap_or(own)
            };
            let padded = size
                .checked_next_multiple_of(BLOCK)
                .ok_or_else(|| bad("a member's size is out of range"))?;
            self.state = after(padded);
        }
        header.set_uid(u64::from(self.user.uid));
        header.set_gid(u64::from(self.user.gid));
        // The names of user and group, of formats that have them, would win over the numbers.
        if header.as_ustar().is_some() || header.as_gnu().is_some() {
            header.as_mut_bytes()[265..329].fill(0);
        }
        header.set_cksum();
        block.copy_from_slice(header.as_bytes());
        Ok(())
    }

    /// Records are `LEN KEY=VALUE\n`. Owners are put out of effect without changing any length.
    fn records(&mut self, records: &mut [u8]) {
        let mut at = 0;
        while at < records.len() {
            let Some(record) = Record::parse(&records[at..]) else {
                return;
            };
            let key = at + record.key;
            match &records[key..at + record.equals] {
                b"uid" | b"gid" | b"uname" | b"gname" => records[key] = b'X',
                b"size" => {
                    self.size =
                        std::str::from_utf8(&records[at + record.equals + 1..at + record.len - 1])
                            .ok()
                            .and_then(|size| size.parse().ok());
                }
                _ => {}
            }
            at += record.len;
        }
    }
}

/// Where the parts of a record are, from its beginning.
struct Record {
    key: usize,
    equals: usize,
    len: usize,
}

impl Record {
    fn parse(bytes: &[u8]) -> Option<Self> {
        let space = bytes.iter().position(|b| *b == b' ')?;
        let len: usize = std::str::from_utf8(&bytes[..space]).ok()?.parse().ok()?;
        let record = bytes.get(..len)?;
        let equals = record.iter().position(|b| *b == b'=')?;
        (space < equals && equals < len.checked_sub(1)?).then_some(Self {
            key: space + 1,
            equals,
            len,
        })
    }
}

const fn after(left: u64) -> State {
    if left == 0 {
        State::Header
    } else {
        State::Contents(left)
    }
}

fn bad(why: &str) -> DriverError {
    DriverError::new(
        DriverErrorKind::Invalid,
        format!("the archive cannot be unpacked: {why}"),
    )
}

#[cfg(test)]
mod tests;
