//! One supervisor's session, from its hello to its last word.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use openshell_core::token::Claims;
use openshell_core::{Generation, SandboxRecord, SupervisorInstance, Timestamp, posture};
use openshell_lifecycle::fence::SessionRefused;
use openshell_lifecycle::ports::{
    Environment as _, MainReport, SessionEvent, SessionHandle, SessionHello, SystemEnvironment,
};
use openshell_proto::link::{self, LogLine, main_state};
use openshell_proto::supervisor::{
    ExitAck, Freeze, FromSupervisor, Heartbeat, Hello, LogAck, RunFailed, ToSupervisor, Welcome,
    from_supervisor, to_supervisor,
};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{MissedTickBehavior, timeout};
use tonic::{Status, Streaming};

use super::hub::{Closer, Entry, SessionHub};
use super::port::SessionPort;
use super::service::SessionConfig;

/// Orders that wait to be sent.
const ORDERS: usize = 64;
/// How long a supervisor may take to say hello.
const HELLO_WITHIN: Duration = Duration::from_secs(10);

type Orders = mpsc::Receiver<Result<ToSupervisor, Status>>;

struct Handle {
    frozen: watch::Sender<Option<bool>>,
    closer: Closer,
}

impl SessionHandle for Handle {
    fn freeze(&self, frozen: bool) {
        self.frozen.send_replace(Some(frozen));
    }

    fn close(&self, reason: &'static str) {
        self.closer.close(reason);
    }
}

struct Session<F> {
    hub: SessionHub,
    fence: F,
    config: SessionConfig,
    claims: Claims,
    entry: Entry,
    /// The fence's word on freezing.
    frozen: watch::Receiver<Option<bool>>,
}

/// Answers `reply` once the session is accepted or refused, then keeps it until it ends.
pub(super) async fn run<F: SessionPort + Clone>(
    hub: SessionHub,
    fence: F,
    config: SessionConfig,
    claims: Claims,
    mut inbound: Streaming<FromSupervisor>,
    reply: oneshot::Sender<Result<Orders, Status>>,
) {
    let closing = hub.closing().clone();
    let hello = tokio::select! {
        biased;
        hello = hello(&hub, &fence, &claims, &mut inbound) => hello,
        () = closing.cancelled() => Err(Status::unavailable("the gateway is shutting down")),
    };
    let opened = match hello {
        Ok((hello, instance)) => open(hub, fence, config, claims, hello, instance).await,
        Err(status) => Err(status),
    };
    match opened {
        Ok((session, orders)) => {
            // Nobody there any longer: `keep` notices by its closed channel.
            drop(reply.send(Ok(orders)));
            session.keep(inbound).await;
        }
        Err(status) => drop(reply.send(Err(status))),
    }
}

/// The first message: a hello that matches the token. A run that failed before it could say hello says so instead.
async fn hello<F: SessionPort>(
    hub: &SessionHub,
    fence: &F,
    claims: &Claims,
    inbound: &mut Streaming<FromSupervisor>,
) -> Result<(Hello, SupervisorInstance), Status> {
    let first = timeout(HELLO_WITHIN, inbound.message())
        .await
        .map_err(|_| Status::deadline_exceeded("no hello came in time"))??;
    match first.and_then(|m| m.message) {
        Some(from_supervisor::Message::Hello(hello)) => {
            if hello.sandbox_id != claims.sandbox_id.to_string()
                || hello.generation != claims.generation.0
            {
                return Err(Status::permission_denied(
                    "the token is of another sandbox or another run",
                ));
            }
            let instance = instance(&hello.instance_id)?;
            Ok((hello, instance))
        }
        Some(from_supervisor::Message::Failed(failed)) => {
            let instance = instance(&failed.instance_id)?;
            report_failure(hub, fence, claims, instance, failed).await;
            // No session of this run was open: to the fence this is a run that confirms nothing.
            let unconfirmed = SessionHello {
                sandbox: claims.sandbox_id,
                generation: claims.generation,
                instance,
                enforced: false,
                main: MainReport::NotStarted,
                handle: Arc::new(Handle {
                    frozen: watch::Sender::new(None),
                    closer: Closer::default(),
                }),
            };
            drop(fence.opened(unconfirmed).await);
            Err(Status::failed_precondition("the run has failed"))
        }
        _ => Err(Status::invalid_argument("the first message is a hello")),
    }
}

fn instance(id: &str) -> Result<SupervisorInstance, Status> {
    id.parse()
        .map_err(|_| Status::invalid_argument("instance_id is not a UUID"))
}

async fn report_failure<F: SessionPort>(
    hub: &SessionHub,
    fence: &F,
    claims: &Claims,
    instance: SupervisorInstance,
    failed: RunFailed,
) {
    tracing::warn!(sandbox = %claims.sandbox_id, generation = %claims.generation,
        reason = failed.reason, "the run has failed: {}", failed.message);
    hub.log(
        claims.sandbox_id,
        LogLine {
            time: Some(wire_time(SystemEnvironment.now())),
            level: "error".to_owned(),
            target: "supervisor".to_owned(),
            message: failed.message.clone(),
            fields: BTreeMap::from([("reason".to_owned(), failed.reason.clone())]),
        },
    );
    let event = SessionEvent::Failed(failed.reason, failed.message);
    fence
        .event(claims.sandbox_id, claims.generation, instance, event)
        .await;
}

/// Asks the fence, and registers the session so that relays can be opened through it.
async fn open<F: SessionPort>(
    hub: SessionHub,
    fence: F,
    config: SessionConfig,
    claims: Claims,
    hello: Hello,
    instance: SupervisorInstance,
) -> Result<(Session<F>, Orders), Status> {
    let (sender, orders) = mpsc::channel(ORDERS);
    let entry = hub.entry(claims.generation, instance, sender);
    hub.displace_for(claims.sandbox_id, &entry).await;
    // Before the fence may publish Ready, so that an exec right after it works. A supervisor that would displace
    // another process's session waits for the fence's word.
    let registered = !hub.occupied(claims.sandbox_id);
    if registered {
        hub.register(claims.sandbox_id, &entry);
    }
    let (frozen_sender, frozen) = watch::channel(None);
    let handle = Arc::new(Handle {
        frozen: frozen_sender,
        closer: entry.closer.clone(),
    });
    let opened = fence
        .opened(SessionHello {
            sandbox: claims.sandbox_id,
            generation: claims.generation,
            instance,
            enforced: enforced(hello.posture.as_ref()),
            main: main_report(hello.main.as_ref()),
            handle,
        })
        .await;
    let record = match opened {
        Ok(record) => record,
        Err(refused) => {
            hub.unregister(claims.sandbox_id, entry.serial);
            entry.done.cancel();
            return Err(refusal(&refused));
        }
    };
    if !registered {
        hub.register(claims.sandbox_id, &entry);
    }
    hub.book().retain(|id| fence.generation(id).is_some());
    tracing::info!(sandbox = %claims.sandbox_id, generation = %claims.generation, %instance, "session opened");
    let welcome = welcome(&record, &config);
    // The channel is new: there is room, unless a relay was asked for already, and then the order does not matter.
    drop(entry.orders.send(Ok(order(welcome))).await);
    let session = Session {
        hub,
        fence,
        config,
        claims,
        entry,
        frozen,
    };
    Ok((session, orders))
}

impl<F: SessionPort> Session<F> {
    async fn keep(self, mut inbound: Streaming<FromSupervisor>) {
        let sandbox = self.claims.sandbox_id;
        let closer = self.entry.closer.clone();
        let reason = tokio::select! {
            biased;
            () = closer.token().cancelled() => {
                let reason = closer.reason();
                drop(self.entry.orders.try_send(Err(Status::aborted(reason))));
                reason.to_owned()
            }
            reason = self.read(&mut inbound) => reason,
            reason = self.write() => reason,
        };
        // Relays and openings end with the session.
        closer.close("the session has ended");
        tracing::info!(%sandbox, generation = %self.claims.generation, reason, "session ended");
        if !closer.displaced() {
            self.tell(SessionEvent::Closed(reason)).await;
        }
        self.hub.unregister(sandbox, self.entry.serial);
        self.entry.done.cancel();
    }

    /// What the supervisor says, in order; each word is acknowledged when the fence has it.
    async fn read(&self, inbound: &mut Streaming<FromSupervisor>) -> String {
        loop {
            let next = timeout(self.config.dead_after, inbound.message()).await;
            let message = match next {
                Err(_) => return format!("silent for {:?}", self.config.dead_after),
                Ok(Err(status)) => return format!("the connection broke: {}", status.message()),
                Ok(Ok(None)) => return "ended by the supervisor".to_owned(),
                Ok(Ok(Some(message))) => message.message,
            };
            if let Some(message) = message
                && let Err(reason) = self.heard(message).await
            {
                return reason;
            }
        }
    }

    async fn heard(&self, message: from_supervisor::Message) -> Result<(), String> {
        use from_supervisor::Message;
        match message {
            Message::Heartbeat(_) => {}
            Message::Hello(_) => return Err("a second hello".to_owned()),
            Message::MainStarted(started) => {
                let at = started.running.and_then(|r| r.started);
                self.tell(SessionEvent::MainStarted(timestamp(at.as_ref())))
                    .await;
            }
            Message::MainExit(report) => {
                let exit = report.exit.unwrap_or_default();
                let at = timestamp(exit.time.as_ref());
                self.tell(if exit.told {
                    SessionEvent::MainStopped(exit.code, at)
                } else {
                    SessionEvent::MainExited(exit.code, at, exit.error)
                })
                .await;
                self.order(to_supervisor::Message::ExitAck(ExitAck {}))
                    .await?;
            }
            Message::Logs(batch) => {
                let (sandbox, instance) = (self.claims.sandbox_id, self.entry.instance);
                self.hub
                    .book()
                    .batch(sandbox, instance, batch.sequence, batch.lines);
                let sequence = batch.sequence;
                self.order(to_supervisor::Message::LogAck(LogAck { sequence }))
                    .await?;
            }
            Message::Link(link) => self.tell(SessionEvent::Link(link.attached)).await,
            Message::RelayRefused(refused) => {
                self.hub
                    .pending()
                    .refuse(&self.claims, &refused.relay_id, refused.message);
            }
            Message::Failed(failed) => {
                let instance = self.entry.instance;
                report_failure(&self.hub, &self.fence, &self.claims, instance, failed).await;
            }
        }
        Ok(())
    }

    /// Heartbeats, and the fence's word on freezing: the newest wins, and it is never lost.
    async fn write(&self) -> String {
        let mut frozen = self.frozen.clone();
        let mut beat = tokio::time::interval(self.config.heartbeat);
        beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let message = tokio::select! {
                biased;
                () = self.entry.orders.closed() => return "the supervisor went away".to_owned(),
                Ok(()) = frozen.changed() => {
                    let Some(frozen) = *frozen.borrow_and_update() else { continue };
                    to_supervisor::Message::Freeze(Freeze { frozen })
                }
                _ = beat.tick() => to_supervisor::Message::Heartbeat(Heartbeat {}),
            };
            if let Err(reason) = self.order(message).await {
                return reason;
            }
        }
    }

    async fn order(&self, message: to_supervisor::Message) -> Result<(), String> {
        match timeout(
            self.config.dead_after,
            self.entry.orders.send(Ok(order(message))),
        )
        .await
        {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) => Err("the supervisor went away".to_owned()),
            Err(_) => Err("the supervisor does not take its orders".to_owned()),
        }
    }

    async fn tell(&self, event: SessionEvent) {
        let (claims, instance) = (&self.claims, self.entry.instance);
        self.fence
            .event(claims.sandbox_id, claims.generation, instance, event)
            .await;
    }
}

fn order(message: to_supervisor::Message) -> ToSupervisor {
    ToSupervisor {
        message: Some(message),
    }
}

fn refusal(refused: &SessionRefused) -> Status {
    Status::failed_precondition(refused.to_string())
}

fn enforced(measured: Option<&link::Posture>) -> bool {
    let properties = measured.iter().flat_map(|p| &p.properties);
    posture::missing(properties.map(|p| (p.name.as_str(), p.enforced))).is_empty()
}

fn main_report(main: Option<&link::MainState>) -> MainReport {
    match main.and_then(|m| m.state.as_ref()) {
        None | Some(main_state::State::NotStarted(_)) => MainReport::NotStarted,
        Some(main_state::State::Running(running)) => {
            MainReport::Running(timestamp(running.started.as_ref()))
        }
        Some(main_state::State::Exited(exit)) if exit.told => {
            MainReport::Stopped(exit.code, timestamp(exit.time.as_ref()))
        }
        Some(main_state::State::Exited(exit)) => {
            MainReport::Exited(exit.code, timestamp(exit.time.as_ref()))
        }
    }
}

/// A time that does not parse is not worth a session: it is only shown.
fn timestamp(at: Option<&prost_types::Timestamp>) -> Timestamp {
    at.and_then(|t| Timestamp::new(t.seconds, t.nanos).ok())
        .unwrap_or(Timestamp::UNIX_EPOCH)
}

fn wire_time(at: Timestamp) -> prost_types::Timestamp {
    prost_types::Timestamp {
        seconds: at.as_second(),
        nanos: at.subsec_nanosecond(),
    }
}

/// The main process of a run, as its spec asks for it.
fn welcome(record: &SandboxRecord, config: &SessionConfig) -> to_supervisor::Message {
    let spec = &record.spec;
    let main = link::ProcessSpec {
        argv: spec.command.clone(),
        workdir: String::new(),
        environment: spec.environment.clone(),
        // An interactive login shell lives on a terminal, also while nobody is attached.
        tty: spec.tty || spec.command.is_empty(),
        cols: 0,
        rows: 0,
        login_shell: spec.command.is_empty(),
    };
    let millis = |d: Duration| u64::try_from(d.as_millis()).unwrap_or(u64::MAX);
    to_supervisor::Message::Welcome(Welcome {
        main: Some(main),
        heartbeat_millis: u32::try_from(config.heartbeat.as_millis()).unwrap_or(u32::MAX),
        gateway_outage_limit_millis: millis(config.gateway_outage_limit),
        // A later run has nobody who waits for it.
        await_attachment: spec.await_attachment && record.life.generation == Generation(1),
    })
}
