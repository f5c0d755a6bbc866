//! Making the two containers of a run and delivering their bytes. The halves are made side by side; what fails is
//! undone once every call in flight has come back.

use std::sync::Mutex;

use bytes::Bytes;
use futures_util::future::{join, join3};
use openshell_core::bootstrap::{RUNTIME_BINARY, SUPERVISOR_UID};
use openshell_core::{ContainerId, Generation};
use openshell_lifecycle::driver::{
    DriverError, DriverErrorKind, Permit, Prepared, Role, RunRequest,
};

use crate::delivery::{self, Delivery};
use crate::driver::ContainerDriver;
use crate::engine::{ContainerStatus, Engine, EngineErrorKind, EngineFacts};
use crate::identity::UserIds;
use crate::images::{Present, unique};
use crate::inputs::Pending;
use crate::labels::{Claim, Identity, Part};
use crate::plan::{self, ContainerPlan, Resolver, WorkloadImage, Workspace};
use crate::saved_image::SavedImage;
use crate::workspace_image::workspace_image;

/// What the workload's side is found to stand on.
enum Found {
    Kept(ContainerId, UserIds),
    Image(Present),
}

/// The workload's side, before anything is made of it.
enum Ground {
    /// The container of earlier runs.
    Kept(ContainerId, UserIds),
    /// None yet: the image that it is to be made from.
    New(WorkloadImage),
}

impl Ground {
    const fn user(&self) -> UserIds {
        match self {
            Self::Kept(_, user) | Self::New(WorkloadImage { user, .. }) => *user,
        }
    }
}

impl<E: Engine> ContainerDriver<E> {
    pub(crate) async fn prepare(
        &self,
        permit: &Permit,
        run: &RunRequest,
    ) -> Result<Prepared, DriverError> {
        if permit.sandbox() != run.sandbox || permit.generation() != run.generation {
            return Err(DriverError::new(
                DriverErrorKind::Invalid,
                format!(
                    "the permit is for sandbox {} run {}, the request for sandbox {} run {}",
                    permit.sandbox(),
                    permit.generation(),
                    run.sandbox,
                    run.generation
                ),
            ));
        }
        let new_volumes = Mutex::new(Vec::new());
        let (facts, made) = join(self.engine.facts(), self.make(run, &new_volumes)).await;
        let outcome = match (facts, made) {
            (Ok(facts), Ok((workload, supervisor))) => {
                let fits = self
                    .check_architecture(&facts)
                    .and_then(|()| check_cpus(run, &facts));
                fits.map(|()| Prepared {
                    workload,
                    supervisor,
                    engine: facts.id,
                })
            }
            (_, Err(e)) => Err(e),
            (Err(e), _) => Err(e.doing("asking the engine who it is")),
        };
        if outcome.is_err() {
            let volumes = new_volumes.into_inner().unwrap_or_default();
            self.undo(
                run.sandbox,
                run.generation,
                run.existing_workload.as_ref(),
                &volumes,
            )
            .await;
        }
        outcome
    }

    fn check_architecture(&self, facts: &EngineFacts) -> Result<(), DriverError> {
        let ours = self.runtime.architecture();
        if facts.os == "linux" && facts.architecture == ours {
            return Ok(());
        }
        Err(DriverError::new(
            DriverErrorKind::Invalid,
            format!(
                "the engine runs {}/{}, and this gateway carries a sandbox runtime for linux/{ours}; install the gateway for {}",
                facts.os, facts.architecture, facts.architecture
            ),
        ))
    }

    async fn make(
        &self,
        run: &RunRequest,
        new_volumes: &Mutex<Vec<String>>,
    ) -> Result<(ContainerId, ContainerId), DriverError> {
        let identity = Identity {
            namespace: self.config.namespace.clone(),
            sandbox: run.sandbox,
            name: run.name.clone(),
            workspace: run.workspace.clone(),
        };
        let (found, volumes, cleared) = join3(
            self.look_at_ground(run),
            self.ensure_volumes(&identity, run, new_volumes),
            self.clear_leftovers(run.sandbox, run.generation, run.existing_workload.as_ref()),
        )
        .await;
        let found = found?;
        let new_link = volumes?;
        cleared?;
        let ground = match found {
            Found::Kept(id, user) => Ground::Kept(id, user),
            Found::Image(image) => Ground::New(self.settle_image(run.sandbox, &image).await?),
        };
        // Not a try_join: a create in flight must not be forgotten because another one failed.
        let (workload, supervisor, seeded) = join3(
            self.make_workload(&identity, run, &ground),
            self.make_supervisor(&identity, run, ground.user()),
            self.seed_workspace(&identity, &ground),
        )
        .await;
        let (workload, workload_bootstrap) = workload?;
        let (supervisor, supervisor_input) = supervisor?;
        seeded?;
        let pending = Pending {
            workload: workload_bootstrap,
            supervisor: supervisor_input,
            runtime: self.lacks_runtime(&workload, &ground, new_link).await?,
        };
        self.inputs.put(&supervisor, pending);
        Ok((workload, supervisor))
    }

    /// Looks at what the run is to stand on.
    async fn look_at_ground(&self, run: &RunRequest) -> Result<Found, DriverError> {
        let Some(id) = &run.existing_workload else {
            let image = run
                .spec
                .image
                .as_ref()
                .unwrap_or(&self.config.default_image);
            return Ok(Found::Image(self.present_image(image).await?));
        };
        let facts = self
            .engine
            .inspect_container(&id.0)
            .await
            .map_err(|e| e.doing("looking at the sandbox's container"))?
            .ok_or_else(|| missing(id))?;
        if facts.status == ContainerStatus::Running {
            return Err(DriverError::new(
                DriverErrorKind::Engine,
                format!(
                    "container {} still runs; a new run needs it stopped first",
                    id.short()
                ),
            ));
        }
        let user = UserIds::parse(&facts.user).ok_or_else(|| {
            DriverError::new(
                DriverErrorKind::Engine,
                format!(
                    "container {} is configured for user {:?}, which we never set",
                    id.short(),
                    facts.user
                ),
            )
        })?;
        Ok(Found::Kept(id.clone(), user))
    }

    /// Makes the two volumes of a new workload; says whether the link's is new. One that exists is taken only if it
    /// is ours: files of a sandbox whose container was lost are kept.
    async fn ensure_volumes(
        &self,
        identity: &Identity,
        run: &RunRequest,
        new_volumes: &Mutex<Vec<String>>,
    ) -> Result<bool, DriverError> {
        if run.existing_workload.is_some() {
            return Ok(false);
        }
        let (link, workspace) = join(
            self.ensure_volume(identity, identity.link_volume(), new_volumes),
            self.ensure_volume(identity, identity.workspace_volume(), new_volumes),
        )
        .await;
        workspace?;
        link
    }

    async fn ensure_volume(
        &self,
        identity: &Identity,
        name: String,
        new_volumes: &Mutex<Vec<String>>,
    ) -> Result<bool, DriverError> {
        let doing = |what: &str| format!("{what} volume {name}");
        let known = self
            .engine
            .inspect_volume(&name)
            .await
            .map_err(|e| e.doing(doing("looking for")))?;
        let (volume, new) = match known {
            Some(volume) => (volume, false),
            None => {
                let labels = identity.labels(Role::Workload);
                let made = self.engine.create_volume(&name, &labels).await;
                (made.map_err(|e| e.doing(doing("making")))?, true)
            }
        };
        let ours = Claim::read(&identity.namespace, &volume.labels)
            .is_some_and(|c| c.sandbox == identity.sandbox && c.part == Part::Half(Role::Workload));
        if !ours {
            return Err(DriverError::new(
                DriverErrorKind::NameTaken,
                format!(
                    "the volume name {name} is taken by a volume that is not ours; it was left alone; remove it (`{} volume rm {name}`) or give the sandbox another name",
                    self.engine.name()
                ),
            ));
        }
        if new && let Ok(mut made) = new_volumes.lock() {
            made.push(name);
        }
        Ok(new)
    }

    async fn make_workload(
        &self,
        identity: &Identity,
        run: &RunRequest,
        ground: &Ground,
    ) -> Result<(ContainerId, Bytes), DriverError> {
        let id = match ground {
            Ground::Kept(id, _) => id.clone(),
            Ground::New(image) => self.create_workload(identity, run, image).await?,
        };
        let mut bootstrap = run.sandbox_bootstrap.clone();
        bootstrap.supervisor_uid = SUPERVISOR_UID;
        Ok((id, delivery::bootstrap(&bootstrap)?))
    }

    async fn create_workload(
        &self,
        identity: &Identity,
        run: &RunRequest,
        image: &WorkloadImage,
    ) -> Result<ContainerId, DriverError> {
        let plan = plan::workload(identity, image, &run.spec.resources, self.config.pids_limit);
        let id = self.create(&plan, "the workload's container").await?;
        if image.workspace == Workspace::FromImage {
            // It has the image's files, and the image's owner. Done before the container is recorded, so that one
            // that is recorded never lacks it.
            let ground = Delivery::Ground {
                owner: image.user,
                resolver: image.resolver == Resolver::Foreign && !self.engine.tells_resolver(),
            };
            self.deliver(&id, ground).await?;
        }
        Ok(id)
    }

    /// Gives an empty workspace to the workload's user. The engine does so as it makes a container, if the volume
    /// is empty; a workspace with files in it has its owner already.
    async fn seed_workspace(
        &self,
        identity: &Identity,
        ground: &Ground,
    ) -> Result<(), DriverError> {
        let Ground::New(WorkloadImage {
            user,
            workspace: Workspace::Empty,
            ..
        }) = ground
        else {
            return Ok(());
        };
        let image = workspace_image(self.runtime.architecture(), *user)?;
        let plan = plan::seed(identity, image.tag(), &unique());
        let what = "the container that seeds the workspace";
        let seed = self.create_from_ours(&plan, &image, what).await?;
        self.remove_container(&seed).await
    }

    /// Delivers what a workload lacks.
    pub(crate) async fn deliver(
        &self,
        id: &ContainerId,
        delivery: Delivery,
    ) -> Result<(), DriverError> {
        let archive = delivery.archive(&self.runtime)?;
        self.engine
            .put_archive(id, delivery.directory(), archive)
            .await
            .map_err(|e| {
                if e.kind == EngineErrorKind::NotFound {
                    return missing(id);
                }
                e.doing("delivering the sandbox's files")
            })?;
        if delivery == Delivery::Runtime {
            self.delivered.insert(id);
        }
        Ok(())
    }

    /// Whether the runtime has to be delivered: a new link volume is filled from the supervisor's image.
    async fn lacks_runtime(
        &self,
        id: &ContainerId,
        ground: &Ground,
        new_link: bool,
    ) -> Result<bool, DriverError> {
        match ground {
            Ground::New(_) if new_link && self.engine.fills_volumes() => {
                self.delivered.insert(id);
                Ok(false)
            }
            _ => Ok(!self.has_runtime(id).await?),
        }
    }

    /// Whether a container holds the very runtime that we would deliver. Nobody inside can write there.
    async fn has_runtime(&self, id: &ContainerId) -> Result<bool, DriverError> {
        if self.delivered.holds(id) {
            return Ok(true);
        }
        let held = self
            .engine
            .stat(id, RUNTIME_BINARY)
            .await
            .map_err(|e| e.doing("looking at the sandbox runtime"))?;
        let same = held.is_some_and(|file| {
            file.size == self.runtime.len() && file.modified == i64::from(self.runtime.mark())
        });
        if same {
            self.delivered.insert(id);
        }
        Ok(same)
    }

    async fn make_supervisor(
        &self,
        identity: &Identity,
        run: &RunRequest,
        workload: UserIds,
    ) -> Result<(ContainerId, E::Input), DriverError> {
        let id = self.create_supervisor(identity, run.generation).await?;
        let mut bootstrap = run.supervisor_bootstrap.clone();
        bootstrap.workload_uid = workload.uid;
        let input = self
            .hand_over(&id, delivery::bootstrap(&bootstrap)?)
            .await?;
        Ok((id, input))
    }

    pub(crate) async fn hand_over(
        &self,
        id: &ContainerId,
        bytes: Bytes,
    ) -> Result<E::Input, DriverError> {
        self.engine.attach_input(id, bytes).await.map_err(|e| {
            if e.kind == EngineErrorKind::NotFound {
                return missing(id);
            }
            e.doing("handing over a bootstrap")
        })
    }

    async fn create_supervisor(
        &self,
        identity: &Identity,
        generation: Generation,
    ) -> Result<ContainerId, DriverError> {
        let plan = plan::supervisor(
            identity,
            generation,
            self.supervisor.tag(),
            self.config.supervisor_network.clone(),
        );
        self.create_from_ours(&plan, &self.supervisor, "the supervisor's container")
            .await
    }

    /// From an image that we make: it is loaded if the engine does not hold it (any more).
    async fn create_from_ours(
        &self,
        plan: &ContainerPlan,
        image: &SavedImage,
        what: &str,
    ) -> Result<ContainerId, DriverError> {
        match self.engine.create_container(plan).await {
            Err(e) if e.kind == EngineErrorKind::NotFound => {
                self.load_image(image).await?;
                self.create(plan, what).await
            }
            Err(e) => Err(creating(e, plan, what, self.engine.name())),
            Ok(id) => Ok(id),
        }
    }

    async fn create(&self, plan: &ContainerPlan, what: &str) -> Result<ContainerId, DriverError> {
        self.engine
            .create_container(plan)
            .await
            .map_err(|e| creating(e, plan, what, self.engine.name()))
    }
}

/// Docker refuses more CPUs than there are, and Podman does not.
fn check_cpus(run: &RunRequest, facts: &EngineFacts) -> Result<(), DriverError> {
    let asked = run.spec.resources.cpu.map_or(0, |cpu| cpu.0);
    let there_are = facts.cpus.saturating_mul(1000);
    if there_are == 0 || asked <= there_are {
        return Ok(());
    }
    Err(DriverError::new(
        DriverErrorKind::Invalid,
        format!(
            "the sandbox asks for {asked} thousandths of a CPU, and the engine's machine has {} CPUs; ask for less",
            facts.cpus
        ),
    ))
}

/// Leftovers of ours are cleared before anything is made, so who holds the name now is somebody else.
fn creating(
    error: crate::engine::EngineError,
    plan: &ContainerPlan,
    what: &str,
    engine: &str,
) -> DriverError {
    match error.kind {
        EngineErrorKind::Conflict => {
            let name = &plan.name;
            error.doing_as(
                DriverErrorKind::NameTaken,
                format!(
                    "the container name {name} is taken by a container that is not ours; it was left alone; rename it (`{engine} rename {name} NEW`) or remove it, then start the sandbox again"
                ),
            )
        }
        EngineErrorKind::NotFound => error.doing_as(
            DriverErrorKind::ImagePull,
            format!("creating {what} failed"),
        ),
        _ => error.doing(format!("creating {what} failed")),
    }
}

pub(crate) fn missing(id: &ContainerId) -> DriverError {
    DriverError::new(
        DriverErrorKind::RuntimeMissing,
        format!(
            "container {} is recorded, but the engine does not have it any more; somebody removed it",
            id.short()
        ),
    )
}
