//! One session, from hello to end. What happened (main started or ended, the link changed, log lines) is sent when
//! the gateway does not have it yet; so a new session tells everything that an old one could not.

use std::time::Duration;

use openshell_proto::link::{Exit, StartMainRequest};
use openshell_proto::supervisor::{
    ExitReport, FromSupervisor, Heartbeat, LinkChanged, MainStarted, RelayOpen, RelayRefused,
    ToSupervisor, Welcome, from_supervisor, to_supervisor,
};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval, sleep_until, timeout};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Status, Streaming};

use super::gateway::Gateway;
use super::{failed, link_now, renewal};
use crate::clock;
use crate::relay;
use crate::state::{Failure, MainView, Run};

/// Until the gateway says otherwise.
const HEARTBEAT: Duration = Duration::from_secs(5);
/// Silent for so many heartbeats is dead.
const DEAD_AFTER: u32 = 3;
/// Messages that wait to be sent.
const OUTBOUND: usize = 16;
/// Relays at once: what the connection's windows are sized for.
const RELAYS: usize = 64;
/// After a failure was reported, the gateway ends the session within this.
const PARTING: Duration = Duration::from_secs(2);

/// How a session ended.
pub(super) struct Ended {
    pub(super) why: String,
    /// It had been welcomed.
    pub(super) accepted: bool,
    /// As the gateway wants it.
    pub(super) outage_limit: Option<Duration>,
    /// It ended because the failure of the run was reported.
    pub(super) reported: bool,
}

pub(super) struct Conversation<'r> {
    run: &'r Run,
    gateway: Gateway,
    out: mpsc::Sender<FromSupervisor>,
    inbound: Streaming<ToSupervisor>,
    relays: JoinSet<Option<RelayRefused>>,
    told: Told,
    heartbeat: Duration,
    heard: Instant,
    outage_limit: Option<Duration>,
}

/// What the gateway has been told in this session.
struct Told {
    welcome: bool,
    started: bool,
    exit: Option<Exit>,
    linked: bool,
    logs_resumed: bool,
}

impl<'r> Conversation<'r> {
    /// Opens the session with its first message; `said` is what that told of main.
    pub(super) async fn open(
        run: &'r Run,
        gateway: Gateway,
        first: FromSupervisor,
        said: MainView,
    ) -> Result<Self, Status> {
        let (out, messages) = mpsc::channel(OUTBOUND);
        // There is room: it is the first.
        drop(out.try_send(first));
        let within = HEARTBEAT * DEAD_AFTER;
        let inbound = timeout(within, gateway.session(ReceiverStream::new(messages)))
            .await
            .map_err(|_| Status::deadline_exceeded("the gateway does not answer the hello"))??;
        Ok(Self {
            run,
            gateway,
            out,
            inbound,
            relays: JoinSet::new(),
            told: Told {
                welcome: false,
                started: said.started.is_some(),
                exit: None,
                linked: true,
                logs_resumed: false,
            },
            heartbeat: HEARTBEAT,
            heard: Instant::now(),
            outage_limit: None,
        })
    }

    /// Keeps it to its end. Its relays end with it.
    pub(super) async fn keep(mut self) -> Ended {
        let gateway = self.gateway.clone();
        let run = self.run;
        let why = tokio::select! {
            biased;
            why = self.converse() => why,
            never = async { renewal::keep(run, &gateway).await; std::future::pending().await } => never,
        };
        let failure = run.failure.borrow().clone();
        let reported = match failure {
            Some(failure) => self.part(failure).await,
            None => false,
        };
        Ended {
            why,
            accepted: self.told.welcome,
            outage_limit: self.outage_limit,
            reported,
        }
    }

    async fn converse(&mut self) -> String {
        let run = self.run;
        let (mut main, mut link) = (run.main.subscribe(), run.link.subscribe());
        let mut failure = run.failure.subscribe();
        let mut beat = beat(self.heartbeat);
        loop {
            if failure.borrow_and_update().is_some() {
                return "the run has failed".to_owned();
            }
            main.mark_unchanged();
            link.mark_unchanged();
            if let Err(why) = self.tell().await {
                return why;
            }
            let dead = self.heard + self.heartbeat * DEAD_AFTER;
            let step = tokio::select! {
                biased;
                message = self.inbound.message() => self.hear(message, &mut beat).await,
                Some(ended) = self.relays.join_next() => match ended {
                    Ok(Some(refused)) => self.say(from_supervisor::Message::RelayRefused(refused)).await,
                    _ => Ok(()),
                },
                _ = main.changed() => Ok(()),
                _ = link.changed() => Ok(()),
                _ = failure.changed() => Ok(()),
                () = run.logs.more() => Ok(()),
                _ = beat.tick() => self.say(from_supervisor::Message::Heartbeat(Heartbeat {})).await,
                () = sleep_until(dead) => Err("the gateway is silent".to_owned()),
            };
            if let Err(why) = step {
                return why;
            }
        }
    }

    /// Sends whatever the gateway does not have yet.
    async fn tell(&mut self) -> Result<(), String> {
        if !self.told.welcome {
            return Ok(());
        }
        let main = self.run.main.borrow().clone();
        if let Some(running) = main.started
            && !self.told.started
        {
            self.told.started = true;
            let started = MainStarted {
                running: Some(running),
            };
            self.say(from_supervisor::Message::MainStarted(started))
                .await?;
        }
        if main.exit != self.told.exit && !main.acknowledged {
            self.told.exit = main.exit.clone();
            let report = ExitReport { exit: main.exit };
            self.say(from_supervisor::Message::MainExit(report)).await?;
        }
        let linked = link_now(self.run).is_some();
        if linked != self.told.linked {
            self.told.linked = linked;
            let changed = LinkChanged {
                attached: linked,
                time: Some(clock::now()),
            };
            self.say(from_supervisor::Message::Link(changed)).await?;
        }
        let again = !std::mem::replace(&mut self.told.logs_resumed, true);
        if let Some(batch) = self.run.logs.batch(again) {
            self.say(from_supervisor::Message::Logs(batch)).await?;
        }
        Ok(())
    }

    async fn hear(
        &mut self,
        message: Result<Option<ToSupervisor>, Status>,
        beat: &mut Interval,
    ) -> Result<(), String> {
        use to_supervisor::Message;
        let message = match message {
            Ok(Some(message)) => message.message,
            Ok(None) => return Err("ended by the gateway".to_owned()),
            Err(status) => return Err(status.message().to_owned()),
        };
        self.heard = Instant::now();
        match message {
            Some(Message::Welcome(welcome)) => self.welcomed(welcome, beat),
            Some(Message::RelayOpen(open)) => return self.open_relay(open).await,
            Some(Message::ExitAck(_)) => self.run.main.send_modify(|main| {
                main.acknowledged = main.exit.is_some();
            }),
            Some(Message::LogAck(ack)) => self.run.logs.acknowledge(ack.sequence),
            Some(Message::Freeze(freeze)) => {
                self.run.frozen.send_replace(freeze.frozen);
            }
            Some(Message::Stop(stop)) => {
                let grace = Duration::from_millis(stop.grace_millis.into());
                self.run.stop.send_replace(Some(grace));
            }
            Some(Message::Heartbeat(_)) | None => {}
        }
        Ok(())
    }

    fn welcomed(&mut self, welcome: Welcome, beat: &mut Interval) {
        tracing::info!("in session with the gateway");
        self.told.welcome = true;
        if welcome.heartbeat_millis > 0 {
            self.heartbeat = Duration::from_millis(welcome.heartbeat_millis.into());
            *beat = self::beat(self.heartbeat);
        }
        self.outage_limit = Some(Duration::from_millis(welcome.gateway_outage_limit_millis));
        if let Some(main) = welcome.main {
            let start = StartMainRequest {
                process: Some(main),
                await_attachment: welcome.await_attachment,
            };
            self.run.plan.send_if_modified(|plan| {
                let first = plan.is_none();
                if first {
                    *plan = Some(start);
                }
                first
            });
        }
    }

    async fn open_relay(&mut self, open: RelayOpen) -> Result<(), String> {
        let relay_id = open.relay_id.clone();
        if self.relays.len() >= RELAYS {
            let refused = RelayRefused {
                relay_id,
                message: format!("the sandbox has {RELAYS} processes and connections open already"),
            };
            return self
                .say(from_supervisor::Message::RelayRefused(refused))
                .await;
        }
        let (link, gateway) = (link_now(self.run), self.gateway.clone());
        self.relays.spawn(async move {
            let refused = relay::serve(open, link, gateway).await.err();
            refused.map(|message| RelayRefused { relay_id, message })
        });
        Ok(())
    }

    async fn say(&self, message: from_supervisor::Message) -> Result<(), String> {
        let message = FromSupervisor {
            message: Some(message),
        };
        match timeout(self.heartbeat * DEAD_AFTER, self.out.send(message)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) => Err("ended by the gateway".to_owned()),
            Err(_) => Err("the gateway takes nothing".to_owned()),
        }
    }

    /// The last word: the run has failed. True once the gateway has it.
    async fn part(&mut self, failure: Failure) -> bool {
        let last = from_supervisor::Message::Failed(failed(self.run, failure));
        if self.say(last).await.is_err() {
            return false;
        }
        // An end of our stream after it, and the gateway ends its own when it has read so far.
        self.out = mpsc::channel(1).0;
        let read = async {
            loop {
                match self.inbound.message().await {
                    Ok(Some(_)) => {}
                    Ok(None) => return true,
                    Err(_) => return false,
                }
            }
        };
        timeout(PARTING, read).await.unwrap_or(false)
    }
}

fn beat(every: Duration) -> Interval {
    let mut beat = interval(every);
    beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    beat
}
