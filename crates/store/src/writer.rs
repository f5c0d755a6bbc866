//! The one place where statements run: a thread with a bounded queue, or the caller's own thread.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use rusqlite::Connection;
use tokio::sync::{mpsc, oneshot};

use crate::StoreError;
use crate::lock::StoreLock;

/// Calls that wait; more callers than this wait outside.
const QUEUE: usize = 256;
/// Calls that share one transaction, and so one fsync.
const BATCH: usize = 64;

/// Where statements run.
pub(crate) enum Engine {
    /// On the caller's thread.
    Inline(Arc<Mutex<Connection>>),
    /// On the caller's thread, in a simulation.
    #[cfg(feature = "test-util")]
    Under(Arc<Mutex<Connection>>, Arc<dyn crate::Weather>),
    /// On the writer's.
    Threaded {
        queue: Option<mpsc::Sender<Box<dyn Job>>>,
        thread: Option<JoinHandle<()>>,
    },
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Inline(_) => "Engine::Inline",
            #[cfg(feature = "test-util")]
            Self::Under(..) => "Engine::Under",
            Self::Threaded { .. } => "Engine::Threaded",
        })
    }
}

/// One call, from the queue to its answer. The answer is given only after the commit.
pub(crate) trait Job: Send {
    /// Whether it needs a transaction that writes.
    fn writes(&self) -> bool;
    /// Runs it; answers whether what it did may stay.
    fn run(&mut self, connection: &Connection) -> bool;
    /// Gives the caller its answer; a failed commit outweighs what `run` found.
    fn answer(self: Box<Self>, committed: Result<(), StoreError>);
}

struct Call<T, F> {
    writes: bool,
    work: Option<F>,
    result: Option<Result<T, StoreError>>,
    reply: oneshot::Sender<Result<T, StoreError>>,
}

impl<T, F> Job for Call<T, F>
where
    T: Send,
    F: FnOnce(&Connection) -> Result<T, StoreError> + Send,
{
    fn writes(&self) -> bool {
        self.writes
    }

    fn run(&mut self, connection: &Connection) -> bool {
        let Some(work) = self.work.take() else {
            return false;
        };
        let result = work(connection);
        let keep = result.is_ok();
        self.result = Some(result);
        keep
    }

    fn answer(self: Box<Self>, committed: Result<(), StoreError>) {
        let result = match (self.result, committed) {
            // What was refused stays refused, for its own reason.
            (Some(Err(e)), _) | (Some(Ok(_)) | None, Err(e)) => Err(e),
            (Some(ok), Ok(())) => ok,
            (None, Ok(())) => Err(gone()),
        };
        // A caller that went away needs no answer.
        let _ = self.reply.send(result);
    }
}

fn gone() -> StoreError {
    StoreError::Failed("the store's writer has ended; restart the gateway".to_owned())
}

impl Engine {
    pub(crate) fn inline(connection: Connection) -> Self {
        Self::Inline(Arc::new(Mutex::new(connection)))
    }

    /// A simulation has no threaded one; of that nothing is left.
    #[cfg(feature = "test-util")]
    pub(crate) fn under(&self, weather: Arc<dyn crate::Weather>) -> Self {
        match self {
            Self::Inline(connection) | Self::Under(connection, _) => {
                Self::Under(Arc::clone(connection), weather)
            }
            Self::Threaded { .. } => Self::Threaded {
                queue: None,
                thread: None,
            },
        }
    }

    pub(crate) fn threaded(connection: Connection, lock: StoreLock) -> Result<Self, StoreError> {
        let (queue, jobs) = mpsc::channel(QUEUE);
        let thread = std::thread::Builder::new()
            .name("store".to_owned())
            .spawn(move || {
                serve(&connection, jobs);
                // The next gateway may open it once the last page is in its place.
                drop(connection);
                drop(lock);
            })
            .map_err(|e| {
                StoreError::Failed(format!("the store's writer thread cannot be started: {e}"))
            })?;
        Ok(Self::Threaded {
            queue: Some(queue),
            thread: Some(thread),
        })
    }

    pub(crate) async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.call(false, work).await
    }

    pub(crate) async fn write<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.call(true, work).await
    }

    async fn call<T: Send + 'static>(
        &self,
        writes: bool,
        work: impl FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (reply, mut answer) = oneshot::channel();
        let job = Box::new(Call {
            writes,
            work: Some(work),
            result: None,
            reply,
        });
        match self {
            Self::Inline(connection) => {
                run_inline(connection, job);
                answer.try_recv().unwrap_or_else(|_| Err(gone()))
            }
            #[cfg(feature = "test-util")]
            Self::Under(connection, weather) => {
                weather.before(writes).await?;
                run_inline(connection, job);
                weather.after(writes).await;
                answer.try_recv().unwrap_or_else(|_| Err(gone()))
            }
            Self::Threaded { queue, .. } => {
                let queue = queue.as_ref().ok_or_else(gone)?;
                queue.send(job).await.map_err(|_| gone())?;
                answer.await.unwrap_or_else(|_| Err(gone()))
            }
        }
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        if let Self::Threaded { queue, thread } = self {
            drop(queue.take());
            if let Some(thread) = thread.take() {
                // Waits for what is queued to be durable; a panic there has been logged already.
                let _ = thread.join();
            }
        }
    }
}

fn serve(connection: &Connection, mut jobs: mpsc::Receiver<Box<dyn Job>>) {
    while let Some(first) = jobs.blocking_recv() {
        let mut batch = vec![first];
        while batch.len() < BATCH
            && let Ok(next) = jobs.try_recv()
        {
            batch.push(next);
        }
        run_batch(connection, batch);
    }
}

fn run_inline(connection: &Mutex<Connection>, job: Box<dyn Job>) {
    let connection = connection.lock().unwrap_or_else(PoisonError::into_inner);
    run_batch(&connection, vec![job]);
}

/// Runs calls in order, in one transaction; each can fail without the others.
fn run_batch(connection: &Connection, mut batch: Vec<Box<dyn Job>>) {
    let committed = if batch.iter().any(|job| job.writes()) {
        transact(connection, &mut batch)
    } else {
        for job in &mut batch {
            job.run(connection);
        }
        Ok(())
    };
    for job in batch {
        let committed = match &committed {
            Ok(()) => Ok(()),
            Err(message) => Err(StoreError::Failed(message.clone())),
        };
        job.answer(committed);
    }
}

fn transact(connection: &Connection, batch: &mut [Box<dyn Job>]) -> Result<(), String> {
    let attempt = || -> Result<(), rusqlite::Error> {
        connection.execute_batch("BEGIN IMMEDIATE")?;
        for job in batch {
            connection.execute_batch("SAVEPOINT call")?;
            let keep = job.run(connection);
            if connection.is_autocommit() {
                // A full disk or an I/O error ends the whole transaction by itself.
                return Err(rusqlite::Error::SqliteFailure(
                    rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_ABORT_ROLLBACK),
                    Some("the transaction was rolled back".to_owned()),
                ));
            }
            connection.execute_batch(if keep {
                "RELEASE call"
            } else {
                "ROLLBACK TO call; RELEASE call"
            })?;
        }
        connection.execute_batch("COMMIT")
    };
    attempt().map_err(|e| {
        if !connection.is_autocommit() {
            // Nothing of a batch that failed may stay; if even this fails, the next BEGIN will say so.
            let _ = connection.execute_batch("ROLLBACK");
        }
        StoreError::from(e).to_string()
    })
}

#[cfg(test)]
mod tests;
