//! The lifecycle journal as streams: what is kept, then what comes.

use std::time::Duration;

use openshell_core::SandboxId;
use openshell_core::journal::JournalEntry;
use openshell_lifecycle::LifecycleFence;
use openshell_proto::plus;
use openshell_store::Store;
use tonic::Status;

use super::Api;
use crate::convert;
use crate::status;
use crate::stream::{self, Answer, Sink};

/// Entries that change no record are not announced, so a follower looks for them this often.
pub(super) const LOOK: Duration = Duration::from_secs(1);
/// Entries read at once.
const BATCH: u32 = 500;

/// Where a reader of one sandbox's journal is.
pub(super) struct Reader {
    store: Store,
    sandbox: SandboxId,
    pub(super) after: u64,
}

impl Reader {
    pub(super) fn new(store: Store, sandbox: SandboxId, after: u64) -> Self {
        Self {
            store,
            sandbox,
            after,
        }
    }

    /// The last `count` entries; the reader goes on after them.
    pub(super) async fn tail(&mut self, count: u32) -> Result<Vec<JournalEntry>, Status> {
        // One at least is read, to know where the end is.
        let read = self.store.journal_tail(self.sandbox, count.max(1)).await;
        let mut entries = read.map_err(|e| status::store(&e))?;
        self.advance(&entries);
        if count == 0 {
            entries.clear();
        }
        Ok(entries)
    }

    /// What came meanwhile; empty if nothing did. There may be more.
    pub(super) async fn next(&mut self) -> Result<Vec<JournalEntry>, Status> {
        let read = self.store.journal(self.sandbox, self.after, BATCH).await;
        let entries = read.map_err(|e| status::store(&e))?;
        self.advance(&entries);
        Ok(entries)
    }

    /// Whether entries that this reader has not seen are no longer kept.
    pub(super) async fn has_gap(&self) -> Result<bool, Status> {
        let oldest = self.store.journal(self.sandbox, 0, 1).await;
        let oldest = oldest.map_err(|e| status::store(&e))?;
        Ok(self.after > 0 && oldest.first().is_some_and(|e| e.sequence > self.after))
    }

    fn advance(&mut self, entries: &[JournalEntry]) {
        if let Some(last) = entries.last() {
            self.after = last.sequence;
        }
    }
}

impl<F: LifecycleFence> Api<F> {
    pub(super) fn list_events(
        &self,
        request: plus::ListEventsRequest,
    ) -> Result<Answer<plus::JournalEntry>, Status> {
        let inner = self.shared();
        let record = inner.find(request.workspace_scope, "sandbox", &request.sandbox)?;
        let id = record.meta.id;
        let reader = Reader::new(inner.store.clone(), id, 0);
        let changes = request.follow.then(|| inner.fence.watch(id)).flatten();
        Ok(stream::spawn(
            async move |sink: Sink<plus::JournalEntry>| {
                if let Err(e) = run(reader, request.tail, changes, &sink).await {
                    let _ = sink.send(Err(e)).await;
                }
            },
        ))
    }
}

type Changes = tokio::sync::watch::Receiver<Option<std::sync::Arc<openshell_core::SandboxRecord>>>;

async fn run(
    mut reader: Reader,
    tail: u32,
    mut changes: Option<Changes>,
    sink: &Sink<plus::JournalEntry>,
) -> Result<(), Status> {
    let mut entries = if tail > 0 {
        reader.tail(tail).await?
    } else {
        reader.next().await?
    };
    loop {
        let more = !entries.is_empty();
        for entry in entries {
            if sink.send(Ok(convert::life::entry(&entry))).await.is_err() {
                return Ok(());
            }
        }
        if !more {
            let Some(changes) = &mut changes else {
                return Ok(());
            };
            if changes.borrow_and_update().is_none() {
                return Ok(());
            }
            tokio::select! {
                gone = changes.changed() => if gone.is_err() { return Ok(()); },
                () = tokio::time::sleep(LOOK) => {}
                () = sink.closed() => return Ok(()),
            }
        }
        entries = reader.next().await?;
    }
}
