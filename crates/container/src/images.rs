//! Images: the user's, made available and checked; ours, loaded whenever it is missing.

use std::collections::BTreeMap;
use std::io::Read;
use std::sync::Mutex;

use futures_util::TryStreamExt;
use futures_util::future::{join, join3};
use openshell_core::bootstrap::WORKSPACE;
use openshell_core::{ContainerId, ImageRef, SandboxId};
use openshell_lifecycle::driver::{DriverError, DriverErrorKind, Progress};

use crate::config::ImagePullPolicy;
use crate::driver::ContainerDriver;
use crate::engine::{Engine, ImageFacts};
use crate::identity::{ImageUser, UserIds, image_user, resolve};
use crate::plan::{Resolver, WorkloadImage, Workspace};
use crate::pull::pull;
use crate::reference::Reference;
use crate::saved_image::SavedImage;

/// The most that is read of an image's `/etc/passwd` or `/etc/group`.
const MAX_USER_FILE: usize = 1 << 20;
/// Tells a program whom to ask for names. An engine makes an empty one where there is none.
const RESOLVER_FILE: &str = "/etc/resolv.conf";
/// Images whose content is remembered.
const MAX_REMEMBERED: usize = 256;

/// What an image has for a workload.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Content {
    user: UserIds,
    workspace: Workspace,
    resolver: Resolver,
}

/// The content of each image that was looked into; an image id never changes its meaning.
#[derive(Default)]
pub(crate) struct Images(Mutex<BTreeMap<String, Content>>);

impl Images {
    fn get(&self, image_id: &str) -> Option<Content> {
        self.0.lock().ok()?.get(image_id).copied()
    }

    fn put(&self, image_id: &str, content: Content) {
        if let Ok(mut known) = self.0.lock() {
            if known.len() >= MAX_REMEMBERED {
                known.clear();
            }
            known.insert(image_id.to_owned(), content);
        }
    }
}

/// A user's image that the engine holds and can run.
pub(crate) struct Present {
    name: String,
    facts: ImageFacts,
}

impl<E: Engine> ContainerDriver<E> {
    /// Pulls by policy. Makes nothing else on the engine, so it may be given up at any moment (L13).
    pub(crate) async fn fetch_image(
        &self,
        image: &ImageRef,
        progress: &Progress,
    ) -> Result<(), DriverError> {
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
        self.check_image(&reference, &facts)
    }

    /// An image that the engine already holds.
    pub(crate) async fn present_image(&self, image: &ImageRef) -> Result<Present, DriverError> {
        let reference = Reference::parse(&image.0)?;
        let facts = self
            .look_at_image(&reference)
            .await?
            .ok_or_else(|| self.absent(&reference))?;
        self.check_image(&reference, &facts)?;
        Ok(Present {
            name: reference.written,
            facts,
        })
    }

    fn absent(&self, reference: &Reference) -> DriverError {
        let image = &reference.written;
        let way_out = if self.config.image_pull_policy == ImagePullPolicy::Never {
            format!(
                "and image_pull_policy is \"never\"; run `{} pull {image}`, or change the policy",
                self.engine.name()
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

    fn check_image(&self, reference: &Reference, facts: &ImageFacts) -> Result<(), DriverError> {
        let image = &reference.written;
        let ours = self.runtime.architecture();
        if facts.os == "linux" && facts.architecture == ours {
            return Ok(());
        }
        Err(DriverError::new(
            DriverErrorKind::ImageUnusable,
            format!(
                "image {image} is for {}/{}, and sandboxes here run linux/{ours}; use an image for linux/{ours}",
                facts.os, facts.architecture
            ),
        ))
    }

    /// Finds out what a workload of this image needs. May make a probe, so its caller must be let end, and must have
    /// cleared the probes of earlier attempts.
    pub(crate) async fn settle_image(
        &self,
        sandbox: SandboxId,
        Present { name, facts }: &Present,
    ) -> Result<WorkloadImage, DriverError> {
        let content = match self.images.get(&facts.id) {
            Some(known) => known,
            None => {
                let found = self.look_into(sandbox, name, facts).await?;
                self.images.put(&facts.id, found);
                found
            }
        };
        Ok(WorkloadImage {
            id: facts.id.clone(),
            user: content.user,
            workspace: content.workspace,
            resolver: content.resolver,
        })
    }

    /// Reads what an image has out of a container that is never started, where the image's description does not
    /// say enough.
    async fn look_into(
        &self,
        sandbox: SandboxId,
        image: &str,
        facts: &ImageFacts,
    ) -> Result<Content, DriverError> {
        let named = match image_user(&facts.user) {
            // Who owns a new workspace is settled by us where the engine does not do it.
            ImageUser::Known(user) if !self.engine.fills_volumes() => {
                return Ok(Content {
                    user,
                    workspace: Workspace::FromImage,
                    resolver: Resolver::Foreign,
                });
            }
            named => named,
        };
        let doing = || format!("looking into image {image}");
        let plan = crate::plan::probe(&self.config.namespace, sandbox, &facts.id, &unique());
        let probe = self
            .engine
            .create_container(&plan)
            .await
            .map_err(|e| e.doing(doing()))?;
        let (user, workspace, resolver) = join3(
            self.user_by_files(&probe, image, named),
            self.engine.stat(&probe, WORKSPACE),
            self.engine.stat(&probe, RESOLVER_FILE),
        )
        .await;
        let removed = self.engine.remove_container(&probe).await;
        let user = user?;
        let workspace = match workspace.map_err(|e| e.doing(doing()))? {
            None if self.engine.fills_volumes() => Workspace::Empty,
            _ => Workspace::FromImage,
        };
        let resolver = match resolver.map_err(|e| e.doing(doing()))? {
            Some(file) if file.size > 0 => Resolver::Foreign,
            _ => Resolver::Default,
        };
        removed.map_err(|e| e.doing(doing()))?;
        Ok(Content {
            user,
            workspace,
            resolver,
        })
    }

    async fn user_by_files(
        &self,
        probe: &ContainerId,
        image: &str,
        named: ImageUser,
    ) -> Result<UserIds, DriverError> {
        let (user, group) = match named {
            ImageUser::Known(user) => return Ok(user),
            ImageUser::NeedsFiles { user, group } => (user, group),
        };
        let (passwd, groups) = join(
            self.small_file(probe, "/etc/passwd"),
            self.small_file(probe, "/etc/group"),
        )
        .await;
        resolve(&user, group.as_deref(), &passwd?, &groups?).map_err(|why| {
            DriverError::new(
                DriverErrorKind::ImageUnusable,
                format!("image {image} cannot be run: {why}"),
            )
        })
    }

    /// A small text file of a container; empty if there is none.
    async fn small_file(&self, container: &ContainerId, path: &str) -> Result<String, DriverError> {
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
            self.load_image(&self.supervisor).await?;
        }
        Ok(())
    }

    pub(crate) async fn load_image(&self, image: &SavedImage) -> Result<(), DriverError> {
        let tag = image.tag();
        tracing::info!(image = tag, "loading an image of ours");
        self.engine
            .load_image(image.archive()?)
            .await
            .map_err(|e| e.doing(format!("loading image {tag} into the engine")))
    }
}

/// Tells one probe from another.
pub(crate) fn unique() -> String {
    uuid::Uuid::new_v4().simple().to_string()
}
