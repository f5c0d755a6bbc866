//! The compute driver of every container engine: the port of the lifecycle on the small [`Engine`] trait.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Mutex;
use std::time::Duration;

use futures_util::future::join;
use openshell_core::bootstrap::RESERVED;
use openshell_core::{ContainerId, EngineId, ImageRef, Incarnation};
use openshell_lifecycle::ComputeDriver;
use openshell_lifecycle::driver::{
    ByteStream, Containers, DriverError, DriverErrorKind, EngineInfo, EngineSignal, Launched,
    Owned, Permit, Prepared, Progress, RunRequest, Sighting, StopOutcome, WaitOutcome,
};
use tokio::sync::mpsc;

use crate::binary::Binary;
use crate::cleanup::recognise;
use crate::config::ContainerConfig;
use crate::delivered::Delivered;
use crate::engine::{ContainerFacts, ContainerStatus, Engine, EngineError, EngineErrorKind};
use crate::identity::UserIds;
use crate::images::Images;
use crate::inputs::Inputs;
use crate::labels::of_namespace;
use crate::ownership::owned_by;
use crate::prepare::missing;
use crate::saved_image::SavedImage;
use crate::sighting::sighting;
use crate::supervisor_image::supervisor_image;

/// How long a container may be on its way between two states, and how often that is looked at.
const TRANSITION: Duration = Duration::from_secs(10);
const TRANSITION_LOOK: Duration = Duration::from_millis(50);
/// Foreign containers that are remembered as reported.
const MAX_REPORTED: usize = 1024;

/// A [`ComputeDriver`] on any [`Engine`].
pub struct ContainerDriver<E: Engine> {
    pub(crate) engine: E,
    pub(crate) config: ContainerConfig,
    pub(crate) runtime: Binary,
    pub(crate) supervisor: SavedImage,
    pub(crate) images: Images,
    pub(crate) inputs: Inputs<E::Input>,
    pub(crate) delivered: Delivered,
    reported: Mutex<BTreeSet<ContainerId>>,
}

impl<E: Engine> ContainerDriver<E> {
    /// Checks the configuration and opens both runtime binaries. Does not speak to the engine, which may be down.
    pub fn new(engine: E, config: ContainerConfig) -> Result<Self, DriverError> {
        config.validate()?;
        let runtime = Binary::open(&config.sandbox_binary)?;
        let supervisor =
            supervisor_image(Binary::open(&config.supervisor_binary)?, runtime.clone())?;
        Ok(Self {
            engine,
            config,
            runtime,
            supervisor,
            images: Images::default(),
            inputs: Inputs::default(),
            delivered: Delivered::default(),
            reported: Mutex::default(),
        })
    }

    /// The engine itself.
    pub const fn engine(&self) -> &E {
        &self.engine
    }

    /// The tag of the supervisor's image.
    pub fn supervisor_image(&self) -> &str {
        self.supervisor.tag()
    }

    /// Looks at a container, again and again while it is on the way to another state.
    pub(crate) async fn settled(
        &self,
        id: &ContainerId,
    ) -> Result<Option<ContainerFacts>, EngineError> {
        let deadline = tokio::time::Instant::now() + TRANSITION;
        loop {
            let facts = self.engine.inspect_container(&id.0).await?;
            let moving = facts
                .as_ref()
                .is_some_and(|f| f.status == ContainerStatus::InTransition);
            if !moving || tokio::time::Instant::now() >= deadline {
                return Ok(facts);
            }
            tokio::time::sleep(TRANSITION_LOOK).await;
        }
    }

    async fn wait_for(&self, incarnation: &Incarnation) -> Result<WaitOutcome, EngineError> {
        loop {
            let Some(facts) = self.settled(&incarnation.container).await? else {
                return Ok(WaitOutcome::Superseded);
            };
            match sighting(&facts) {
                Sighting::Running(present) if present == *incarnation => {}
                Sighting::Exited(ended, exit) if ended == *incarnation => {
                    return Ok(WaitOutcome::Exited(ended, exit));
                }
                Sighting::InTransition => {
                    return Ok(WaitOutcome::Lost(format!(
                        "container {} stays between two states",
                        incarnation.container.short()
                    )));
                }
                _ => return Ok(WaitOutcome::Superseded),
            }
            match self.engine.wait_container(&incarnation.container).await {
                Ok(()) => {}
                Err(e) if e.kind == EngineErrorKind::NotFound => {
                    return Ok(WaitOutcome::Superseded);
                }
                Err(e) => return Err(e),
            }
        }
    }

    /// Reports a look-alike once (L14).
    fn report_foreign(&self, id: &ContainerId, name: &str) {
        let Ok(mut reported) = self.reported.lock() else {
            return;
        };
        if reported.len() < MAX_REPORTED && reported.insert(id.clone()) {
            tracing::warn!(
                container = id.short(),
                name,
                "a container carries our labels but is not ours by name; it is neither counted nor touched"
            );
        }
    }
}

impl<E: Engine> ComputeDriver for ContainerDriver<E> {
    async fn info(&self) -> Result<EngineInfo, DriverError> {
        let facts = self
            .engine
            .facts()
            .await
            .map_err(|e| e.doing(format!("asking {} who it is", self.engine.name())))?;
        Ok(EngineInfo {
            id: facts.id,
            driver: self.engine.name(),
            version: facts.version,
            api_version: facts.api_version,
            limits_supported: facts.limits_supported,
        })
    }

    async fn prepare_image(
        &self,
        _permit: &Permit,
        image: &ImageRef,
        progress: Progress,
    ) -> Result<(), DriverError> {
        let (theirs, ours) = join(
            self.fetch_image(image, &progress),
            self.ensure_supervisor_image(),
        )
        .await;
        theirs?;
        ours
    }

    async fn prepare_run(
        &self,
        permit: &Permit,
        run: &RunRequest,
    ) -> Result<Prepared, DriverError> {
        // Large, and awaited through many layers.
        Box::pin(self.prepare(permit, run)).await
    }

    async fn launch(&self, _permit: &Permit, run: &Prepared) -> Result<Launched, DriverError> {
        // Large, and awaited through many layers.
        Box::pin(self.start_both(run)).await
    }

    async fn stop(
        &self,
        _permit: &Permit,
        container: &ContainerId,
        grace: Duration,
    ) -> Result<StopOutcome, DriverError> {
        let doing = || format!("stopping container {}", container.short());
        let asked = if grace.is_zero() {
            self.engine.kill_container(container).await
        } else {
            self.engine.stop_container(container, grace).await
        };
        match &asked {
            Err(e) if e.kind == EngineErrorKind::NotFound => return Ok(StopOutcome::Missing),
            Err(e) if e.kind == EngineErrorKind::Unreachable => {
                return Err(e.clone().doing(doing()));
            }
            // Whatever else it said, what counts is whether it runs (L6).
            _ => {}
        }
        let facts = self
            .settled(container)
            .await
            .map_err(|e| e.doing(doing()))?;
        let Some(facts) = facts else {
            return Ok(StopOutcome::Missing);
        };
        match sighting(&facts) {
            Sighting::Exited(_, exit) => Ok(StopOutcome::NotRunning(exit)),
            Sighting::Created => Ok(StopOutcome::NeverStarted),
            _ => Err(match asked {
                Err(e) => e.doing(doing()),
                Ok(()) => DriverError::new(
                    DriverErrorKind::Engine,
                    format!("{}: the engine says that it still runs", doing()),
                ),
            }),
        }
    }

    async fn remove_supervisor(
        &self,
        _permit: &Permit,
        container: &ContainerId,
    ) -> Result<(), DriverError> {
        self.remove_container(container).await
    }

    async fn remove(&self, permit: &Permit, recorded: &Containers) -> Result<(), DriverError> {
        self.remove_all(permit.sandbox(), recorded).await
    }

    async fn inspect(&self, container: &ContainerId) -> Result<Sighting, DriverError> {
        let doing = || format!("looking at container {}", container.short());
        let facts = self
            .engine
            .inspect_container(&container.0)
            .await
            .map_err(|e| e.doing(doing()))?;
        match facts {
            Some(facts) => Ok(sighting(&facts)),
            // Asked now, not remembered: another engine may answer behind the same socket (L18).
            None => {
                let id: EngineId = self.engine.facts().await.map_err(|e| e.doing(doing()))?.id;
                Ok(Sighting::Missing(id))
            }
        }
    }

    async fn wait(&self, incarnation: &Incarnation) -> WaitOutcome {
        match self.wait_for(incarnation).await {
            Ok(outcome) => outcome,
            Err(e) => WaitOutcome::Lost(e.message),
        }
    }

    async fn list_owned(&self) -> Result<Vec<Owned>, DriverError> {
        let namespace = &self.config.namespace;
        let listed = self
            .engine
            .list_containers(&of_namespace(namespace))
            .await
            .map_err(|e| e.doing("listing our containers"))?;
        let mut owned = Vec::with_capacity(listed.len());
        for summary in listed {
            match recognise(namespace, summary) {
                Ok(found) => owned.extend(found.into_owned()),
                Err(foreign) => self.report_foreign(&foreign.id, &foreign.name),
            }
        }
        Ok(owned)
    }

    async fn watch(&self, signals: mpsc::Sender<EngineSignal>) {
        crate::watch::watch(&self.engine, &self.config.namespace, &signals).await;
    }

    async fn read_archive(
        &self,
        container: &ContainerId,
        path: &Path,
    ) -> Result<ByteStream, DriverError> {
        let path = inside(path)?;
        match self.engine.get_archive(container, path).await {
            Ok(archive) => Ok(archive),
            Err(e) => Err(self.archive_error(e, container, path).await),
        }
    }

    async fn write_archive(
        &self,
        _permit: &Permit,
        container: &ContainerId,
        directory: &Path,
        tar: ByteStream,
    ) -> Result<(), DriverError> {
        let directory = inside(directory)?;
        let facts = self
            .engine
            .inspect_container(&container.0)
            .await
            .map_err(|e| e.doing(format!("looking at container {}", container.short())))?
            .ok_or_else(|| missing(container))?;
        let user = UserIds::parse(&facts.user).unwrap_or(UserIds::DEFAULT);
        let (tar, broken) = owned_by(user, tar);
        match self.engine.put_archive(container, directory, tar).await {
            Ok(()) => Ok(()),
            // What broke the archive says more than what the engine made of its half.
            Err(e) => Err(match broken.take() {
                Some(cause) => cause,
                None => self.archive_error(e, container, directory).await,
            }),
        }
    }
}

impl<E: Engine> ContainerDriver<E> {
    /// Tells a missing container from a missing path.
    async fn archive_error(
        &self,
        error: EngineError,
        container: &ContainerId,
        path: &str,
    ) -> DriverError {
        let what = format!("{path} of container {}", container.short());
        if error.kind != EngineErrorKind::NotFound {
            return error.doing(what);
        }
        match self.engine.inspect_container(&container.0).await {
            Ok(None) => missing(container),
            _ => error.doing_as(DriverErrorKind::PathMissing, what),
        }
    }
}

/// A path that files may be read from or written to: absolute, and outside of the reserved tree, which holds what
/// the runtime itself trusts.
fn inside(path: &Path) -> Result<&str, DriverError> {
    let invalid = |why: &str| {
        DriverError::new(
            DriverErrorKind::Invalid,
            format!("the path {} cannot be used: {why}", path.display()),
        )
    };
    if !path.is_absolute() {
        return Err(invalid("it is not absolute"));
    }
    if path
        .components()
        .any(|part| part == std::path::Component::ParentDir)
    {
        return Err(invalid("it contains \"..\""));
    }
    if path.starts_with(RESERVED) {
        return Err(invalid(&format!("{RESERVED} belongs to the runtime")));
    }
    match path.to_str() {
        Some(text) if !text.contains('\0') => Ok(text),
        _ => Err(invalid("it is not UTF-8 without NUL bytes")),
    }
}
