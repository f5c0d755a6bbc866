//! `WatchSandbox`: status, log lines and events of one sandbox in one stream, resumable by cursor.

mod cursor;

use std::sync::Arc;

use openshell_core::{Phase, SandboxId, SandboxRecord};
use openshell_lifecycle::LifecycleFence;
use openshell_proto::api::{self, sandbox_stream_event::Payload};
use tokio::sync::{broadcast, watch};
use tonic::Status;

use self::cursor::{Cursor, Place};
use super::journal::{LOOK, Reader};
use super::{Api, Inner};
use crate::convert;
use crate::convert::logs::Filter;
use crate::session::{LOG_LINES, SourcedLine};
use crate::stream::{self, Answer, Sink};

type Records = watch::Receiver<Option<Arc<SandboxRecord>>>;

/// What one watcher wants, and how far it has got.
struct Watcher<F> {
    inner: Arc<Inner<F>>,
    sandbox: SandboxId,
    request: api::WatchSandboxRequest,
    filter: Filter,
    reader: Reader,
    place: Place,
    sink: Sink<api::SandboxStreamEvent>,
}

/// The client went away, or the stream has its end.
struct Over;

enum Fault {
    Over,
    Failed(Status),
}

impl From<Over> for Fault {
    fn from(_: Over) -> Self {
        Self::Over
    }
}

impl From<Status> for Fault {
    fn from(e: Status) -> Self {
        Self::Failed(e)
    }
}

impl<F: LifecycleFence> Api<F> {
    pub(super) async fn watch(
        &self,
        mut request: api::WatchSandboxRequest,
    ) -> Result<Answer<api::SandboxStreamEvent>, Status> {
        let inner = self.shared();
        let filter = Filter::parse(
            request.since_time.as_ref(),
            std::mem::take(&mut request.log_sources),
            &request.log_min_level,
        )?;
        let record = inner.find(request.workspace_scope.take(), "sandbox", &request.sandbox)?;
        let id = record.meta.id;
        // Before anything is read, so that nothing falls between.
        let lines = request.follow_logs.then(|| inner.hub.follow_logs(id));
        let resumed = match request.resume_after_cursor.as_str() {
            "" => None,
            text => Some(Cursor::parse(text, &inner.epoch, id)?),
        };
        if let Some(place) = resumed.as_ref().filter(|_| request.follow_logs) {
            let (kept, _) = inner.hub.logs(id, LOG_LINES);
            place.check_logs(&kept)?;
        }
        let resuming = resumed.is_some();
        let place = resumed.unwrap_or_default();
        let reader = Reader::new(inner.store.clone(), id, place.event);
        if request.follow_events && reader.has_gap().await? {
            return Err(cursor::too_old());
        }
        let Some(records) = inner.fence.watch(id) else {
            return Err(crate::status::not_found(
                "sandbox",
                record.meta.name.as_str(),
            ));
        };
        Ok(stream::spawn(async move |sink| {
            let mut watcher = Watcher {
                inner,
                sandbox: id,
                request,
                filter,
                reader,
                place,
                sink,
            };
            if let Err(Fault::Failed(e)) = watcher.run(records, lines, resuming).await {
                let _ = watcher.sink.send(Err(e)).await;
            }
        }))
    }
}

/// The next line, for who follows them.
async fn next_line(
    lines: &mut Option<broadcast::Receiver<SourcedLine>>,
) -> Result<SourcedLine, broadcast::error::RecvError> {
    match lines {
        Some(lines) => lines.recv().await,
        None => std::future::pending().await,
    }
}

impl<F: LifecycleFence> Watcher<F> {
    async fn run(
        &mut self,
        mut records: Records,
        mut lines: Option<broadcast::Receiver<SourcedLine>>,
        resuming: bool,
    ) -> Result<(), Fault> {
        let first = records.borrow_and_update().clone().ok_or(Over)?;
        // A resumed watcher that missed nothing is not told the same again.
        if first.resource_version != self.place.version {
            self.send_record(&first).await?;
        }
        self.send_past(resuming).await?;
        let request = &self.request;
        let (logs, events) = (request.follow_logs, request.follow_events);
        if !(request.follow_status || logs || events) || self.is_over(&first) {
            return Ok(());
        }
        loop {
            let client = self.sink.clone();
            tokio::select! {
                changed = records.changed() => {
                    let record = records.borrow_and_update().clone();
                    let (Ok(()), Some(record)) = (changed, record) else {
                        return Ok(());
                    };
                    if self.request.follow_status {
                        self.send_record(&record).await?;
                    }
                    if events {
                        self.send_events().await?;
                    }
                    if self.is_over(&record) {
                        return Ok(());
                    }
                }
                line = next_line(&mut lines) => match line {
                    Ok(line) => self.send_line(line).await?,
                    Err(broadcast::error::RecvError::Lagged(n)) => {
                        self.warn(format!("{n} log lines were skipped: this client reads too slowly")).await?;
                    }
                    Err(broadcast::error::RecvError::Closed) => return Ok(()),
                },
                () = tokio::time::sleep(LOOK), if events => self.send_events().await?,
                () = client.closed() => return Ok(()),
            }
        }
    }

    fn is_over(&self, record: &SandboxRecord) -> bool {
        let settled = matches!(
            record.life.phase,
            Phase::Ready | Phase::Error | Phase::Completed | Phase::Stopped
        );
        self.request.stop_on_terminal && settled && record.life.operation.is_none()
    }

    /// What came since the cursor, of what is followed; without a cursor, the tails.
    async fn send_past(&mut self, resuming: bool) -> Result<(), Fault> {
        let (kept, _) = self.inner.hub.logs(self.sandbox, LOG_LINES);
        let newest = kept.last().map_or(0, |l| l.sequence);
        let mut lines: Vec<SourcedLine> = Vec::new();
        if !resuming {
            lines.extend(kept.into_iter().filter(|l| self.filter.wants(l)));
            let tail = (self.request.log_tail_lines as usize).min(lines.len());
            lines.drain(..lines.len() - tail);
        } else if self.request.follow_logs {
            lines = kept;
        }
        for line in lines {
            self.send_line(line).await?;
        }
        self.place.log = self.place.log.max(newest);
        if resuming {
            if self.request.follow_events {
                self.send_events().await?;
            }
            return Ok(());
        }
        for entry in self.reader.tail(self.request.event_tail).await? {
            self.place.event = entry.sequence;
            self.send(Payload::Event(convert::life::event(&entry)))
                .await?;
        }
        self.place.event = self.reader.after;
        Ok(())
    }

    async fn send_record(&mut self, record: &SandboxRecord) -> Result<(), Fault> {
        self.place.version = record.resource_version;
        self.send(Payload::Sandbox(convert::sandbox::sandbox(record)))
            .await
    }

    /// Sends a line once: those of the past come by the broadcast too.
    async fn send_line(&mut self, line: SourcedLine) -> Result<(), Fault> {
        if line.sequence <= self.place.log {
            return Ok(());
        }
        self.place.log = line.sequence;
        if !self.filter.wants(&line) {
            return Ok(());
        }
        self.send(Payload::Log(convert::logs::line(self.sandbox, line)))
            .await
    }

    async fn send_events(&mut self) -> Result<(), Fault> {
        loop {
            let entries = self.reader.next().await?;
            if entries.is_empty() {
                return Ok(());
            }
            for entry in entries {
                self.place.event = entry.sequence;
                self.send(Payload::Event(convert::life::event(&entry)))
                    .await?;
            }
        }
    }

    async fn warn(&mut self, message: String) -> Result<(), Fault> {
        self.send(Payload::Warning(api::SandboxStreamWarning { message }))
            .await
    }

    async fn send(&mut self, payload: Payload) -> Result<(), Fault> {
        let event = api::SandboxStreamEvent {
            payload: Some(payload),
            cursor: Cursor::encode(&self.place, &self.inner.epoch, self.sandbox),
        };
        self.sink.send(Ok(event)).await.map_err(|_| Fault::Over)
    }
}
