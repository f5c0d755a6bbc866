//! Taking away: everything of one sandbox, or what an interrupted attempt left. Only what is recorded, or ours by
//! both label and name, is ever touched (L13, L14).

use futures_util::future::{join, join_all};
use openshell_core::{ContainerId, Generation, SandboxId};
use openshell_lifecycle::driver::{Containers, DriverError, DriverErrorKind, Owned, Role};

use crate::driver::ContainerDriver;
use crate::engine::{ContainerSummary, Engine, EngineErrorKind, VolumeFacts};
use crate::labels::{Claim, Part, of_sandbox};

/// A container that is ours by label and name.
pub(crate) struct Found {
    pub(crate) id: ContainerId,
    pub(crate) name: String,
    pub(crate) running: bool,
    pub(crate) claim: Claim,
}

impl Found {
    /// As the fence lists it; a probe is nobody's half.
    pub(crate) fn into_owned(self) -> Option<Owned> {
        let Part::Half(role) = self.claim.part else {
            return None;
        };
        Some(Owned {
            sandbox: self.claim.sandbox,
            role,
            container: self.id,
            name: self.name,
            generation: self.claim.generation,
            running: self.running,
        })
    }
}

/// Ours, or only made to look like it.
pub(crate) fn recognise(
    namespace: &str,
    summary: ContainerSummary,
) -> Result<Found, ContainerSummary> {
    match Claim::read(namespace, &summary.labels) {
        Some(claim) if claim.fits_container(namespace, &summary.name) => Ok(Found {
            id: summary.id,
            name: summary.name,
            running: summary.running,
            claim,
        }),
        _ => Err(summary),
    }
}

impl<E: Engine> ContainerDriver<E> {
    /// This sandbox's containers, as labels and names find them.
    pub(crate) async fn find_containers(
        &self,
        sandbox: SandboxId,
    ) -> Result<Vec<Found>, DriverError> {
        let namespace = &self.config.namespace;
        let listed = self
            .engine
            .list_containers(&of_sandbox(namespace, sandbox))
            .await
            .map_err(|e| e.doing("listing the sandbox's containers"))?;
        Ok(listed
            .into_iter()
            .filter_map(|summary| recognise(namespace, summary).ok())
            .collect())
    }

    /// Removes what earlier attempts at this run left: its supervisor, every probe, and a workload that was never
    /// recorded. Supervisors of earlier runs are the fence's: it retires them, and a start does not wait for that.
    pub(crate) async fn clear_leftovers(
        &self,
        sandbox: SandboxId,
        generation: Generation,
        keep: Option<&ContainerId>,
    ) -> Result<(), DriverError> {
        let leftovers: Vec<_> = self
            .find_containers(sandbox)
            .await?
            .into_iter()
            .filter(|found| match found.claim.part {
                Part::Half(Role::Supervisor) => {
                    found.claim.generation.is_none_or(|of| of >= generation)
                }
                Part::Probe => true,
                Part::Half(Role::Workload) => keep.is_none(),
            })
            .map(|found| found.id)
            .collect();
        self.remove_containers(&leftovers).await
    }

    /// Removes a list of containers side by side; tells the first failure, after trying all.
    async fn remove_containers(&self, ids: &[ContainerId]) -> Result<(), DriverError> {
        let all = join_all(ids.iter().map(|id| self.remove_container(id))).await;
        all.into_iter().collect()
    }

    pub(crate) async fn remove_container(&self, id: &ContainerId) -> Result<(), DriverError> {
        drop(self.inputs.take(id));
        self.delivered.forget(id);
        self.engine
            .remove_container(id)
            .await
            .map_err(|e| e.doing(format!("removing container {}", id.short())))
    }

    /// Removes volumes side by side. One that something else uses is an error that says so.
    pub(crate) async fn remove_volumes(&self, names: &[String]) -> Result<(), DriverError> {
        let all = join_all(names.iter().map(|name| async move {
            self.engine.remove_volume(name).await.map_err(|e| {
                let in_use = e.kind == EngineErrorKind::Conflict;
                let hint = if in_use {
                    " (a container that is not ours uses it; remove that container, then delete again)"
                } else {
                    ""
                };
                e.doing_as(
                    DriverErrorKind::Engine,
                    format!("removing volume {name}{hint}"),
                )
            })
        }))
        .await;
        all.into_iter().collect()
    }

    /// Removes everything of a sandbox. Recorded containers go at once; what labels find follows; volumes last.
    pub(crate) async fn remove_all(
        &self,
        sandbox: SandboxId,
        recorded: &Containers,
    ) -> Result<(), DriverError> {
        let recorded: Vec<_> = [&recorded.workload, &recorded.supervisor]
            .into_iter()
            .flatten()
            .cloned()
            .collect();
        let labels = of_sandbox(&self.config.namespace, sandbox);
        let (removed, (found, volumes)) = join(
            self.remove_containers(&recorded),
            join(
                self.find_containers(sandbox),
                self.engine.list_volumes(&labels),
            ),
        )
        .await;
        let others: Vec<_> = found?
            .into_iter()
            .map(|found| found.id)
            .filter(|id| !recorded.contains(id))
            .collect();
        self.remove_containers(&others).await?;
        removed?;
        let volumes = volumes.map_err(|e| e.doing("listing the sandbox's volumes"))?;
        self.remove_volumes(&self.our_volumes(volumes)).await
    }

    fn our_volumes(&self, volumes: Vec<VolumeFacts>) -> Vec<String> {
        let namespace = &self.config.namespace;
        volumes
            .into_iter()
            .filter(|volume| {
                Claim::read(namespace, &volume.labels)
                    .is_some_and(|claim| claim.fits_volume(namespace, &volume.name))
            })
            .map(|volume| volume.name)
            .collect()
    }

    /// After a failed preparation: whatever this attempt made. What cannot be removed now is found again by the
    /// next attempt or by the removal of the sandbox.
    pub(crate) async fn undo(
        &self,
        sandbox: SandboxId,
        generation: Generation,
        keep: Option<&ContainerId>,
        new_volumes: &[String],
    ) {
        let outcome = match self.clear_leftovers(sandbox, generation, keep).await {
            Ok(()) => self.remove_volumes(new_volumes).await,
            Err(e) => Err(e),
        };
        if let Err(error) = outcome {
            tracing::warn!(%sandbox, %generation, %error, "a failed preparation left something behind; it is removed with the next attempt or the sandbox");
        }
    }
}
