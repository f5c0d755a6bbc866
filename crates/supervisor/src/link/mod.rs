//! The link to the sandbox runtime: listens, lets one connection live at a time, attaches, and serves its control
//! stream until it breaks. A broken link is awaited again for a while; then the run has failed.

mod attach;
mod connection;
mod control;

use std::convert::Infallible;
use std::io;
use std::path::Path;
use std::time::Duration;

use openshell_core::posture;
use openshell_proto::link::Posture;
use rustix::fs::Mode;
use tokio::net::{UnixListener, UnixStream};
use tokio::time::{Instant, sleep_until, timeout};

use self::attach::{AttachError, attach};
use self::connection::Connection;
pub(crate) use self::connection::Link;
use crate::egress::Egress;
use crate::settings::SettingsError;
use crate::state::{LinkView, Run};

/// Listens. The socket may be written by everybody who can reach it: authentication does the rest.
pub(crate) fn listen(path: &Path) -> Result<UnixListener, SettingsError> {
    let failed = |source| SettingsError::Listen {
        path: path.to_owned(),
        source,
    };
    match std::fs::remove_file(path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(failed(e)),
        _ => {}
    }
    // With its final mode from the first instant on: the sandbox dials as soon as it sees it.
    let before = rustix::process::umask(Mode::from_raw_mode(0o111));
    let listener = UnixListener::bind(path);
    rustix::process::umask(before);
    listener.map_err(failed)
}

/// Serves links, one after another; after a failure of the run none any more. Ends when it is dropped.
pub(crate) async fn serve(listener: &UnixListener, run: &Run) -> Infallible {
    let mut egress = Egress::default();
    let mut epoch = 0;
    let mut deadline = Instant::now() + run.timings.link_first;
    let mut ever = false;
    loop {
        let stream = tokio::select! {
            biased;
            accepted = accept(listener, run) => accepted,
            () = sleep_until(deadline), if run.main.borrow().exit.is_none() => {
                run.fail(lost_reason(ever), lost_message(ever, run));
                return std::future::pending().await
            }
        };
        epoch += 1;
        match establish(stream, run, epoch).await {
            Ok((connection, link)) => {
                ever = true;
                run.link.send_replace(LinkView::Attached(link.clone()));
                let why = control::serve(&link, listener, run, &mut egress).await;
                connection.close();
                run.link.send_replace(LinkView::Lost);
                deadline = Instant::now() + run.timings.link_again;
                broken(run, &why);
            }
            Err(AttachError::Refused(message)) => {
                run.fail("LinkRefused", message);
                return std::future::pending().await;
            }
            Err(AttachError::Posture(missing)) => {
                let message = format!(
                    "the sandbox does not enforce {}; nothing was started in it",
                    missing.join(", ")
                );
                run.fail("PostureInsufficient", message);
                return std::future::pending().await;
            }
            Err(AttachError::Broken(message)) => {
                let message = format!("a connection on the link was not attached: {message}");
                run.say(tracing::Level::WARN, message);
            }
        }
    }
}

fn broken(run: &Run, why: &str) {
    if run.main.borrow().exit.is_some() {
        tracing::info!(why, "the link ended after the main process");
    } else {
        let within = run.timings.link_again;
        let message = format!(
            "the link to the sandbox broke ({why}); its processes are frozen until it is attached again, within {within:?}"
        );
        run.say(tracing::Level::WARN, message);
    }
}

fn lost_reason(ever: bool) -> &'static str {
    if ever { "LinkLost" } else { "LinkTimedOut" }
}

fn lost_message(ever: bool, run: &Run) -> String {
    if ever {
        let within = run.timings.link_again;
        format!("the link to the sandbox broke and did not come back within {within:?}")
    } else {
        let within = run.timings.link_first;
        format!("the sandbox runtime did not dial and attach within {within:?}")
    }
}

/// The next connection of the workload's user.
async fn accept(listener: &UnixListener, run: &Run) -> UnixStream {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => match stream.peer_cred() {
                Ok(peer) if peer.uid() == run.bootstrap.workload_uid => return stream,
                Ok(peer) => {
                    let message =
                        format!("refused a connection on the link from uid {}", peer.uid());
                    run.say(tracing::Level::WARN, message);
                }
                Err(e) => tracing::warn!("a connection on the link has no credentials: {e}"),
            },
            Err(e) => {
                // Out of descriptors, most likely: let others end first.
                tracing::warn!("cannot accept on the link: {e}");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

async fn establish(
    stream: UnixStream,
    run: &Run,
    epoch: u64,
) -> Result<(Connection, Link), AttachError> {
    let within = run.timings.attach;
    let (connection, mut link) = timeout(within, Connection::over(stream, epoch))
        .await
        .map_err(|_| AttachError::Broken(format!("no handshake within {within:?}")))?
        .map_err(|e| AttachError::Broken(e.to_string()))?;
    let attached = timeout(within, attach(&mut link, run))
        .await
        .unwrap_or_else(|_| Err(AttachError::Broken(format!("no answer within {within:?}"))));
    let answer = match attached {
        Ok(answer) => answer,
        Err(e) => {
            connection.close();
            return Err(e);
        }
    };
    let measured = answer.posture.unwrap_or_default();
    let missing = missing(&measured);
    run.main.send_modify(|main| main.learn(answer.main));
    run.posture.send_replace(Some(measured));
    if !missing.is_empty() {
        connection.close();
        return Err(AttachError::Posture(missing));
    }
    tracing::info!(epoch, resumed = answer.resumed, "the sandbox is attached");
    Ok((connection, link))
}

fn missing(measured: &Posture) -> Vec<String> {
    posture::missing(
        measured
            .properties
            .iter()
            .map(|p| (p.name.as_str(), p.enforced)),
    )
    .into_iter()
    .map(|name| {
        let told = measured.properties.iter().find(|p| p.name == name);
        match told.map(|p| p.mechanism.as_str()) {
            Some(mechanism) if !mechanism.is_empty() => format!("{name} ({mechanism})"),
            _ => name,
        }
    })
    .collect()
}
