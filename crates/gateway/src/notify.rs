//! Words to the service manager; without one they go nowhere.

use sd_notify::NotifyState;

/// It serves.
pub(crate) fn ready(status: &str) {
    tell(&[NotifyState::Ready, NotifyState::Status(status)]);
}

/// It is ending.
pub(crate) fn stopping() {
    tell(&[NotifyState::Stopping, NotifyState::Status("ending")]);
}

fn tell(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::debug!(%error, "the service manager could not be told");
    }
}
