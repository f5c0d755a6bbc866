//! A fence with everything around it simulated, and the waits that tests need.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use openshell_core::journal::JournalEntry;
use openshell_core::{
    Generation, ImageRef, Phase, RestartPolicy, SandboxId, SandboxName, SandboxRecord, SandboxSpec,
    SupervisorInstance, WorkspaceName,
};
use openshell_store::Store;
use tokio::task::JoinHandle;
use uuid::Uuid;

use crate::config::FenceConfig;
use crate::fence::{CommandError, Fence, LifecycleFence, NewSandbox};
use crate::ports::{Environment, MainReport, SessionEvent, SessionHello};
use crate::simulated::{SimulatedDriver, SimulatedEnvironment, SimulatedIssuer, SimulatedSession};

/// By virtual time: nothing in these tests takes longer.
const DEADLINE: Duration = Duration::from_secs(1200);

pub(super) type Sessions = Arc<Mutex<BTreeMap<SandboxId, (Generation, Arc<SimulatedSession>)>>>;

pub(super) struct Harness {
    pub(super) fence: Fence<SimulatedDriver>,
    pub(super) driver: Arc<SimulatedDriver>,
    pub(super) store: Store,
    pub(super) environment: Arc<SimulatedEnvironment>,
    pub(super) sessions: Sessions,
    supervisors: JoinHandle<()>,
}

impl Drop for Harness {
    fn drop(&mut self) {
        self.supervisors.abort();
    }
}

impl Harness {
    /// With supervisors that come into session at every launch.
    pub(super) async fn new() -> Self {
        Self::with(FenceConfig::default()).await
    }

    pub(super) async fn with(config: FenceConfig) -> Self {
        let environment = Arc::new(SimulatedEnvironment::new());
        let driver = Arc::new(SimulatedDriver::new(environment.clone()));
        let store = Store::in_memory().expect("an in-memory store opens");
        Self::over(config, environment, driver, store).await
    }

    /// Another gateway on the same engine and store.
    pub(super) async fn again(&self, config: FenceConfig) -> Self {
        Self::over(
            config,
            self.environment.clone(),
            self.driver.clone(),
            self.store.clone(),
        )
        .await
    }

    /// Another gateway on the same engine, with this store.
    pub(super) async fn again_on(&self, store: Store) -> Self {
        let (environment, driver) = (self.environment.clone(), self.driver.clone());
        Self::over(FenceConfig::default(), environment, driver, store).await
    }

    async fn over(
        config: FenceConfig,
        environment: Arc<SimulatedEnvironment>,
        driver: Arc<SimulatedDriver>,
        store: Store,
    ) -> Self {
        let fence = Fence::new(
            config,
            driver.clone(),
            store.clone(),
            environment.clone(),
            Arc::new(SimulatedIssuer),
        );
        let sessions = Sessions::default();
        let supervisors = tokio::spawn(supervise(fence.clone(), driver.clone(), sessions.clone()));
        // The supervisors' task must listen before the first launch.
        tokio::task::yield_now().await;
        fence.restore().await.expect("restores");
        Self {
            fence,
            driver,
            store,
            environment,
            sessions,
            supervisors,
        }
    }

    /// No supervisor comes into session by itself any more.
    pub(super) fn mute_supervisors(&self) {
        self.supervisors.abort();
    }

    pub(super) async fn create(
        &self,
        name: &str,
        policy: RestartPolicy,
    ) -> Result<Arc<SandboxRecord>, CommandError> {
        self.fence.create(new_sandbox(name, policy, None)).await
    }

    pub(super) async fn ready(&self, name: &str, policy: RestartPolicy) -> SandboxId {
        let id = self.create(name, policy).await.expect("created").meta.id;
        self.phase(id, Phase::Ready).await;
        id
    }

    pub(super) fn record(&self, id: SandboxId) -> Arc<SandboxRecord> {
        self.fence.by_id(id).expect("it exists")
    }

    /// Waits for a condition of the published record.
    pub(super) async fn until(
        &self,
        id: SandboxId,
        what: &str,
        condition: impl Fn(&SandboxRecord) -> bool,
    ) -> Arc<SandboxRecord> {
        let mut watch = self.fence.watch(id).expect("it exists");
        let wait = watch.wait_for(|r| r.as_ref().is_some_and(|r| condition(r)));
        match tokio::time::timeout(DEADLINE, wait).await {
            Ok(Ok(found)) => found.clone().expect("checked by the wait"),
            _ => panic!(
                "never {what}: {:#?}",
                self.fence.by_id(id).map(|r| r.life.clone())
            ),
        }
    }

    pub(super) async fn phase(&self, id: SandboxId, phase: Phase) -> Arc<SandboxRecord> {
        self.until(id, phase.as_str(), |r| r.life.phase == phase)
            .await
    }

    /// Waits until a run of this generation is Ready.
    pub(super) async fn ready_run(&self, id: SandboxId, generation: u64) -> Arc<SandboxRecord> {
        self.until(id, "Ready again", |r| {
            r.life.phase == Phase::Ready && r.life.generation == Generation(generation)
        })
        .await
    }

    pub(super) async fn gone(&self, id: SandboxId) {
        let Some(mut watch) = self.fence.watch(id) else {
            return;
        };
        let wait = watch.wait_for(Option::is_none);
        tokio::time::timeout(DEADLINE, wait)
            .await
            .expect("it is deleted in time")
            .expect("the deletion is published");
    }

    /// Waits for something that is not published.
    pub(super) async fn eventually(&self, what: &str, condition: impl Fn() -> bool) {
        let wait = async {
            while !condition() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        assert!(
            tokio::time::timeout(DEADLINE, wait).await.is_ok(),
            "never: {what}"
        );
    }

    pub(super) async fn say(&self, id: SandboxId, event: SessionEvent) {
        let life = self.record(id).life.clone();
        let instance = life.run.and_then(|r| r.instance).expect("in session");
        self.fence
            .session_event(id, life.generation, instance, event)
            .await;
    }

    /// Main ends, as the supervisor reports it and the engine sees it.
    pub(super) async fn main_exits(&self, id: SandboxId, code: i32) {
        self.say(
            id,
            SessionEvent::MainExited(code, self.environment.now(), String::new()),
        )
        .await;
        self.driver
            .exit(id, crate::driver::Role::Workload, code, false);
    }

    pub(super) async fn journal(&self, id: SandboxId) -> Vec<JournalEntry> {
        self.store.journal_tail(id, 1000).await.expect("readable")
    }

    /// The supervisor of the present run comes (back) into session.
    pub(super) async fn reconnect(&self, id: SandboxId, instance: SupervisorInstance) {
        let generation = self.record(id).life.generation;
        let now = self.environment.now();
        self.fence
            .session_opened(hello(id, generation, instance, MainReport::Running(now)))
            .await
            .expect("accepted");
    }
}

pub(super) fn hello(
    sandbox: SandboxId,
    generation: Generation,
    instance: SupervisorInstance,
    main: MainReport,
) -> SessionHello {
    SessionHello {
        sandbox,
        generation,
        instance,
        enforced: true,
        main,
        handle: Arc::new(SimulatedSession::new()),
    }
}

pub(super) fn instance(n: u128) -> SupervisorInstance {
    SupervisorInstance::from_uuid(Uuid::from_u128(n))
}

pub(super) fn new_sandbox(
    name: &str,
    restart_policy: RestartPolicy,
    request_id: Option<&str>,
) -> NewSandbox {
    NewSandbox {
        name: SandboxName::new(name).expect("a valid name"),
        workspace: WorkspaceName::default_workspace(),
        labels: BTreeMap::new(),
        annotations: BTreeMap::new(),
        spec: SandboxSpec {
            image: Some(ImageRef("busybox".to_owned())),
            restart_policy,
            ..SandboxSpec::default()
        },
        template: None,
        request_id: request_id.map(str::to_owned),
    }
}

/// Every launched supervisor comes into session and starts main.
async fn supervise(
    fence: Fence<SimulatedDriver>,
    driver: Arc<SimulatedDriver>,
    sessions: Sessions,
) {
    let mut launches = driver.launches();
    let mut next = 1000;
    while let Some((sandbox, generation)) = launches.recv().await {
        next += 1;
        let session = Arc::new(SimulatedSession::new());
        let hello = SessionHello {
            handle: session.clone(),
            ..hello(sandbox, generation, instance(next), MainReport::NotStarted)
        };
        if fence.session_opened(hello).await.is_err() {
            continue;
        }
        sessions
            .lock()
            .expect("not poisoned")
            .insert(sandbox, (generation, session));
        let now = fence
            .by_id(sandbox)
            .map(|r| r.meta.created)
            .expect("exists");
        fence
            .session_event(
                sandbox,
                generation,
                instance(next),
                SessionEvent::MainStarted(now),
            )
            .await;
    }
}
