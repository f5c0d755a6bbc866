//! Doing what the machine asks: every call in a task of its own, with a bound, coming back as an input.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use openshell_core::{ContainerId, EngineId, Generation, Incarnation, SandboxRecord};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::Shared;
use super::cell::Cell;
use crate::driver::{
    ComputeDriver, Containers, DriverError, DriverErrorKind, Permit, Prepared, Role, RunRequest,
    Sighting, WaitOutcome,
};
use crate::machine::{Course, Effect, Input, Outcome, Ticket};

/// Progress is told at most this often.
const PROGRESS: Duration = Duration::from_secs(2);

/// Runs a call within a bound (L16). A panic and a silence are failures like others.
pub(super) async fn bounded<T>(
    bound: Duration,
    call: impl Future<Output = Result<T, DriverError>>,
) -> Result<T, DriverError> {
    match tokio::time::timeout(bound, AssertUnwindSafe(call).catch_unwind()).await {
        Ok(Ok(result)) => result,
        Ok(Err(_)) => Err(DriverError::new(
            DriverErrorKind::Unreachable,
            "the driver failed in an unforeseen way; see the gateway's log",
        )),
        Err(_) => Err(DriverError::new(
            DriverErrorKind::Unreachable,
            format!("the engine did not answer within {} s", bound.as_secs()),
        )),
    }
}

impl<D: ComputeDriver> Cell<D> {
    pub(super) fn act(&mut self, effect: Effect) {
        match effect {
            Effect::PrepareImage(ticket) => self.prepare_image(ticket),
            Effect::PrepareRun(ticket) => self.prepare_run(ticket),
            Effect::Launch(ticket, prepared) => self.launch(ticket, prepared),
            Effect::StopWorkload(ticket, container, grace) => {
                self.stop_workload(ticket, container, grace);
            }
            Effect::RemoveAll(ticket, containers) => self.remove_all(ticket, containers),
            Effect::Cancel(ticket) => {
                if let Some(call) = self.calls.remove(&ticket.serial) {
                    call.abort();
                }
            }
            Effect::RemoveSupervisor(container, generation) => {
                self.remove_supervisor(container, generation);
            }
            Effect::Look(role, container, serial) => self.look(role, container, serial),
            Effect::Freeze(frozen) => {
                if let Some((_, handle)) = &self.session {
                    handle.freeze(frozen);
                }
            }
            Effect::CloseSession(reason) => self.close_session(reason),
            // Done by the commit.
            Effect::Forget => {}
        }
    }

    pub(super) fn close_session(&mut self, reason: &'static str) {
        if let Some((_, handle)) = self.session.take() {
            handle.close(reason);
        }
    }

    fn call<F>(&mut self, ticket: Ticket, call: F)
    where
        F: Future<Output = Outcome> + Send + 'static,
    {
        // One at a time, so what is left here has ended.
        self.calls.retain(|_, call| !call.is_finished());
        let task = self
            .tasks
            .spawn(async move { Input::Outcome(ticket, call.await) });
        self.calls.insert(ticket.serial, task);
    }

    fn permit(&self, generation: Generation) -> Permit {
        Permit::new(self.state.record.meta.id, generation)
    }

    fn prepare_image(&mut self, ticket: Ticket) {
        let driver = Arc::clone(&self.shared.driver);
        let permit = self.permit(ticket.generation);
        let image = self.state.record.spec.image.clone();
        let told = self.progress.clone();
        // Its bound is renewed by progress, so it is the machine's, which gives the call up.
        let never = Duration::from_secs(24 * 3600);
        self.call(ticket, async move {
            let Some(image) = image else {
                return Outcome::Image(Err(DriverError::new(
                    DriverErrorKind::Invalid,
                    "no image was asked for, and none is configured",
                )));
            };
            let (progress, heard) = mpsc::channel(8);
            let work = bounded(never, driver.prepare_image(&permit, &image, progress));
            Outcome::Image(relay_progress(ticket, heard, told, work).await)
        });
    }

    fn prepare_run(&mut self, ticket: Ticket) {
        let driver = Arc::clone(&self.shared.driver);
        let permit = self.permit(ticket.generation);
        let bound = self.shared.config.engine_call;
        let request = run_request(&self.shared, &self.state.record, ticket.generation);
        self.call(ticket, async move {
            Outcome::Prepared(match request {
                Ok(request) => bounded(bound, driver.prepare_run(&permit, &request)).await,
                Err(error) => Err(error),
            })
        });
    }

    fn launch(&mut self, ticket: Ticket, prepared: Prepared) {
        let driver = Arc::clone(&self.shared.driver);
        let permit = self.permit(ticket.generation);
        let bound = self.shared.config.engine_call;
        self.call(ticket, async move {
            Outcome::Launched(bounded(bound, driver.launch(&permit, &prepared)).await)
        });
    }

    fn stop_workload(&mut self, ticket: Ticket, container: ContainerId, grace: Duration) {
        let driver = Arc::clone(&self.shared.driver);
        let permit = self.permit(ticket.generation);
        let bound = self.shared.config.engine_call + grace;
        self.call(ticket, async move {
            Outcome::Stopped(bounded(bound, driver.stop(&permit, &container, grace)).await)
        });
    }

    fn remove_all(&mut self, ticket: Ticket, containers: Containers) {
        let driver = Arc::clone(&self.shared.driver);
        let permit = self.permit(ticket.generation);
        let bound = self.shared.config.engine_call;
        let holder = self.state.record.life.engine.clone();
        let witness = containers
            .workload
            .clone()
            .or(containers.supervisor.clone());
        self.call(ticket, async move {
            let removal = async {
                driver.remove(&permit, &containers).await?;
                gone(driver.as_ref(), holder, witness).await
            };
            Outcome::Removed(bounded(bound, removal).await)
        });
    }

    fn remove_supervisor(&mut self, container: ContainerId, generation: Generation) {
        let driver = Arc::clone(&self.shared.driver);
        let permit = self.permit(generation);
        let bound = self.shared.config.engine_call;
        let holder = self.state.record.life.engine.clone();
        self.tasks.spawn(async move {
            let removal = async {
                driver.remove_supervisor(&permit, &container).await?;
                gone(driver.as_ref(), holder, Some(container.clone())).await
            };
            let result = bounded(bound, removal).await;
            Input::Retired(container, result)
        });
    }

    fn look(&mut self, role: Role, container: ContainerId, serial: u64) {
        let shared = Arc::clone(&self.shared);
        let many = self.state.adopting || self.state.course == Course::Rest;
        self.tasks.spawn(async move {
            // When the gateway starts, or the engine is back, it is not asked about everything at once.
            let _turn = if many {
                shared.restoring.acquire().await.ok()
            } else {
                None
            };
            let bound = shared.config.engine_call.min(Duration::from_secs(10));
            let answer = bounded(bound, shared.driver.inspect(&container))
                .await
                .map_err(|error| error.message);
            Input::Looked {
                role,
                serial,
                answer,
            }
        });
    }

    /// Keeps one wait for each incarnation that the state watches, and none other.
    pub(super) fn keep_waits(&mut self) {
        let watching = &self.state.watching;
        self.waits.retain(|incarnation, wait| {
            let kept = watching.contains_key(incarnation);
            if !kept {
                wait.abort();
            }
            kept
        });
        for (incarnation, role) in watching {
            // One that has ended stays here until the machine has taken note of it: never two for one run.
            if !self.waits.contains_key(incarnation) {
                let wait = self.tasks.spawn(wait_for(
                    Arc::clone(&self.shared),
                    *role,
                    incarnation.clone(),
                ));
                self.waits.insert(incarnation.clone(), wait);
            }
        }
    }
}

/// Removing is done already on an engine that never held it: gone is only what its holder says is gone (L18).
async fn gone<D: ComputeDriver>(
    driver: &D,
    holder: Option<EngineId>,
    container: Option<ContainerId>,
) -> Result<(), DriverError> {
    let (Some(holder), Some(container)) = (holder, container) else {
        return Ok(());
    };
    match driver.inspect(&container).await? {
        Sighting::Missing(engine) if engine == holder => Ok(()),
        Sighting::Missing(_) => Err(DriverError::new(
            DriverErrorKind::Unreachable,
            "the engine that answers is not the one that holds its containers",
        )),
        _ => Err(DriverError::new(
            DriverErrorKind::Engine,
            format!(
                "container {} is still there after its removal",
                container.short()
            ),
        )),
    }
}

async fn wait_for<D: ComputeDriver>(
    shared: Arc<Shared<D>>,
    role: Role,
    incarnation: Incarnation,
) -> Input {
    let outcome = AssertUnwindSafe(shared.driver.wait(&incarnation))
        .catch_unwind()
        .await
        .unwrap_or_else(|_| WaitOutcome::Lost("the driver failed in an unforeseen way".to_owned()));
    Input::Waited(role, incarnation, outcome)
}

fn run_request<D>(
    shared: &Shared<D>,
    record: &SandboxRecord,
    generation: Generation,
) -> Result<RunRequest, DriverError> {
    let (sandbox_bootstrap, supervisor_bootstrap) = shared
        .issuer
        .issue(record, generation, shared.environment.now())
        .map_err(|why| {
            DriverError::new(
                DriverErrorKind::Engine,
                format!("the run's credentials could not be made: {why}"),
            )
        })?;
    Ok(RunRequest {
        sandbox: record.meta.id,
        name: record.meta.name.clone(),
        workspace: record.meta.workspace.clone(),
        generation,
        spec: Arc::new(record.spec.clone()),
        existing_workload: super::workload_container(record).cloned(),
        sandbox_bootstrap,
        supervisor_bootstrap,
    })
}

/// Passes on the newest line at most every two seconds; a full mailbox drops it.
async fn relay_progress<T>(
    ticket: Ticket,
    mut heard: mpsc::Receiver<String>,
    told: mpsc::Sender<(Ticket, String)>,
    work: impl Future<Output = T>,
) -> T {
    tokio::pin!(work);
    let mut last: Option<Instant> = None;
    loop {
        tokio::select! {
            biased;
            done = &mut work => return done,
            Some(line) = heard.recv() => {
                let now = Instant::now();
                if last.is_none_or(|last| now.duration_since(last) >= PROGRESS)
                    && told.try_send((ticket, line)).is_ok()
                {
                    last = Some(now);
                }
            }
        }
    }
}
