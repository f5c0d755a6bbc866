//! Images: the user's, made available and checked; ours, loaded whenever it is missing.

use std::collections::BTreeMap;
use std::io::Read;
use std::sync::Mutex;

use futures_util::TryStreamExt;
use openshell_core::{ImageRef, SandboxId};
use openshell_lifecycle::driver::{DriverError, DriverErrorKind, Progress};

use crate::config::ImagePullPolicy;
use crate::driver::ContainerDriver;
use crate::engine::{Engine, ImageFacts};
use crate::identity::{ImageUser, UserIds, image_user, resolve};
use crate::pull::pull;
use crate::reference::Reference;

/// The most that is read of an image's `/etc/passwd` or `/etc/group`.
const MAX_USER_FILE: usize = 1 << 20;
/// Images whose user is remembered.
const MAX_REMEMBERED: usize = 256;

/// The user of each image that was looked into; an image id never changes its meaning.
#[derive(Default)]
pub(crate) struct Users(Mutex<BTreeMap<String, UserIds>>);

impl Users {
    fn get(&self, image_id: &str) -> Option<UserIds> {
        self.0.lock().ok()?.get(image_id).copied()
    }

    fn put(&self, image_id: &str, user: UserIds) {
        if let Ok(mut known) = self.0.lock() {
            if known.len() >= MAX_REMEMBERED {
                known.clear();
            }
            known.insert(image_id.to_owned(), user);
        }
    }
}

/// A user's image, settled.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Settled {
    /// Immutable.
    pub(crate) id: String,
    /// Whom the workload runs as.
    pub(crate) user: UserIds,
}

impl<E: Engine> ContainerDriver<E> {
    /// Pulls by policy, then settles.
    pub(crate) async fn fetch_image(
        &self,
        sandbox: SandboxId,
        image: &ImageRef,
        progress: &Progress,
    ) -> Result<Settled, DriverError> {
        let reference = Reference::parse(&image.0)?;
        let policy = self.config.image_pull_policy;
        let pull_now = || {
            pull(
                &self.engine,
                &self.config.registry_auth,
                &reference,
                progress,
            )
        };
        if policy == ImagePullPolicy::Always && reference.registry.is_some() {
            pull_now().await?;
        }
        let mut facts = self.look_at_image(&reference).await?;
        if facts.is_none() && policy == ImagePullPolicy::IfNotPresent {
            pull_now().await?;
            facts = self.look_at_image(&reference).await?;
        }
        let facts = facts.ok_or_else(|| self.absent(&reference))?;
        self.settle_image(sandbox, &reference, &facts).await
    }

    /// Settles an image that the engine already holds.
    pub(crate) async fn present_image(
        &self,
        sandbox: SandboxId,
        image: &ImageRef,
    ) -> Result<Settled, DriverError> {
        let reference = Reference::parse(&image.0)?;
        let facts = self
            .look_at_image(&reference)
            .await?
            .ok_or_else(|| self.absent(&reference))?;
        self.settle_image(sandbox, &reference, &facts).await
    }

    fn absent(&self, reference: &Reference) -> DriverError {
        let image = &reference.written;
        let way_out = if self.config.image_pull_policy == ImagePullPolicy::Never {
            format!(
                "and image_pull_policy is \"never\"; run `{} pull {image}`, or change the policy",
                E::NAME
            )
        } else {
            "start the sandbox again to pull it".to_owned()
        };
        DriverError::new(
            DriverErrorKind::ImagePull,
            format!("the engine does not hold image {image}; {way_out}"),
        )
    }

    async fn look_at_image(
        &self,
        reference: &Reference,
    ) -> Result<Option<ImageFacts>, DriverError> {
        self.engine
            .inspect_image(&reference.written)
            .await
            .map_err(|e| e.doing(format!("looking at image {}", reference.written)))
    }

    async fn settle_image(
        &self,
        sandbox: SandboxId,
        reference: &Reference,
        facts: &ImageFacts,
    ) -> Result<Settled, DriverError> {
        let image = &reference.written;
        let ours = self.runtime.architecture();
        if facts.os != "linux" || facts.architecture != ours {
            return Err(DriverError::new(
                DriverErrorKind::ImageUnusable,
                format!(
                    "image {image} is for {}/{}, and sandboxes here run linux/{ours}; use an image for linux/{ours}",
                    facts.os, facts.architecture
                ),
            ));
        }
        let user = match image_user(&facts.user) {
            ImageUser::Known(user) => user,
            ImageUser::NeedsFiles { user, group } => match self.users.get(&facts.id) {
                Some(known) => known,
                None => {
                    let found = self
                        .user_by_files(sandbox, facts, image, &user, group.as_deref())
                        .await?;
                    self.users.put(&facts.id, found);
                    found
                }
            },
        };
        Ok(Settled {
            id: facts.id.clone(),
            user,
        })
    }

    /// Reads the image's user files out of a container that is never started.
    async fn user_by_files(
        &self,
        sandbox: SandboxId,
        facts: &ImageFacts,
        image: &str,
        user: &str,
        group: Option<&str>,
    ) -> Result<UserIds, DriverError> {
        let doing = || format!("looking up the user of image {image}");
        let plan = crate::plan::probe(
            &self.config.namespace,
            sandbox,
            &facts.id,
            &uuid::Uuid::new_v4().simple().to_string(),
        );
        let probe = self
            .engine
            .create_container(&plan)
            .await
            .map_err(|e| e.doing(doing()))?;
        let (passwd, groups) = futures_util::future::join(
            self.small_file(&probe, "/etc/passwd"),
            self.small_file(&probe, "/etc/group"),
        )
        .await;
        let removed = self.engine.remove_container(&probe).await;
        let found = resolve(user, group, &passwd?, &groups?).map_err(|why| {
            DriverError::new(
                DriverErrorKind::ImageUnusable,
                format!("image {image} cannot be run: {why}"),
            )
        })?;
        removed.map_err(|e| e.doing(doing()))?;
        Ok(found)
    }

    /// A small text file of a container; empty if there is none.
    async fn small_file(
        &self,
        container: &openshell_core::ContainerId,
        path: &str,
    ) -> Result<String, DriverError> {
        let mut archive = match self.engine.get_archive(container, path).await {
            Ok(archive) => archive,
            Err(e) if e.kind == crate::engine::EngineErrorKind::NotFound => {
                return Ok(String::new());
            }
            Err(e) => return Err(e.doing(format!("reading {path}"))),
        };
        let mut bytes = Vec::new();
        while let Some(chunk) = archive.try_next().await? {
            if bytes.len() + chunk.len() > MAX_USER_FILE {
                return Err(DriverError::new(
                    DriverErrorKind::ImageUnusable,
                    format!("the image's {path} is larger than 1 MiB"),
                ));
            }
            bytes.extend_from_slice(&chunk);
        }
        let broken = |e: std::io::Error| {
            DriverError::new(
                DriverErrorKind::Engine,
                format!("reading {path} of an image failed: {e}"),
            )
        };
        let mut archive = tar::Archive::new(bytes.as_slice());
        let mut text = Vec::new();
        if let Some(entry) = archive.entries().map_err(broken)?.next() {
            entry
                .map_err(broken)?
                .read_to_end(&mut text)
                .map_err(broken)?;
        }
        Ok(String::from_utf8_lossy(&text).into_owned())
    }

    /// Loads our supervisor image if the engine does not hold it (any more).
    pub(crate) async fn ensure_supervisor_image(&self) -> Result<(), DriverError> {
        let tag = self.supervisor.tag();
        let present = self
            .engine
            .inspect_image(tag)
            .await
            .map_err(|e| e.doing("looking for the supervisor's image"))?;
        if present.is_none() {
            tracing::info!(image = tag, "loading the supervisor's image");
            self.load_supervisor_image().await?;
        }
        Ok(())
    }

    pub(crate) async fn load_supervisor_image(&self) -> Result<(), DriverError> {
        self.engine
            .load_image(self.supervisor.archive()?)
            .await
            .map_err(|e| e.doing("loading the supervisor's image into the engine"))
    }
}
