//! Signals: the first TERM or INT ends the gateway, the second one at once; HUP is not a reason to end.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// What the gateway listens to.
#[derive(Debug)]
pub(crate) struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
}

impl Signals {
    /// From here on no signal of these ends the process by itself.
    pub(crate) fn listen() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    /// Waits to be told to end.
    pub(crate) async fn first(&mut self) {
        loop {
            tokio::select! {
                _ = self.terminate.recv() => return,
                _ = self.interrupt.recv() => return,
                _ = self.hangup.recv() => {
                    tracing::info!("HUP ignored; changes of the configuration take effect at the next start");
                }
            }
        }
    }

    /// Waits to be told again.
    pub(crate) async fn second(&mut self) {
        self.first().await;
    }
}
