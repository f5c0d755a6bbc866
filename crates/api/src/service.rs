//! The services: the public contract and our own beside it, on the fence, the store and the sessions.

mod access;
mod exec;
mod files;
mod forward;
mod info;
mod journal;
mod logs;
mod orders;
mod plus;
mod process;
mod public;
mod sandboxes;
mod templates;
mod unimplemented;
mod watch;
mod workspaces;

use std::sync::Arc;

use openshell_core::ImageRef;
use openshell_lifecycle::LifecycleFence;
use openshell_store::Store;
use tokio::sync::RwLock;

use crate::auth::AuthConfig;
use crate::session::SessionHub;

/// The largest message that is taken; longer ones are refused as they arrive.
pub(crate) const MAX_MESSAGE: usize = 8 << 20;

/// What the API is told at composition.
#[derive(Clone, Debug)]
pub struct ApiConfig {
    /// How callers are told apart.
    pub auth: AuthConfig,
    /// The image of a sandbox whose user named none.
    pub default_image: Option<ImageRef>,
    /// The gateway's version, as clients see it.
    pub version: String,
}

/// Everything the calls work on. Cheap to clone.
pub struct Api<F> {
    pub(crate) inner: Arc<Inner<F>>,
}

impl<F> Clone for Api<F> {
    fn clone(&self) -> Self {
        Self {
            inner: Arc::clone(&self.inner),
        }
    }
}

impl<F> std::fmt::Debug for Api<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Api").finish_non_exhaustive()
    }
}

pub(crate) struct Inner<F> {
    pub(crate) fence: F,
    pub(crate) store: Store,
    pub(crate) hub: SessionHub,
    pub(crate) config: ApiConfig,
    /// Tells cursors of this process from those of an earlier one, whose log sequences began anew too.
    pub(crate) epoch: String,
    /// Held shared while something is put into a workspace, alone while one is deleted.
    pub(crate) workspaces: RwLock<()>,
}

impl<F: LifecycleFence> Api<F> {
    /// Composes it.
    pub fn new(fence: F, store: Store, hub: SessionHub, config: ApiConfig) -> Self {
        let mut epoch = uuid::Uuid::new_v4().simple().to_string();
        epoch.truncate(12);
        Self {
            inner: Arc::new(Inner {
                fence,
                store,
                hub,
                config,
                epoch,
                workspaces: RwLock::new(()),
            }),
        }
    }

    pub(crate) fn auth(&self) -> &AuthConfig {
        &self.inner.config.auth
    }
}
