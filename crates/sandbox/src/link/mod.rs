//! The link to the supervisor, kept: dialled, served, and when it is lost the workload stands still until the
//! same supervisor is back, or not for long.

mod attach;
pub(crate) mod control;
mod dial;
mod forward;
mod serve;
mod service;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use openshell_core::bootstrap::link_socket;
use tokio::time::{Instant, sleep_until, timeout, timeout_at};

use crate::freeze::Cause;
use crate::runtime::Runtime;
use dial::Dialer;

/// The first supervisor must attach within this.
const FIRST: Duration = Duration::from_secs(60);
/// The same one must attach again within this.
const AGAIN: Duration = Duration::from_secs(30);
/// Streams end at once when their connection has; this is only a bound.
const STREAMS_END: Duration = Duration::from_secs(1);
/// A peer that connects and fails to attach is not dialled in a loop.
const REFUSED_PAUSE: Duration = Duration::from_millis(50);

/// Keeps the link until nobody is there to keep it with; says why.
pub(crate) async fn keep(runtime: Arc<Runtime>) -> String {
    let socket = PathBuf::from(link_socket(runtime.bootstrap.generation));
    let dialer = Dialer::new(socket, runtime.bootstrap.supervisor_uid);
    let mut deadline = Instant::now() + FIRST;
    let mut lost = false;
    loop {
        let note = |text| runtime.control.log("warn", "sandbox", text, &[]);
        let Ok(stream) = timeout_at(deadline, dialer.dial(note)).await else {
            break;
        };
        let connection = serve::serve(stream, &runtime, sleep_until(deadline)).await;
        if connection.is_attached() {
            // At once: whatever else has to end can end behind it.
            lost = true;
            deadline = Instant::now() + AGAIN;
            freeze(&runtime).await;
        }
        // Their processes are told to end by themselves.
        let _late = timeout(STREAMS_END, connection.tasks.wait()).await;
        if Instant::now() >= deadline {
            break;
        }
        if !connection.is_attached() {
            tokio::time::sleep(REFUSED_PAUSE).await;
        }
    }
    if lost {
        format!(
            "the supervisor did not attach again within {} s",
            AGAIN.as_secs()
        )
    } else {
        format!("no supervisor attached within {} s", FIRST.as_secs())
    }
}

async fn freeze(runtime: &Runtime) {
    let text = "the link to the supervisor is lost; the workload is frozen until it is back";
    runtime.control.log("warn", "sandbox", text.to_owned(), &[]);
    let running = runtime.freezer.freeze(Cause::Link).await;
    if running > 0 {
        let text = format!("{running} processes could not be frozen yet");
        runtime.control.log("error", "sandbox", text, &[]);
    }
}
