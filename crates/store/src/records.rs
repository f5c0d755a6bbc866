//! Sandbox records: compare-and-swap writes, and the requests that made them.

use openshell_core::{SandboxId, SandboxRecord};
use rusqlite::{Connection, ErrorCode, OptionalExtension as _, Row as SqlRow, params};

use crate::{RequestKey, StoreError};

/// How long a request id is remembered, in seconds.
const REQUEST_MEMORY: i64 = 24 * 60 * 60;

/// A record on its way into its table.
pub(crate) struct Row {
    pub(crate) id: String,
    workspace: String,
    name: String,
    known: u64,
    phase: &'static str,
    record: String,
}

impl Row {
    pub(crate) fn of(record: &SandboxRecord) -> Result<Self, StoreError> {
        Ok(Self {
            id: record.meta.id.to_string(),
            workspace: record.meta.workspace.to_string(),
            name: record.meta.name.to_string(),
            known: record.resource_version,
            phase: record.life.phase.as_str(),
            record: serde_json::to_string(record).map_err(|e| StoreError::Corrupt {
                kind: "sandbox",
                detail: format!("{}: {e}", record.meta.id),
            })?,
        })
    }
}

pub(crate) fn put(c: &Connection, row: &Row) -> Result<u64, StoreError> {
    if row.known == 0 {
        insert(c, row)
    } else {
        update(c, row)
    }
}

fn insert(c: &Connection, row: &Row) -> Result<u64, StoreError> {
    let current = version(c, &row.id)?;
    if current != 0 {
        return Err(StoreError::Conflict {
            expected: 0,
            current,
        });
    }
    let done = c
        .prepare_cached(
            "INSERT INTO sandboxes (id, workspace, name, version, phase, record) VALUES (?, ?, ?, 1, ?, ?)",
        )?
        .execute(params![row.id, row.workspace, row.name, row.phase, row.record]);
    match done {
        Ok(_) => Ok(1),
        Err(e) if e.sqlite_error_code() == Some(ErrorCode::ConstraintViolation) => {
            Err(StoreError::Exists {
                kind: "sandbox",
                name: row.name.clone(),
            })
        }
        Err(e) => Err(e.into()),
    }
}

fn update(c: &Connection, row: &Row) -> Result<u64, StoreError> {
    let next = row.known + 1;
    let changed = c
        .prepare_cached(
            "UPDATE sandboxes SET version = ?, phase = ?, record = ? WHERE id = ? AND version = ?",
        )?
        .execute(params![
            signed(next),
            row.phase,
            row.record,
            row.id,
            signed(row.known)
        ])?;
    if changed == 1 {
        return Ok(next);
    }
    Err(StoreError::Conflict {
        expected: row.known,
        current: version(c, &row.id)?,
    })
}

pub(crate) fn remove(c: &Connection, id: SandboxId, expected: u64) -> Result<(), StoreError> {
    let changed = c
        .prepare_cached("DELETE FROM sandboxes WHERE id = ? AND version = ?")?
        .execute(params![id.to_string(), signed(expected)])?;
    if changed == 1 {
        return Ok(());
    }
    Err(StoreError::Conflict {
        expected,
        current: version(c, &id.to_string())?,
    })
}

/// The stored version of an id; 0 if there is none.
fn version(c: &Connection, id: &str) -> Result<u64, StoreError> {
    let found: Option<i64> = c
        .prepare_cached("SELECT version FROM sandboxes WHERE id = ?")?
        .query_row([id], |r| r.get(0))
        .optional()?;
    Ok(found.map_or(0, i64::unsigned_abs))
}

const COLUMNS: &str = "SELECT workspace, name, version, record, id FROM sandboxes";

fn decode(row: &SqlRow<'_>) -> rusqlite::Result<Result<SandboxRecord, StoreError>> {
    let (workspace, name): (String, String) = (row.get(0)?, row.get(1)?);
    let version: i64 = row.get(2)?;
    let text: String = row.get(3)?;
    let id: String = row.get(4)?;
    Ok(serde_json::from_str::<SandboxRecord>(&text)
        .map(|mut record| {
            record.resource_version = version.unsigned_abs();
            record
        })
        .map_err(|e| StoreError::Unreadable {
            id,
            workspace,
            name,
            detail: e.to_string(),
        }))
}

pub(crate) fn get(c: &Connection, id: SandboxId) -> Result<Option<SandboxRecord>, StoreError> {
    c.prepare_cached(&format!("{COLUMNS} WHERE id = ?"))?
        .query_row([id.to_string()], decode)
        .optional()?
        .transpose()
}

pub(crate) fn all(c: &Connection) -> Result<(Vec<SandboxRecord>, Vec<StoreError>), StoreError> {
    let mut statement = c.prepare_cached(&format!("{COLUMNS} ORDER BY workspace, name"))?;
    let (mut good, mut bad) = (Vec::new(), Vec::new());
    for row in statement.query_map([], decode)? {
        match row? {
            Ok(record) => good.push(record),
            Err(e) => bad.push(e),
        }
    }
    Ok((good, bad))
}

/// Remembers a request; refuses one that is remembered.
pub(crate) fn claim_request(
    c: &Connection,
    key: &RequestKey,
    sandbox: &str,
) -> Result<(), StoreError> {
    c.prepare_cached("DELETE FROM requests WHERE seen < unixepoch() - ?")?
        .execute([REQUEST_MEMORY])?;
    let added = c
        .prepare_cached(
            "INSERT INTO requests (scope, id, digest, sandbox, seen) VALUES (?, ?, ?, ?, unixepoch()) \
             ON CONFLICT DO NOTHING",
        )?
        .execute(params![key.scope, key.id, key.digest, sandbox])?;
    if added == 1 {
        Ok(())
    } else {
        Err(StoreError::RequestSeen(key.id.clone()))
    }
}

pub(crate) fn request(
    c: &Connection,
    scope: &str,
    id: &str,
) -> Result<Option<(SandboxId, String)>, StoreError> {
    let found: Option<(String, String)> = c
        .prepare_cached(
            "SELECT sandbox, digest FROM requests \
             WHERE scope = ? AND id = ? AND seen >= unixepoch() - ?",
        )?
        .query_row(params![scope, id, REQUEST_MEMORY], |r| {
            Ok((r.get(0)?, r.get(1)?))
        })
        .optional()?;
    let Some((sandbox, digest)) = found else {
        return Ok(None);
    };
    let sandbox = sandbox.parse().map_err(|e| StoreError::Corrupt {
        kind: "request",
        detail: format!("{id}: {e}"),
    })?;
    Ok(Some((sandbox, digest)))
}

/// SQLite's integers are signed; versions count writes and stay far below.
pub(crate) fn signed(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

#[cfg(feature = "test-util")]
pub(crate) fn damage(
    c: &Connection,
    id: SandboxId,
    from: &str,
    to: &str,
) -> Result<(), StoreError> {
    c.execute(
        "UPDATE sandboxes SET record = replace(record, ?, ?) WHERE id = ?",
        params![from, to, id.to_string()],
    )?;
    Ok(())
}
