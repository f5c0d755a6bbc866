//! `openshell-store`: SQLite records with compare-and-swap, and the lifecycle journal. One writer.

mod journal;
mod lock;
mod objects;
mod open;
mod records;
mod schema;
#[cfg(feature = "test-util")]
mod weather;
mod writer;

use std::path::Path;
use std::sync::Arc;

use openshell_core::journal::JournalEntry;
use openshell_core::{SandboxId, SandboxRecord, Timestamp};
use thiserror::Error;

#[cfg(feature = "test-util")]
pub use crate::weather::{Passing, Weather};
use crate::writer::Engine;

/// Why the store could not do it; nothing was written.
#[derive(Debug, Error)]
pub enum StoreError {
    /// Somebody else wrote first; reload and decide again (L1).
    #[error("the record was changed meanwhile (version {current}, expected {expected})")]
    Conflict {
        /// What the caller knew.
        expected: u64,
        /// What is stored; 0 = nothing.
        current: u64,
    },
    /// The name is taken in its workspace.
    #[error("{kind} {name:?} already exists")]
    Exists {
        /// sandbox, template, workspace
        kind: &'static str,
        /// The name.
        name: String,
    },
    /// The request id was used before, for these contents or others.
    #[error("request id {0:?} was used before")]
    RequestSeen(String),
    /// Another gateway has it open.
    #[error(
        "{path} is in use by another gateway (process {pid}); stop it, or give this one a store of its own"
    )]
    Locked {
        /// The store.
        path: String,
        /// The holder, 0 if it cannot be told.
        pid: u32,
    },
    /// Written by a newer version.
    #[error(
        "{path} has schema {found}, this version knows up to {known}; use the newer gateway, or restore the backup beside it"
    )]
    FromTheFuture {
        /// The store.
        path: String,
        /// Its schema.
        found: i64,
        /// Ours.
        known: i64,
    },
    /// A record cannot be read.
    #[error("a stored {kind} cannot be read: {detail}")]
    Corrupt {
        /// sandbox, template, workspace, journal
        kind: &'static str,
        /// What and why.
        detail: String,
    },
    /// The record of a sandbox cannot be read: a newer version wrote it, or it is damaged.
    #[error(
        "the record of sandbox {name:?} in workspace {workspace:?} cannot be read by this version ({detail}); it is left untouched: use the newer gateway, or restore a backup of the store"
    )]
    Unreadable {
        /// Its id, as it is stored.
        id: String,
        /// Where.
        workspace: String,
        /// Whose.
        name: String,
        /// What and why.
        detail: String,
    },
    /// SQLite or the file system failed (disk full, read-only, I/O).
    #[error("{0}")]
    Failed(String),
}

/// One mutation's idempotence key: who asked, with which id, for what.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RequestKey {
    /// The caller and the method, such as `user/CreateSandbox`.
    pub scope: String,
    /// The caller's `request_id`.
    pub id: String,
    /// SHA-256 of the request's contents, hex.
    pub digest: String,
}

/// A named object other than a sandbox: template, workspace. The store does not read its payload.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Object {
    /// template, workspace
    pub kind: ObjectKind,
    /// Empty for workspaces.
    pub workspace: String,
    /// Unique within kind and workspace.
    pub name: String,
    /// Grows with every write.
    pub resource_version: u64,
    /// When it was made.
    pub created: Timestamp,
    /// A protobuf message.
    pub payload: Vec<u8>,
}

/// The kinds of [`Object`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ObjectKind {
    /// A sandbox template.
    Template,
    /// A workspace.
    Workspace,
}

/// The gateway's durable state. Cheap to clone; all writes go through one writer. A call whose future is dropped
/// is done all the same; only its answer is lost.
#[derive(Clone, Debug)]
pub struct Store {
    engine: Arc<Engine>,
}

impl Store {
    /// Opens or makes the store: 0600 in a 0700 directory, WAL, `synchronous=FULL`, one writer thread. Migrates,
    /// with a backup before each migration. Refuses a newer schema and a store that another gateway holds.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let (connection, lock) = open::on_disk(path)?;
        Ok(Self {
            engine: Arc::new(Engine::threaded(connection, lock)?),
        })
    }

    /// In memory, on the caller's thread: for simulations under a paused clock, and for unit tests.
    pub fn in_memory() -> Result<Self, StoreError> {
        Ok(Self {
            engine: Arc::new(Engine::inline(open::in_memory()?)),
        })
    }

    /// The same records, with something between them and their callers from now on. Only of a store in memory.
    #[cfg(feature = "test-util")]
    #[must_use]
    pub fn under(&self, weather: Arc<dyn Weather>) -> Self {
        Self {
            engine: Arc::new(Engine::under(&self.engine, weather)),
        }
    }

    /// Writes a record and its journal entries in one transaction. `record.resource_version` is the version that
    /// the caller knows (0 = must not exist, nor its name); answers with the new one.
    /// A request key makes the write conditional on not having been seen.
    pub async fn put_sandbox(
        &self,
        record: &SandboxRecord,
        journal: Vec<JournalEntry>,
        request: Option<RequestKey>,
    ) -> Result<u64, StoreError> {
        let row = records::Row::of(record)?;
        let journal = journal::rows(&journal)?;
        self.engine
            .write(move |c| {
                let version = records::put(c, &row)?;
                if let Some(key) = &request {
                    records::claim_request(c, key, &row.id)?;
                }
                journal::append(c, &journal)?;
                Ok(version)
            })
            .await
    }

    /// Removes a record if its version is still the expected one. Its journal goes with it.
    pub async fn remove_sandbox(
        &self,
        id: SandboxId,
        expected_version: u64,
    ) -> Result<(), StoreError> {
        self.engine
            .write(move |c| {
                records::remove(c, id, expected_version)?;
                journal::remove(c, id)
            })
            .await
    }

    /// One record.
    pub async fn sandbox(&self, id: SandboxId) -> Result<Option<SandboxRecord>, StoreError> {
        self.engine.read(move |c| records::get(c, id)).await
    }

    /// All records. One that cannot be read is reported beside the others, not instead of them.
    pub async fn sandboxes(&self) -> Result<(Vec<SandboxRecord>, Vec<StoreError>), StoreError> {
        self.engine.read(records::all).await
    }

    /// Remembers a request that changed nothing, for a sandbox that exists, with its journal entries.
    pub async fn claim(
        &self,
        sandbox: SandboxId,
        request: RequestKey,
        entries: Vec<JournalEntry>,
    ) -> Result<(), StoreError> {
        let rows = journal::rows(&entries)?;
        self.engine
            .write(move |c| {
                records::claim_request(c, &request, &sandbox.to_string())?;
                journal::append(c, &rows)
            })
            .await
    }

    /// Journal entries that change no record (discarded observations). Those of a sandbox that is gone are not
    /// kept: nothing of it remains (L13).
    pub async fn append_journal(&self, entries: Vec<JournalEntry>) -> Result<(), StoreError> {
        let rows = journal::rows(&entries)?;
        self.engine.write(move |c| journal::append(c, &rows)).await
    }

    /// Entries of one sandbox with a sequence greater than `after`, oldest first, at most `limit`.
    /// The newest 10,000 of each sandbox are kept.
    pub async fn journal(
        &self,
        id: SandboxId,
        after: u64,
        limit: u32,
    ) -> Result<Vec<JournalEntry>, StoreError> {
        self.engine
            .read(move |c| journal::after(c, id, after, limit))
            .await
    }

    /// The last `limit` entries of one sandbox, oldest first.
    pub async fn journal_tail(
        &self,
        id: SandboxId,
        limit: u32,
    ) -> Result<Vec<JournalEntry>, StoreError> {
        self.engine.read(move |c| journal::tail(c, id, limit)).await
    }

    /// The sandbox that a request made or changed, and the digest of that request. Kept for 24 hours.
    pub async fn request(
        &self,
        scope: &str,
        id: &str,
    ) -> Result<Option<(SandboxId, String)>, StoreError> {
        let (scope, id) = (scope.to_owned(), id.to_owned());
        self.engine
            .read(move |c| records::request(c, &scope, &id))
            .await
    }

    /// For tests: a record as a newer version or a damaged disk leaves it.
    #[cfg(feature = "test-util")]
    pub async fn damage_record(
        &self,
        id: SandboxId,
        from: &str,
        to: &str,
    ) -> Result<(), StoreError> {
        let (from, to) = (from.to_owned(), to.to_owned());
        self.engine
            .write(move |c| records::damage(c, id, &from, &to))
            .await
    }

    /// For tests: the last entry of a journal as a torn write leaves it.
    #[cfg(feature = "test-util")]
    pub async fn tear_journal(&self, id: SandboxId) -> Result<(), StoreError> {
        self.engine.write(move |c| journal::tear(c, id)).await
    }

    /// Writes a template or a workspace; the version is compared as for records.
    pub async fn put_object(&self, object: &Object) -> Result<u64, StoreError> {
        let object = object.clone();
        self.engine.write(move |c| objects::put(c, &object)).await
    }

    /// One object.
    pub async fn object(
        &self,
        kind: ObjectKind,
        workspace: &str,
        name: &str,
    ) -> Result<Option<Object>, StoreError> {
        let (workspace, name) = (workspace.to_owned(), name.to_owned());
        self.engine
            .read(move |c| objects::get(c, kind, &workspace, &name))
            .await
    }

    /// All objects of a kind (and a workspace, if given), by workspace and name.
    pub async fn objects(
        &self,
        kind: ObjectKind,
        workspace: Option<&str>,
    ) -> Result<Vec<Object>, StoreError> {
        let workspace = workspace.map(ToOwned::to_owned);
        self.engine
            .read(move |c| objects::all(c, kind, workspace.as_deref()))
            .await
    }

    /// Removes an object; answers whether it was there.
    pub async fn remove_object(
        &self,
        kind: ObjectKind,
        workspace: &str,
        name: &str,
    ) -> Result<bool, StoreError> {
        let (workspace, name) = (workspace.to_owned(), name.to_owned());
        self.engine
            .write(move |c| objects::remove(c, kind, &workspace, &name))
            .await
    }

    /// Whether it can be written now (readiness).
    pub async fn check(&self) -> Result<(), StoreError> {
        self.engine.write(schema::touch).await
    }
}
