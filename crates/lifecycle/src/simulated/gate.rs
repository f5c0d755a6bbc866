//! A gate that a test opens when it is time: what overlaps is forced, not hoped for.

use tokio::sync::watch;

/// Shut until it is opened; then open for good.
#[derive(Clone, Debug)]
pub struct Gate(watch::Sender<bool>);

impl Gate {
    /// A shut one.
    pub fn new() -> Self {
        Self(watch::Sender::new(false))
    }

    /// Lets through what waits at it, and what comes later.
    pub fn open(&self) {
        self.0.send_replace(true);
    }

    pub(super) async fn pass(&self) {
        let mut opened = self.0.subscribe();
        // It lives as long as this does.
        let _ = opened.wait_for(|open| *open).await;
    }
}

impl Default for Gate {
    fn default() -> Self {
        Self::new()
    }
}
