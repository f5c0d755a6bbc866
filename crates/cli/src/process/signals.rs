//! Signals that we pass on or end by.

use std::future::Future;
use std::task::Poll;

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::error::{CliError, CliResult};

/// What happened to us.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Happening {
    /// The window has another size.
    Resized,
    /// This signal came.
    Signal(i32),
}

/// The signals that matter while a process runs elsewhere.
#[derive(Debug)]
pub(crate) struct Signals {
    all: Vec<(Signal, Happening)>,
}

impl Signals {
    /// Listens; to window changes only where there is a window.
    pub(crate) fn new(window: bool) -> CliResult<Self> {
        let ends = [
            SignalKind::interrupt(),
            SignalKind::terminate(),
            SignalKind::hangup(),
            SignalKind::quit(),
        ];
        let mut wanted: Vec<_> = ends
            .map(|k| (k, Happening::Signal(k.as_raw_value())))
            .into();
        if window {
            wanted.push((SignalKind::window_change(), Happening::Resized));
        }
        let listen = |(kind, happening)| Ok((signal(kind)?, happening));
        let all = wanted
            .into_iter()
            .map(listen)
            .collect::<std::io::Result<_>>();
        all.map(|all| Self { all })
            .map_err(|e| CliError::local("signals cannot be handled").why(e.to_string()))
    }

    /// The next one.
    pub(crate) fn next(&mut self) -> impl Future<Output = Happening> {
        std::future::poll_fn(|cx| {
            for (signal, happening) in &mut self.all {
                if let Poll::Ready(Some(())) = signal.poll_recv(cx) {
                    return Poll::Ready(*happening);
                }
            }
            Poll::Pending
        })
    }
}
