//! The way up: a thread reads stdin, a task sends it on; both wait when the other side does.

use std::io::Read;

use bytes::Bytes;
use openshell_proto::link::{StdinClosed, process_input};
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinHandle;

use std::sync::Arc;

use super::keys::DetachKeys;
use super::{Plan, Wrap};

/// One read of stdin.
const CHUNK: usize = 32 << 10;

/// What has been read.
enum Read1 {
    Bytes(Bytes),
    End,
}

/// Sends stdin and control messages; ends with its owner.
#[derive(Debug)]
pub(super) struct Uplink {
    control: mpsc::Sender<process_input::Input>,
    detached: Arc<Notify>,
    task: JoinHandle<()>,
}

impl Uplink {
    /// Begins to send.
    pub(super) fn start<T: Send + 'static>(up: mpsc::Sender<T>, wrap: Wrap<T>, plan: Plan) -> Self {
        let (control, controls) = mpsc::channel(8);
        let detached = Arc::new(Notify::new());
        let bytes = if plan.stdin { read_stdin() } else { closed() };
        let keys = (plan.attached && plan.raw).then(DetachKeys::default);
        let task = tokio::spawn(send(up, wrap, bytes, controls, keys, Arc::clone(&detached)));
        Self {
            control,
            detached,
            task,
        }
    }

    /// A message beside stdin. When the other side takes nothing any more, it is dropped rather than waited for.
    pub(super) fn control(&mut self, input: process_input::Input) {
        drop(self.control.try_send(input));
    }

    /// Waits for the detach keys.
    pub(super) async fn detached(&self) {
        self.detached.notified().await;
    }
}

impl Drop for Uplink {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// No stdin: nothing is sent, not even its end.
fn closed() -> mpsc::Receiver<Read1> {
    mpsc::channel(1).1
}

fn read_stdin() -> mpsc::Receiver<Read1> {
    let (tx, rx) = mpsc::channel(2);
    // A read cannot be ended from outside; the thread ends with its next read, or with the program.
    std::thread::spawn(move || {
        let mut stdin = std::io::stdin().lock();
        let mut buffer = vec![0; CHUNK];
        loop {
            let read = match stdin.read(&mut buffer) {
                Ok(0) => Read1::End,
                Ok(n) => Read1::Bytes(Bytes::copy_from_slice(&buffer[..n])),
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => continue,
                Err(_) => Read1::End,
            };
            let ended = matches!(read, Read1::End);
            if tx.blocking_send(read).is_err() || ended {
                return;
            }
        }
    });
    rx
}

async fn send<T>(
    up: mpsc::Sender<T>,
    wrap: Wrap<T>,
    mut bytes: mpsc::Receiver<Read1>,
    mut controls: mpsc::Receiver<process_input::Input>,
    mut keys: Option<DetachKeys>,
    detached: Arc<Notify>,
) {
    let mut open = true;
    loop {
        let (input, leave) = tokio::select! {
            biased;
            Some(control) = controls.recv() => (Some(control), false),
            read = bytes.recv(), if open => match read {
                Some(Read1::Bytes(bytes)) => filter(bytes, keys.as_mut()),
                Some(Read1::End) => {
                    open = false;
                    (Some(process_input::Input::StdinClosed(StdinClosed {})), false)
                }
                None => {
                    open = false;
                    (None, false)
                }
            },
            else => return,
        };
        if let Some(input) = input
            && up.send(wrap(input)).await.is_err()
        {
            return;
        }
        if leave {
            detached.notify_one();
            return;
        }
    }
}

fn filter(bytes: Bytes, keys: Option<&mut DetachKeys>) -> (Option<process_input::Input>, bool) {
    let Some(keys) = keys else {
        return (Some(process_input::Input::Stdin(bytes)), false);
    };
    let (pass, leave) = keys.feed(&bytes);
    let input = (!pass.is_empty()).then(|| process_input::Input::Stdin(pass.into()));
    (input, leave)
}
