//! Pulling an image, told in lines for people, and given up when nothing moves any more.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::StreamExt;
use openshell_lifecycle::driver::{DriverError, DriverErrorKind, Progress};

use crate::engine::{Engine, PullMessage};
use crate::reference::Reference;

/// A pull that says nothing for so long has failed.
const STALLED: Duration = Duration::from_secs(120);
/// Layers that are counted; images have at most 127.
const MAX_LAYERS: usize = 512;

/// Adds up what a pull says about each layer.
#[derive(Default)]
pub struct Tally {
    layers: BTreeMap<String, (u64, u64)>,
    last: Option<(u64, u64)>,
}

impl Tally {
    /// Takes a message; gives a line when there is something new to say.
    pub fn take(&mut self, image: &str, message: &PullMessage) -> Option<String> {
        const MB: u64 = 1_000_000;
        let known = self.layers.contains_key(&message.layer);
        match (message.status.as_str(), message.bytes) {
            ("Downloading", Some(bytes)) if known || self.layers.len() < MAX_LAYERS => {
                self.layers.insert(message.layer.clone(), bytes);
            }
            ("Download complete" | "Pull complete", _) => {
                if let Some((done, total)) = self.layers.get_mut(&message.layer) {
                    *done = *total;
                }
            }
            _ => {}
        }
        let (done, total) = self
            .layers
            .values()
            .fold((0u64, 0u64), |(d, t), (done, total)| (d + done, t + total));
        let shown = (done / MB, total.div_ceil(MB));
        if total == 0 || self.last == Some(shown) {
            return None;
        }
        self.last = Some(shown);
        Some(format!("pulling {image} ({} of {} MB)", shown.0, shown.1))
    }
}

/// Pulls an image. The error says what the registry or the engine said.
pub async fn pull<E: Engine>(
    engine: &E,
    auth: &crate::auth::RegistryAuth,
    reference: &Reference,
    progress: &Progress,
) -> Result<(), DriverError> {
    let image = &reference.written;
    let Some(registry) = &reference.registry else {
        return Err(DriverError::new(
            DriverErrorKind::ImagePull,
            format!(
                "the engine has no image {image}, and an image id cannot be pulled; name it by a reference such as debian:12"
            ),
        ));
    };
    let credentials = auth.find(registry).await?;
    // A full channel drops the line; nobody waits for people to read.
    let _ = progress.try_send(format!("pulling {image}"));
    let what = || format!("pulling image {image} failed");
    let mut messages = engine.pull_image(&reference.complete, credentials);
    let mut tally = Tally::default();
    loop {
        let next = tokio::time::timeout(STALLED, messages.next())
            .await
            .map_err(|_| {
                DriverError::new(
                    DriverErrorKind::ImagePull,
                    format!("{}: no progress for {} s; check the connection to {registry} and start the sandbox again", what(), STALLED.as_secs()),
                )
            })?;
        match next {
            None => return Ok(()),
            Some(Ok(message)) => {
                if let Some(line) = tally.take(image, &message) {
                    let _ = progress.try_send(line);
                }
            }
            Some(Err(error)) => return Err(error.doing_as(DriverErrorKind::ImagePull, what())),
        }
    }
}

#[cfg(test)]
mod tests;
