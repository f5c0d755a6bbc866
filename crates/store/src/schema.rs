//! The tables, and how an older store becomes a present one.

use std::path::{Path, PathBuf};

use rusqlite::Connection;
use rusqlite::backup::Backup;

use crate::StoreError;
use crate::open::private_file;

/// Marks a file as ours (`OSHL`), so that no other program's database is ever migrated.
const APPLICATION_ID: i64 = 0x4f53_484c;

/// Each takes the schema one version up; the first makes it from nothing. Released ones are never changed.
pub(crate) const MIGRATIONS: &[&str] = &["
CREATE TABLE sandboxes (
    id TEXT PRIMARY KEY NOT NULL,
    workspace TEXT NOT NULL,
    name TEXT NOT NULL,
    version INTEGER NOT NULL,
    phase TEXT NOT NULL,
    record TEXT NOT NULL,
    UNIQUE (workspace, name)
) STRICT;
CREATE TABLE journal (
    sequence INTEGER PRIMARY KEY AUTOINCREMENT,
    sandbox TEXT NOT NULL,
    entry TEXT NOT NULL
) STRICT;
CREATE INDEX journal_by_sandbox ON journal (sandbox, sequence);
CREATE TABLE journal_sizes (
    sandbox TEXT PRIMARY KEY NOT NULL,
    entries INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE requests (
    scope TEXT NOT NULL,
    id TEXT NOT NULL,
    digest TEXT NOT NULL,
    sandbox TEXT NOT NULL,
    seen INTEGER NOT NULL,
    PRIMARY KEY (scope, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX requests_by_age ON requests (seen);
CREATE TABLE objects (
    kind TEXT NOT NULL,
    workspace TEXT NOT NULL,
    name TEXT NOT NULL,
    version INTEGER NOT NULL,
    created TEXT NOT NULL,
    payload BLOB NOT NULL,
    PRIMARY KEY (kind, workspace, name)
) STRICT, WITHOUT ROWID;
CREATE TABLE heartbeat (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    seen INTEGER NOT NULL
) STRICT;
"];

/// Brings the schema up to the last of `migrations`, with a backup beside the file before each one.
pub(crate) fn migrate(
    connection: &mut Connection,
    path: Option<&Path>,
    migrations: &[&str],
) -> Result<(), StoreError> {
    let shown = path.map_or_else(|| ":memory:".to_owned(), |p| p.display().to_string());
    let known = i64::try_from(migrations.len()).unwrap_or(i64::MAX);
    let found: i64 = connection.query_row("PRAGMA user_version", [], |r| r.get(0))?;
    if found > known {
        return Err(StoreError::FromTheFuture {
            path: shown,
            found,
            known,
        });
    }
    refuse_foreign(connection, found, &shown)?;
    let done = usize::try_from(found).unwrap_or(0);
    for (index, sql) in migrations.iter().enumerate().skip(done) {
        if let Some(path) = path.filter(|_| index > 0) {
            backup(connection, &backup_path(path, index))?;
        }
        let transaction = connection.transaction()?;
        transaction.execute_batch(sql)?;
        transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
        transaction.pragma_update(None, "user_version", index as i64 + 1)?;
        transaction.commit()?;
        if index > 0 {
            tracing::info!(store = %shown, from = index, to = index + 1, "store migrated");
        }
    }
    Ok(())
}

fn refuse_foreign(connection: &Connection, found: i64, shown: &str) -> Result<(), StoreError> {
    let id: i64 = connection.query_row("PRAGMA application_id", [], |r| r.get(0))?;
    let tables: i64 =
        connection.query_row("SELECT count(*) FROM sqlite_schema", [], |r| r.get(0))?;
    if (found == 0 && tables == 0) || id == APPLICATION_ID {
        return Ok(());
    }
    Err(StoreError::Failed(format!(
        "{shown} is a database of another program; choose another path for the store"
    )))
}

/// Where the store as it was with schema `version` is kept.
pub(crate) fn backup_path(path: &Path, version: usize) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".schema-{version}.backup"));
    PathBuf::from(name)
}

fn backup(connection: &Connection, to: &Path) -> Result<(), StoreError> {
    let failed = |why: String| {
        StoreError::Failed(format!(
            "the store cannot be backed up to {} before its migration: {why}",
            to.display()
        ))
    };
    private_file(to).map_err(|e| failed(e.to_string()))?;
    let mut copy = Connection::open(to).map_err(|e| failed(e.to_string()))?;
    Backup::new(connection, &mut copy)
        .and_then(|b| b.run_to_completion(1024, std::time::Duration::ZERO, None))
        .map_err(|e| failed(e.to_string()))
}

/// Writes something, to learn whether that is possible.
pub(crate) fn touch(connection: &Connection) -> Result<(), StoreError> {
    connection
        .prepare_cached("INSERT OR REPLACE INTO heartbeat (one, seen) VALUES (1, unixepoch())")?
        .execute([])?;
    Ok(())
}

#[cfg(test)]
mod tests;
