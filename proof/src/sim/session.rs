//! One session of a simulated supervisor with one gateway process, as both of its ends see it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use openshell_lifecycle::ports::{MainReport, SessionEvent, SessionHandle, SessionHello};
use openshell_lifecycle::simulated::Board;
use tokio_util::sync::CancellationToken;

use super::gateway::Gateway;
use super::supervisor::Supervisor;
use super::workload::{Workload, is_over};
use super::wrong::Planted;

/// How a session ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Ended {
    /// It had been accepted.
    Accepted,
    /// It was refused, or never came about.
    Refused,
}

/// The gateway's end of a session.
pub(crate) struct Handle {
    open: AtomicBool,
    /// A newer session of the same supervisor has taken its place: of its own end nothing is told.
    displaced: AtomicBool,
    frozen: Board<Option<bool>>,
    closed: CancellationToken,
}

impl Handle {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            open: AtomicBool::new(true),
            displaced: AtomicBool::new(false),
            frozen: Board::new(None),
            closed: CancellationToken::new(),
        })
    }

    /// Ends it because a newer one is here.
    pub(crate) fn displace(&self) {
        self.displaced.store(true, Ordering::Relaxed);
        self.close("displaced");
    }
}

impl SessionHandle for Handle {
    fn freeze(&self, frozen: bool) {
        self.frozen.change(|f| *f = Some(frozen));
    }

    fn close(&self, _reason: &'static str) {
        self.open.store(false, Ordering::Relaxed);
        self.closed.cancel();
    }

    fn is_open(&self) -> bool {
        self.open.load(Ordering::Relaxed)
    }
}

/// What the gateway has been told in this session.
struct Told {
    started: bool,
    exited: bool,
    linked: bool,
}

/// Opens a session with the gateway that is there, if one is, and keeps it to its end.
pub(crate) async fn keep(supervisor: &Supervisor, workload: &Arc<Workload>) -> Ended {
    let world = &supervisor.world;
    let Some(gateway) = world.serving() else {
        return Ended::Refused;
    };
    tokio::time::sleep(world.chance.millis(0, 10)).await;
    let handle = Handle::new();
    let main = workload.inside().main;
    let enforced = !world.trouble(world.plan.odds.unenforced);
    if !enforced {
        world
            .oracle
            .gave_up(supervisor.sandbox, supervisor.generation);
    }
    let hello = SessionHello {
        sandbox: supervisor.sandbox,
        generation: supervisor.generation,
        instance: supervisor.instance,
        enforced,
        main,
        handle: Arc::clone(&handle) as Arc<dyn SessionHandle>,
    };
    let Some(opened) = gateway.open(world, hello, &handle).await else {
        return Ended::Refused;
    };
    if let Err(refused) = opened {
        supervisor.say(|| format!("is refused: {refused}"));
        return Ended::Refused;
    }
    supervisor.say(|| format!("is in session with gateway {}", gateway.number));
    let mut told = Told {
        started: main != MainReport::NotStarted,
        exited: false,
        linked: true,
    };
    // Dropped with the supervisor's process: the gateway's end notices.
    let end = Connection {
        supervisor,
        gateway: &gateway,
        handle: &handle,
    };
    tokio::time::sleep(world.chance.millis(0, 10)).await;
    workload.start_main(world);
    end.converse(workload, &mut told).await;
    Ended::Accepted
}

/// A connection; when it is dropped, however that comes, the gateway hears of it sooner or later.
struct Connection<'s> {
    supervisor: &'s Supervisor,
    gateway: &'s Arc<Gateway>,
    handle: &'s Arc<Handle>,
}

impl Drop for Connection<'_> {
    fn drop(&mut self) {
        let (gateway, handle) = (Arc::clone(self.gateway), Arc::clone(self.handle));
        let world = Arc::clone(&self.supervisor.world);
        let (sandbox, generation) = (self.supervisor.sandbox, self.supervisor.generation);
        let instance = self.supervisor.instance;
        // A peer that is gone without a word is noticed by its silence.
        let noticed = if world.trouble(world.plan.odds.session_breaks) {
            world.chance.millis(10, 15_000)
        } else {
            world.chance.millis(0, 5)
        };
        if tokio::runtime::Handle::try_current().is_err() {
            // The whole run is over.
            return;
        }
        world.oracle.broke(sandbox, generation);
        tokio::spawn(async move {
            tokio::time::sleep(noticed).await;
            handle.open.store(false, Ordering::Relaxed);
            if !handle.displaced.load(Ordering::Relaxed) {
                let event = SessionEvent::Closed("the connection ended".to_owned());
                gateway
                    .tell(&world, sandbox, generation, instance, event)
                    .await;
            }
        });
    }
}

impl Connection<'_> {
    async fn converse(&self, workload: &Arc<Workload>, told: &mut Told) {
        let (inside, frozen) = (workload.board(), &self.handle.frozen);
        let mut ordered = 0;
        loop {
            let seen = inside.version();
            if !self.tell(workload, told).await {
                return;
            }
            tokio::select! {
                biased;
                () = self.gateway.killed().cancelled() => return,
                () = self.handle.closed.cancelled() => return,
                () = frozen.newer_than(ordered) => {
                    ordered = frozen.version();
                    let Some(frozen) = frozen.get() else { continue };
                    if !frozen && self.supervisor.world.has(Planted::LoseThaw) {
                        continue;
                    }
                    tokio::time::sleep(self.supervisor.world.chance.millis(0, 10)).await;
                    self.supervisor.say(|| if frozen { "freezes" } else { "thaws" }.to_owned());
                    workload.freeze(frozen);
                }
                () = inside.newer_than(seen) => {}
            }
        }
    }

    /// Sends whatever the gateway does not have yet; false if the connection breaks.
    async fn tell(&self, workload: &Arc<Workload>, told: &mut Told) -> bool {
        let now = workload.inside();
        if let MainReport::Running(at) = now.main
            && !told.started
        {
            told.started = true;
            if !self.say(SessionEvent::MainStarted(at)).await {
                return false;
            }
        }
        let end = match now.main {
            MainReport::Exited(code, at) => Some(SessionEvent::MainExited(code, at, String::new())),
            MainReport::Stopped(code, at) => Some(SessionEvent::MainStopped(code, at)),
            MainReport::NotStarted | MainReport::Running(_) => None,
        };
        if let Some(end) = end
            && !told.exited
            && !now.told
        {
            told.exited = true;
            if !self.say(end).await {
                return false;
            }
            workload.acknowledge();
        }
        // A workload that has ended with its main has lost its link too, which says nothing new.
        if now.linked != told.linked && !is_over(&now) {
            told.linked = now.linked;
            return self.say(SessionEvent::Link(now.linked)).await;
        }
        true
    }

    /// One word, until it is acknowledged; false if the connection breaks before that.
    async fn say(&self, event: SessionEvent) -> bool {
        let world = &self.supervisor.world;
        tokio::time::sleep(world.chance.millis(0, 5)).await;
        let odds = world.plan.odds.session_breaks;
        if world.trouble(odds) {
            return false;
        }
        let s = self.supervisor;
        let heard = self
            .gateway
            .tell(world, s.sandbox, s.generation, s.instance, event)
            .await;
        // The acknowledgement may be lost behind it.
        heard && !world.trouble(odds / 2)
    }
}
