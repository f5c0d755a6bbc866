//! Claims, bounds and order of sessions, without a network.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use openshell_core::token::{Audience, Claims};
use openshell_core::{Generation, SandboxId, SupervisorInstance};
use openshell_proto::link::{LogLine, ProcessSpec};
use openshell_proto::supervisor::{ToSupervisor, to_supervisor};
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use tonic::{Code, Status};

use super::hub::{Entry, SessionHub};
use super::logs::{LOG_LINES, LogBook};
use super::relay::{Pending, RelayError, RelayTarget, Waiting};

fn claims(sandbox: SandboxId, generation: Generation) -> Claims {
    Claims {
        iss: "openshell-gateway:test".to_owned(),
        aud: Audience::Gateway,
        sandbox_id: sandbox,
        generation,
        iat: 0,
        exp: 0,
        jti: String::new(),
    }
}

fn waiting(
    sandbox: SandboxId,
    generation: Generation,
) -> (Waiting, oneshot::Receiver<Result<super::Relay, RelayError>>) {
    let (reply, answer) = oneshot::channel();
    let permit = Arc::new(Semaphore::new(1)).try_acquire_owned().unwrap();
    let waiting = Waiting {
        sandbox,
        generation,
        process: true,
        reply,
        session: CancellationToken::new(),
        permit,
    };
    (waiting, answer)
}

fn exec() -> RelayTarget {
    RelayTarget::Exec(ProcessSpec::default())
}

type Orders = mpsc::Receiver<Result<ToSupervisor, Status>>;

fn session(
    hub: &SessionHub,
    generation: Generation,
    instance: SupervisorInstance,
) -> (Entry, Orders) {
    let (sender, orders) = mpsc::channel(64);
    (hub.entry(generation, instance, sender), orders)
}

#[test]
fn a_relay_is_claimed_once_and_only_by_the_supervisor_of_its_run() {
    let pending = Pending::default();
    let (mine, other) = (SandboxId::random(), SandboxId::random());
    let (relay, _answer) = waiting(mine, Generation(2));
    let _ticket = pending.insert("a", relay).unwrap();
    for stranger in [claims(other, Generation(2)), claims(mine, Generation(1))] {
        let refused = pending.claim(&stranger, "a").err().unwrap();
        assert_eq!(refused.code(), Code::PermissionDenied);
    }
    let owner = claims(mine, Generation(2));
    assert!(pending.claim(&owner, "a").is_ok());
    let again = pending.claim(&owner, "a").err().unwrap();
    assert_eq!(again.code(), Code::NotFound);
}

#[test]
fn a_refusal_by_another_run_changes_nothing() {
    let pending = Pending::default();
    let mine = SandboxId::random();
    let (relay, mut answer) = waiting(mine, Generation(2));
    let _ticket = pending.insert("a", relay).unwrap();
    pending.refuse(&claims(mine, Generation(1)), "a", "no".to_owned());
    assert!(answer.try_recv().is_err());
    pending.refuse(&claims(mine, Generation(2)), "a", "no".to_owned());
    let refused = answer.try_recv().unwrap().unwrap_err();
    assert_eq!(refused, RelayError::Refused("no".to_owned()));
}

#[test]
fn pending_relays_are_bounded_for_each_sandbox_and_in_all() {
    let pending = Pending::default();
    let mut kept = Vec::new();
    for _ in 0..8 {
        let sandbox = SandboxId::random();
        for n in 0..33 {
            let (relay, answer) = waiting(sandbox, Generation(1));
            let ticket = pending.insert(&format!("{sandbox}-{n}"), relay);
            assert_eq!(ticket.is_ok(), n < 32, "{n}");
            kept.push((ticket, answer));
        }
    }
    assert_eq!(pending.len(), 256);
    let (relay, _answer) = waiting(SandboxId::random(), Generation(1));
    assert!(pending.insert("one more", relay).is_err());
    kept.clear();
    assert_eq!(pending.len(), 0, "whoever goes away takes its relay along");
}

#[tokio::test(start_paused = true)]
async fn a_relay_that_nobody_claims_times_out_and_leaves_nothing() {
    let hub = SessionHub::new();
    let id = SandboxId::random();
    let (entry, mut orders) = session(&hub, Generation(1), SupervisorInstance::random());
    hub.register(id, &entry);
    let started = tokio::time::Instant::now();
    let refused = hub.open(id, Generation(1), exec()).await.unwrap_err();
    assert_eq!(refused, RelayError::TimedOut(10));
    assert_eq!(started.elapsed(), Duration::from_secs(10));
    assert_eq!(hub.pending().len(), 0);
    let order = orders.try_recv().unwrap().unwrap();
    assert!(matches!(
        order.message,
        Some(to_supervisor::Message::RelayOpen(_))
    ));
}

#[tokio::test]
async fn a_session_that_ends_ends_what_waits_for_it() {
    let hub = SessionHub::new();
    let id = SandboxId::random();
    let (entry, _orders) = session(&hub, Generation(1), SupervisorInstance::random());
    hub.register(id, &entry);
    let opening = hub.open(id, Generation(1), exec());
    let (opened, ()) = tokio::join!(opening, async { entry.closer.close("a test") });
    assert_eq!(opened.unwrap_err(), RelayError::SessionLost);
    assert!(!hub.connected(id, Generation(1)));
}

#[tokio::test]
async fn the_same_supervisor_displaces_its_earlier_session_and_waits_for_its_last_word() {
    let hub = SessionHub::new();
    let (id, instance) = (SandboxId::random(), SupervisorInstance::random());
    let (old, _old_orders) = session(&hub, Generation(1), instance);
    hub.register(id, &old);
    let (new, _new_orders) = session(&hub, Generation(1), instance);
    let mut displacing = std::pin::pin!(hub.displace_for(id, &new));
    let early = tokio::time::timeout(Duration::from_millis(20), displacing.as_mut()).await;
    assert!(early.is_err(), "the old one has not ended yet");
    assert!(old.closer.displaced());
    hub.unregister(id, old.serial);
    old.done.cancel();
    displacing.await;
    hub.register(id, &new);
    hub.unregister(id, old.serial);
    assert!(
        hub.connected(id, Generation(1)),
        "the old one's end is its own"
    );
}

#[tokio::test]
async fn another_supervisor_process_displaces_nothing_by_asking() {
    let hub = SessionHub::new();
    let id = SandboxId::random();
    let (old, _old_orders) = session(&hub, Generation(1), SupervisorInstance::random());
    hub.register(id, &old);
    let (new, _new_orders) = session(&hub, Generation(1), SupervisorInstance::random());
    hub.displace_for(id, &new).await;
    assert!(hub.occupied(id) && hub.connected(id, Generation(1)));
    assert!(!old.closer.token().is_cancelled());
}

#[test]
fn a_log_keeps_its_last_lines_and_counts_on() {
    let book = LogBook::default();
    let id = SandboxId::random();
    for n in 0..LOG_LINES + 10 {
        book.push(id, "gateway", line(n.to_string()));
    }
    let (lines, kept) = book.last(id, 3);
    assert_eq!(kept, LOG_LINES);
    let told: Vec<_> = lines.iter().map(|l| l.sequence).collect();
    assert_eq!(told, [2008, 2009, 2010]);
}

#[test]
fn a_log_is_bounded_in_bytes() {
    let book = LogBook::default();
    let id = SandboxId::random();
    for _ in 0..LOG_LINES {
        book.push(id, "gateway", line("x".repeat(8 << 10)));
    }
    let (lines, kept) = book.last(id, usize::MAX);
    assert!(kept < LOG_LINES);
    assert!(lines.iter().map(|l| l.line.message.len()).sum::<usize>() <= 1 << 20);
}

#[test]
fn a_batch_that_comes_twice_counts_once_and_another_supervisor_counts_anew() {
    let book = LogBook::default();
    let id = SandboxId::random();
    let (first, second) = (SupervisorInstance::random(), SupervisorInstance::random());
    for (instance, sequence) in [(first, 1), (first, 1), (first, 2), (second, 1), (second, 1)] {
        book.batch(id, instance, sequence, vec![line(sequence.to_string())]);
    }
    let (lines, _) = book.last(id, 10);
    let told: Vec<_> = lines.into_iter().map(|l| l.line.message).collect();
    assert_eq!(told, ["1", "2", "1"]);
    book.retain(|_| false);
    assert_eq!(book.last(id, 10).1, 0);
}

#[tokio::test]
async fn a_follower_that_is_slow_misses_lines_and_holds_nobody_up() {
    let hub = SessionHub::new();
    let id = SandboxId::random();
    let mut follow = hub.follow_logs(id);
    for n in 0..1000 {
        hub.log(id, line(n.to_string()));
    }
    let missed = follow.recv().await.unwrap_err();
    assert!(matches!(
        missed,
        tokio::sync::broadcast::error::RecvError::Lagged(_)
    ));
    assert!(follow.recv().await.unwrap().sequence > 700);
}

fn line(message: String) -> LogLine {
    LogLine {
        message,
        fields: BTreeMap::new(),
        ..LogLine::default()
    }
}
