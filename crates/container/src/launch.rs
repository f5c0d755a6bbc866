//! Starting the two halves of a prepared run: the workload has begun once it says so, having read its bootstrap.

use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::future::join;
use futures_util::stream::FuturesUnordered;
use openshell_core::bootstrap::NO_BOOTSTRAP_EXIT;
use openshell_core::{ContainerId, Incarnation};
use openshell_lifecycle::driver::{DriverError, DriverErrorKind, Launched, Prepared};

use crate::delivery::Delivery;
use crate::driver::ContainerDriver;
use crate::engine::{ContainerFacts, ContainerStatus, Engine, EngineError, EngineErrorKind};
use crate::prepare::missing;
use crate::sighting::incarnation;

const WORKLOAD: &str = "the workload's container";
const SUPERVISOR: &str = "the supervisor's container";
/// Longer than the runtime waits for its bootstrap, on a loaded machine.
const FIRST_WORD: Duration = Duration::from_secs(20);
/// An engine may give a process no input: Docker 20.10 does once to a container whose process ended while the daemon
/// was away with `live-restore`. The next process has it again.
const STARTS: usize = 2;

impl<E: Engine> ContainerDriver<E> {
    pub(crate) async fn start_both(&self, run: &Prepared) -> Result<Launched, DriverError> {
        let Some(pending) = self.inputs.take(&run.supervisor) else {
            return Err(DriverError::new(
                DriverErrorKind::Invalid,
                format!(
                    "run {} was not prepared by this gateway process, or was launched before; it has to be prepared again",
                    run.supervisor.short()
                ),
            ));
        };
        // The supervisor starts while the runtime is on its way.
        let (workload, supervisor) = join(
            self.start_workload(&run.workload, pending.workload, pending.runtime),
            self.start_supervisor(&run.supervisor),
        )
        .await;
        // Held until it has been started, which is when its bootstrap is read.
        drop(pending.supervisor);
        match (workload, supervisor) {
            (Ok(workload), Ok(supervisor)) => Ok(Launched {
                workload,
                supervisor,
            }),
            (Err(error), _) | (_, Err(error)) => {
                self.calm(run).await;
                Err(error)
            }
        }
    }

    async fn start_supervisor(&self, id: &ContainerId) -> Result<Incarnation, DriverError> {
        self.start(id, SUPERVISOR).await?;
        let facts = self.after_its_start(id, SUPERVISOR).await?;
        begun(&facts, SUPERVISOR)
    }

    async fn start(&self, id: &ContainerId, what: &str) -> Result<(), DriverError> {
        let started = self.engine.start_container(id).await;
        started.map_err(|e| starting(e, id, what))
    }

    async fn after_its_start(
        &self,
        id: &ContainerId,
        what: &str,
    ) -> Result<ContainerFacts, DriverError> {
        self.settled(id)
            .await
            .map_err(|e| e.doing(format!("looking at {what} after its start")))?
            .ok_or_else(|| missing(id))
    }

    /// Starts the workload with the runtime that it may lack, and hands its bootstrap to the process that has begun;
    /// to the next one too, if that one ends without having been given it.
    async fn start_workload(
        &self,
        id: &ContainerId,
        bootstrap: Bytes,
        runtime: bool,
    ) -> Result<Incarnation, DriverError> {
        if runtime {
            self.deliver(id, Delivery::Runtime).await?;
        }
        // Held to the end: what an engine has not yet passed on may be lost with its connection.
        let mut inputs = Vec::with_capacity(STARTS);
        loop {
            self.start(id, WORKLOAD).await?;
            let handed = self.hand_over(id, bootstrap.clone()).await;
            let mut facts = self.after_its_start(id, WORKLOAD).await?;
            if facts.status == ContainerStatus::Running {
                inputs.push(handed?);
                if self.begins(id, &mut inputs).await? {
                    return begun(&facts, WORKLOAD);
                }
                facts = self.after_its_start(id, WORKLOAD).await?;
            } else {
                inputs.extend(handed.ok());
            }
            let given_nothing = facts.status == ContainerStatus::Exited
                && facts.exit_code == i32::from(NO_BOOTSTRAP_EXIT);
            if !given_nothing || inputs.len() == STARTS {
                // How it ended is found out by whoever waits for it.
                return begun(&facts, WORKLOAD);
            }
            tracing::warn!(
                container = id.short(),
                "the engine gave the workload's container no input; it is started once more"
            );
        }
    }

    /// Whether the process says that it has read its bootstrap, rather than ends. One that was handed over to its
    /// predecessor too late is read by it, and heard there.
    async fn begins(&self, id: &ContainerId, inputs: &mut [E::Input]) -> Result<bool, DriverError> {
        let words = inputs.iter_mut().map(|input| self.engine.first_word(input));
        let mut words: FuturesUnordered<_> = words.collect();
        let heard = async {
            while let Some(word) = words.next().await {
                if word.map_err(|e| e.doing(format!("listening to {WORKLOAD}")))? {
                    return Ok(true);
                }
            }
            Ok(false)
        };
        tokio::time::timeout(FIRST_WORD, heard)
            .await
            .unwrap_or_else(|_| {
                Err(DriverError::new(
                    DriverErrorKind::Engine,
                    format!(
                        "the sandbox runtime in container {} has not begun within {} s of its start",
                        id.short(),
                        FIRST_WORD.as_secs()
                    ),
                ))
            })
    }

    /// Kills what a failed launch may have started.
    async fn calm(&self, run: &Prepared) {
        let (workload, supervisor) = join(
            self.engine.kill_container(&run.workload),
            self.engine.kill_container(&run.supervisor),
        )
        .await;
        for outcome in [workload, supervisor] {
            if let Err(error) = outcome
                && error.kind != EngineErrorKind::NotFound
            {
                tracing::warn!(%error, "a container may still run after a failed launch");
            }
        }
    }
}

/// The incarnation of what has just been started.
fn begun(facts: &ContainerFacts, what: &str) -> Result<Incarnation, DriverError> {
    incarnation(facts).ok_or_else(|| {
        DriverError::new(
            DriverErrorKind::Engine,
            format!("the engine started {what}, but does not say when"),
        )
    })
}

/// A refused start: the image's fault where the engine says that the runtime cannot be executed in it.
fn starting(error: EngineError, id: &ContainerId, what: &str) -> DriverError {
    if error.kind == EngineErrorKind::NotFound
        && error.message.to_lowercase().contains("no such container")
    {
        return missing(id);
    }
    let unusable = ["exec format error", "executable file not found"]
        .iter()
        .any(|words| error.message.contains(words));
    let kind = if unusable {
        DriverErrorKind::ImageUnusable
    } else {
        match error.kind {
            EngineErrorKind::Invalid => DriverErrorKind::Invalid,
            _ => DriverErrorKind::Engine,
        }
    };
    error.doing_as(kind, format!("starting {what} failed"))
}
