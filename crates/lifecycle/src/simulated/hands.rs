//! What happens to a simulated engine from outside: it goes and comes back, and others than the fence use it.

use openshell_core::{ContainerId, EngineId, Generation, SandboxId, Timestamp};

use super::driver::SimulatedDriver;
use super::world::{Replaced, Status, World};
use crate::driver::{EngineEvent, EngineEventKind, EngineSignal, Role, RunRequest, Sighting};

impl SimulatedDriver {
    /// Nothing answers any more; what runs goes on.
    pub fn go_down(&self) {
        self.world().down = true;
        self.break_waits();
    }

    /// It answers again.
    pub fn come_up(&self) {
        self.world().down = false;
        self.tick();
    }

    /// Whether it answers.
    pub fn is_up(&self) -> bool {
        !self.world().down
    }

    /// Another engine, or fresh storage, answers from now on: what the former one holds is out of reach.
    pub fn present_as(&self, engine: EngineId) {
        self.world().engine = engine;
        self.break_waits();
        self.tick();
    }

    /// The engine that answers.
    pub fn identity(&self) -> EngineId {
        self.world().engine.clone()
    }

    /// A container's process ends by itself, or by somebody else's hand.
    pub fn end(&self, container: &ContainerId, code: i32, oom: bool) -> bool {
        let now = self.environment().now();
        let ended = self.world().end(container, code, oom, now);
        self.tick();
        ended
    }

    /// Somebody starts a container behind the gateway's back.
    pub fn start_by_hand(&self, container: &ContainerId) {
        let now = self.environment().now();
        let _started = self.world().start(container, None, now);
        self.tick();
    }

    /// Somebody removes a container behind the gateway's back.
    pub fn remove_by_hand(&self, container: &ContainerId) {
        let now = self.environment().now();
        self.world().remove(container, now);
        self.tick();
    }

    /// A container of somebody else that runs and carries a copy of our labels.
    pub fn plant_foreign(&self, sandbox: SandboxId, role: Role, generation: u64) -> ContainerId {
        let now = self.environment().now();
        let mut world = self.world();
        let id = world.make_for(sandbox, role, Generation(generation), true, now);
        let _started = world.start(&id, None, now);
        drop(world);
        self.tick();
        id
    }

    /// Somebody starts a half's container behind the gateway's back; the event stream tells.
    pub async fn start_outside(&self, sandbox: SandboxId, role: Role) {
        let now = self.environment().now();
        let started = {
            let mut world = self.world();
            world
                .find(sandbox, role)
                .and_then(|id| world.start(&id, None, now))
        };
        let Some(started) = started else { return };
        self.tick();
        self.signal(EngineSignal::Event(EngineEvent {
            sandbox,
            role,
            container: started.container,
            kind: EngineEventKind::Started,
            time: started.started_at,
        }))
        .await;
    }

    /// Another engine, which holds nothing, answers in the place of this one; answers with what it replaced.
    pub fn replace_engine(&self, engine: EngineId) -> Replaced {
        let mut world = self.world();
        let replaced = Replaced {
            engine: std::mem::replace(&mut world.engine, engine),
            containers: std::mem::take(&mut world.containers),
        };
        drop(world);
        self.tick();
        replaced
    }

    /// The replaced engine answers again.
    pub fn restore_engine(&self, replaced: Replaced) {
        let mut world = self.world();
        world.engine = replaced.engine;
        world.containers = replaced.containers;
        drop(world);
        self.tick();
    }

    /// What is so of a container, whatever engine answers.
    pub fn truth(&self, container: &ContainerId) -> Sighting {
        self.world().truth(container)
    }

    /// Every container that is ours, whatever engine answers: whose, which half, whether it runs.
    pub fn holdings(&self) -> Vec<(ContainerId, SandboxId, Role, bool)> {
        let world = self.world();
        let ours = world.containers.iter().filter(|(_, c)| !c.foreign);
        ours.map(|(id, c)| {
            let running = matches!(c.status, Status::Running(_));
            (id.clone(), c.sandbox, c.role, running)
        })
        .collect()
    }

    /// Whether a container's main process ignores TERM.
    pub fn set_stubborn(&self, container: &ContainerId, stubborn: bool) {
        if let Some(container) = self.world().containers.get_mut(container) {
            container.stubborn = stubborn;
        }
    }
}

impl World {
    /// What earlier attempts at this run left: its supervisor, and a workload that was never recorded.
    pub(super) fn clear_leftovers(&mut self, run: &RunRequest, now: Timestamp) {
        let leftovers: Vec<ContainerId> = self
            .ours(run.sandbox)
            .filter(|(_, c)| match c.role {
                Role::Supervisor => c.generation >= run.generation,
                Role::Workload => run.existing_workload.is_none(),
            })
            .map(|(id, _)| id.clone())
            .collect();
        for id in leftovers {
            self.remove(&id, now);
        }
    }
}
