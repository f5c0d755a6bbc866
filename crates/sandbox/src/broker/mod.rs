//! The broker: receives the calls that the filter holds, lets what stays inside go on, and hands everything
//! else to the supervisor's decision. One thread; it never waits for a decision itself.

mod address;
mod caller;
#[cfg(test)]
mod tests;

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use address::Destination;
use openshell_core::bootstrap::RESERVED;
use tokio::sync::mpsc;

use crate::sys::{Answer, Listener, Notification};

/// Questions that may wait at once; more are refused.
pub(crate) const MAX_PENDING: usize = 256;

/// What a call that would leave the sandbox attempts. Datagrams never leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Attempt {
    /// A connection.
    Connect,
    /// A datagram socket's default destination: nothing is sent by it yet.
    Aim,
    /// A datagram.
    Send,
}

/// A call that would leave the sandbox. Dropped without a verdict it is refused.
#[derive(Debug)]
pub(crate) struct Question {
    listener: Arc<Listener>,
    id: u64,
    answered: bool,
    /// The calling thread.
    pub(crate) pid: i32,
    /// Its program.
    pub(crate) binary: String,
    /// And those of its ancestors, nearest first.
    pub(crate) ancestors: Vec<String>,
    /// What is attempted.
    pub(crate) attempt: Attempt,
    /// Where to.
    pub(crate) target: SocketAddr,
}

impl Question {
    /// The call fails with this error number.
    pub(crate) fn refuse(mut self, errno: i32) {
        self.answered = true;
        self.listener.answer(self.id, Answer::Fail(errno));
    }
}

impl Drop for Question {
    fn drop(&mut self) {
        if !self.answered {
            self.listener
                .answer(self.id, Answer::Fail(libc::ECONNREFUSED));
        }
    }
}

/// What the kernel calls the protocols whose sockets send datagrams.
const DATAGRAMS: &[&str] = &[
    "UDP",
    "UDPv6",
    "UDP-Lite",
    "UDPLITEv6",
    "PING",
    "PINGv6",
    "RAW",
    "RAWv6",
];

/// What is decided at once, and what is not.
enum Verdict {
    Now(Answer),
    Ask(SocketAddr),
}

/// The thread's body: until the last process that carries the filter is gone.
pub(crate) fn serve(listener: &Arc<Listener>, questions: &mpsc::Sender<Question>) {
    loop {
        match listener.receive() {
            Ok(call) => handle(listener, &call, questions),
            // The caller was killed while its call was being handed over.
            Err(e) if e.raw_os_error() == Some(libc::ENOENT) => {}
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return,
        }
    }
}

fn handle(listener: &Arc<Listener>, call: &Notification, questions: &mpsc::Sender<Question>) {
    match decide(call) {
        Verdict::Now(answer) => {
            // What was read counts only if the same caller still waits.
            if listener.is_waiting(call.id) {
                listener.answer(call.id, answer);
            }
        }
        Verdict::Ask(target) => {
            let question = Question {
                listener: Arc::clone(listener),
                id: call.id,
                answered: false,
                pid: call.pid,
                binary: caller::binary(call.pid),
                ancestors: caller::ancestors(call.pid),
                attempt: attempt(call),
                target,
            };
            // If it cannot be asked it is refused, by being dropped.
            if listener.is_waiting(call.id) {
                let _full = questions.try_send(question);
            }
        }
    }
}

/// Where the address of a call is, and how long it claims to be.
fn location(call: &Notification) -> (u64, u64) {
    let [_, a1, a2, _, a4, a5] = call.arguments;
    if i64::from(call.number) == libc::SYS_sendto {
        (a4, a5)
    } else {
        (a1, a2)
    }
}

/// A socket that does not say what it speaks is asked about as a connection: that is denied unless allowed.
fn attempt(call: &Notification) -> Attempt {
    if i64::from(call.number) == libc::SYS_sendto {
        return Attempt::Send;
    }
    let protocol = caller::protocol(call.pid, call.arguments[0]);
    if protocol.is_some_and(|name| DATAGRAMS.contains(&name.as_str())) {
        Attempt::Aim
    } else {
        Attempt::Connect
    }
}

fn decide(call: &Notification) -> Verdict {
    let (address, length) = location(call);
    // Only 32 bits of a length are looked at by the kernel; it refuses what is too long, so that need not be read.
    let length = usize::try_from(length & 0xffff_ffff).unwrap_or(usize::MAX);
    if address == 0 || length > address::MAX_LENGTH {
        return Verdict::Now(Answer::Fail(libc::EINVAL));
    }
    let bytes = match caller::memory(call.pid, address, length) {
        Ok(bytes) => bytes,
        Err(e) if e.raw_os_error() == Some(libc::EIO) => {
            return Verdict::Now(Answer::Fail(libc::EFAULT));
        }
        Err(_) => return Verdict::Now(Answer::Fail(libc::EACCES)),
    };
    match address::parse(&bytes) {
        Destination::Loopback | Destination::Kernel => Verdict::Now(Answer::Continue),
        Destination::Remote(target) => Verdict::Ask(target),
        Destination::Path(path) => Verdict::Now(unix(call.pid, &path)),
    }
}

fn unix(pid: i32, path: &Path) -> Answer {
    match caller::resolve(pid, path) {
        Some(real) if real.starts_with(RESERVED) => Answer::Fail(libc::EACCES),
        Some(_) => Answer::Continue,
        // Said by us: it might lead somewhere a moment later.
        None => Answer::Fail(libc::ENOENT),
    }
}
