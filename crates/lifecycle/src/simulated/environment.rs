//! Time that follows Tokio's (paused or not), ids that count, credentials that open nothing, sessions that note
//! their orders.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use jiff::SignedDuration;
use openshell_core::bootstrap::{SandboxBootstrap, SupervisorBootstrap};
use openshell_core::{Generation, OperationId, SandboxId, SandboxRecord, Timestamp};
use tokio::time::Instant;
use uuid::Uuid;

use crate::ports::{CredentialIssuer, Environment, SessionHandle};
use crate::time::after;

/// Counts ids and follows Tokio's clock from a fixed moment.
#[derive(Debug)]
pub struct SimulatedEnvironment {
    began: Instant,
    ids: AtomicU64,
    /// By how many seconds the wall clock was set.
    set: AtomicI64,
}

impl SimulatedEnvironment {
    /// Time begins now, at 2026-01-01.
    pub fn new() -> Self {
        Self {
            began: Instant::now(),
            ids: AtomicU64::new(1),
            set: AtomicI64::new(0),
        }
    }

    /// Somebody sets the wall clock: forward, or back.
    pub fn set_clock(&self, by_seconds: i64) {
        self.set.fetch_add(by_seconds, Ordering::Relaxed);
    }

    fn id(&self) -> Uuid {
        Uuid::from_u128(u128::from(self.ids.fetch_add(1, Ordering::Relaxed)))
    }
}

impl Default for SimulatedEnvironment {
    fn default() -> Self {
        Self::new()
    }
}

impl Environment for SimulatedEnvironment {
    fn now(&self) -> Timestamp {
        let epoch = Timestamp::from_second(1_767_225_600).unwrap_or(Timestamp::UNIX_EPOCH);
        let set = SignedDuration::from_secs(self.set.load(Ordering::Relaxed));
        let now = after(epoch, self.began.elapsed());
        now.saturating_add(set).unwrap_or(now)
    }

    fn sandbox_id(&self) -> SandboxId {
        SandboxId::from_uuid(self.id())
    }

    fn operation_id(&self) -> OperationId {
        OperationId::from_uuid(self.id())
    }
}

/// Issues what nobody checks.
#[derive(Clone, Copy, Debug, Default)]
pub struct SimulatedIssuer;

impl CredentialIssuer for SimulatedIssuer {
    fn issue(
        &self,
        record: &SandboxRecord,
        generation: Generation,
        _now: Timestamp,
    ) -> Result<(SandboxBootstrap, SupervisorBootstrap), String> {
        Ok((
            SandboxBootstrap {
                sandbox_id: record.meta.id,
                generation,
                gateway_public_key: String::new(),
                link_secret: String::new(),
                supervisor_uid: 0,
                stop_grace_millis: 0,
            },
            SupervisorBootstrap {
                sandbox_id: record.meta.id,
                sandbox_name: record.meta.name.to_string(),
                generation,
                gateway_endpoint: String::new(),
                gateway_ca_pem: String::new(),
                gateway_token: String::new(),
                sandbox_token: String::new(),
                link_secret: String::new(),
                workload_uid: 0,
                stop_grace_millis: 0,
            },
        ))
    }
}

/// A session that notes what it is ordered.
#[derive(Debug)]
pub struct SimulatedSession {
    open: AtomicBool,
    orders: Mutex<Vec<String>>,
}

impl SimulatedSession {
    /// An open one.
    pub const fn new() -> Self {
        Self {
            open: AtomicBool::new(true),
            orders: Mutex::new(Vec::new()),
        }
    }

    /// What it was ordered, in order.
    pub fn orders(&self) -> Vec<String> {
        self.orders
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Its connection breaks.
    pub fn break_off(&self) {
        self.open.store(false, Ordering::Relaxed);
    }

    fn note(&self, order: String) {
        self.orders
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(order);
    }
}

impl Default for SimulatedSession {
    fn default() -> Self {
        Self::new()
    }
}

impl SessionHandle for SimulatedSession {
    fn freeze(&self, frozen: bool) {
        self.note(if frozen { "freeze" } else { "thaw" }.to_owned());
    }

    fn close(&self, reason: &'static str) {
        self.break_off();
        self.note(format!("close: {reason}"));
    }

    fn is_open(&self) -> bool {
        self.open.load(Ordering::Relaxed)
    }
}
