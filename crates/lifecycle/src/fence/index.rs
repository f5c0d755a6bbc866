//! What is published: by id, by name, in order. Readers never wait for a store or an engine.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use openshell_core::{SandboxId, SandboxName, SandboxRecord, WorkspaceName};
use openshell_store::StoreError;
use tokio::sync::{mpsc, watch};

use super::cell::Message;

/// The published record of one sandbox, and every later one.
pub(super) type Published = watch::Receiver<Option<Arc<SandboxRecord>>>;

/// How a sandbox's cell is reached.
#[derive(Clone)]
pub(super) struct Entry {
    /// Its mailbox: bounded.
    pub(super) mailbox: mpsc::Sender<Message>,
    /// Set when an observation did not fit in: the cell then looks for itself.
    pub(super) missed: Arc<AtomicBool>,
    /// What it publishes.
    pub(super) published: Published,
}

impl Entry {
    fn record(&self) -> Option<Arc<SandboxRecord>> {
        self.published.borrow().clone()
    }
}

#[derive(Default)]
struct Maps {
    by_id: BTreeMap<SandboxId, Entry>,
    by_name: BTreeMap<(WorkspaceName, SandboxName), SandboxId>,
    /// Records that this version cannot read, by workspace and name: id, and why. Filled once, at the start.
    unreadable: BTreeMap<(String, String), (String, String)>,
}

/// All sandboxes of this gateway.
pub(super) struct Index {
    maps: RwLock<Maps>,
    changes: watch::Sender<u64>,
}

impl Index {
    pub(super) fn new() -> Self {
        Self {
            maps: RwLock::default(),
            changes: watch::Sender::new(0),
        }
    }

    // A panic while the lock is held cannot leave the maps half-changed in a way that matters: each change is
    // one insert or one remove.
    fn read(&self) -> RwLockReadGuard<'_, Maps> {
        self.maps.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Maps> {
        self.maps.write().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn insert(&self, record: &SandboxRecord, entry: Entry) {
        let meta = &record.meta;
        let mut maps = self.write();
        maps.by_id.insert(meta.id, entry);
        maps.by_name
            .insert((meta.workspace.clone(), meta.name.clone()), meta.id);
    }

    pub(super) fn insert_unreadable(&self, error: &StoreError) {
        if let StoreError::Unreadable {
            id,
            workspace,
            name,
            ..
        } = error
        {
            let key = (workspace.clone(), name.clone());
            let known = (id.clone(), error.to_string());
            self.write().unreadable.insert(key, known);
        }
    }

    /// What belongs to such a record is no leftover.
    pub(super) fn is_unreadable(&self, id: SandboxId) -> bool {
        let id = id.to_string();
        self.read()
            .unreadable
            .values()
            .any(|(known, _)| *known == id)
    }

    pub(super) fn unreadable(
        &self,
        workspace: &WorkspaceName,
        name: &SandboxName,
    ) -> Option<String> {
        let key = (workspace.to_string(), name.to_string());
        let maps = self.read();
        maps.unreadable.get(&key).map(|(_, why)| why.clone())
    }

    /// Forgets a sandbox; its name may have been taken by another already.
    pub(super) fn remove(&self, record: &SandboxRecord) {
        let meta = &record.meta;
        let mut maps = self.write();
        maps.by_id.remove(&meta.id);
        let key = (meta.workspace.clone(), meta.name.clone());
        if maps.by_name.get(&key) == Some(&meta.id) {
            maps.by_name.remove(&key);
        }
    }

    pub(super) fn tick(&self) {
        self.changes.send_modify(|n| *n = n.wrapping_add(1));
    }

    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    pub(super) fn entry(&self, id: SandboxId) -> Option<Entry> {
        self.read().by_id.get(&id).cloned()
    }

    pub(super) fn entries(&self) -> Vec<Entry> {
        self.read().by_id.values().cloned().collect()
    }

    pub(super) fn by_id(&self, id: SandboxId) -> Option<Arc<SandboxRecord>> {
        self.read().by_id.get(&id).and_then(Entry::record)
    }

    pub(super) fn by_name(
        &self,
        workspace: &WorkspaceName,
        name: &SandboxName,
    ) -> Option<Arc<SandboxRecord>> {
        let maps = self.read();
        let id = maps.by_name.get(&(workspace.clone(), name.clone()))?;
        maps.by_id.get(id).and_then(Entry::record)
    }

    /// Ordered by workspace and name.
    pub(super) fn list(&self) -> Vec<Arc<SandboxRecord>> {
        let maps = self.read();
        maps.by_name
            .values()
            .filter_map(|id| maps.by_id.get(id).and_then(Entry::record))
            .collect()
    }
}
