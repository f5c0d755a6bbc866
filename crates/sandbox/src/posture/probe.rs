//! Proves that seccomp user notification works here, nested in the engine's own filter: a thread of ours makes
//! one harmless call, we answer it, it must see our answer.

use std::sync::mpsc;
use std::time::Duration;

use crate::filter;
use crate::sys::{self, Answer, Listener};

/// No other error number of this call looks like it.
const SIGN: i32 = libc::EXDEV;
const DEADLINE: Duration = Duration::from_secs(5);

/// Why not.
pub(super) fn notification() -> Result<(), String> {
    let (listener_tx, listener_rx) = mpsc::sync_channel(1);
    let (seen_tx, seen_rx) = mpsc::sync_channel(1);
    let caller = std::thread::Builder::new()
        .name("probe".to_owned())
        .stack_size(64 * 1024)
        .spawn(move || {
            let program = filter::probe(libc::SYS_sched_yield);
            let installed = sys::install_filter(&program, 0);
            let works = installed.is_ok();
            if listener_tx.send(installed).is_err() || !works {
                return;
            }
            let _gone = seen_tx.send(sys::yield_errno());
        })
        .map_err(|e| format!("no thread for the probe: {e}"))?;
    let listener = listener_rx
        .recv_timeout(DEADLINE)
        .map_err(|_| "the probe did not answer".to_owned())?
        .map_err(|e| format!("seccomp user notification is refused: {e}"))?;
    let listener = Listener(listener);
    let call = listener
        .receive()
        .map_err(|e| format!("seccomp notifications cannot be received: {e}"))?;
    if !listener.is_waiting(call.id) {
        return Err("a seccomp notification was not valid".to_owned());
    }
    listener.answer(call.id, Answer::Fail(SIGN));
    let seen = seen_rx.recv_timeout(DEADLINE);
    let _ended = caller.join();
    match seen {
        Ok(SIGN) => Ok(()),
        Ok(other) => Err(format!(
            "seccomp notification was answered, but {other} was seen"
        )),
        Err(_) => Err("seccomp notification was not answered".to_owned()),
    }
}
