//! The lifecycle journal: appended with the record it explains, bounded for each sandbox.

use openshell_core::SandboxId;
use openshell_core::journal::JournalEntry;
use rusqlite::{Connection, Row as SqlRow, params};

use crate::StoreError;
use crate::records::signed;

/// Entries kept for each sandbox.
pub(crate) const KEPT: i64 = 10_000;
/// Pruning waits for so many more, to be done seldom.
pub(crate) const SLACK: i64 = 256;

/// An entry on its way in.
pub(crate) struct Row {
    sandbox: String,
    entry: String,
}

pub(crate) fn rows(entries: &[JournalEntry]) -> Result<Vec<Row>, StoreError> {
    entries
        .iter()
        .map(|e| {
            Ok(Row {
                sandbox: e.sandbox.to_string(),
                entry: serde_json::to_string(e).map_err(|e| StoreError::Corrupt {
                    kind: "journal",
                    detail: e.to_string(),
                })?,
            })
        })
        .collect()
}

/// Appends the entries of sandboxes that have a record; prunes those that grew too long.
pub(crate) fn append(c: &Connection, rows: &[Row]) -> Result<(), StoreError> {
    for row in rows {
        let added = c
            .prepare_cached(
                "INSERT INTO journal (sandbox, entry) \
                 SELECT ?1, ?2 WHERE EXISTS (SELECT 1 FROM sandboxes WHERE id = ?1)",
            )?
            .execute(params![row.sandbox, row.entry])?;
        if added == 0 {
            continue;
        }
        let size: i64 = c
            .prepare_cached(
                "INSERT INTO journal_sizes (sandbox, entries) VALUES (?, 1) \
                 ON CONFLICT DO UPDATE SET entries = entries + 1 RETURNING entries",
            )?
            .query_row([&row.sandbox], |r| r.get(0))?;
        if size >= KEPT + SLACK {
            prune(c, &row.sandbox)?;
        }
    }
    Ok(())
}

fn prune(c: &Connection, sandbox: &str) -> Result<(), StoreError> {
    c.prepare_cached(
        "DELETE FROM journal WHERE sandbox = ?1 AND sequence <= ( \
             SELECT sequence FROM journal WHERE sandbox = ?1 \
             ORDER BY sequence DESC LIMIT 1 OFFSET ?2)",
    )?
    .execute(params![sandbox, KEPT])?;
    c.prepare_cached("UPDATE journal_sizes SET entries = ? WHERE sandbox = ?")?
        .execute(params![KEPT, sandbox])?;
    Ok(())
}

pub(crate) fn remove(c: &Connection, id: SandboxId) -> Result<(), StoreError> {
    for sql in [
        "DELETE FROM journal WHERE sandbox = ?",
        "DELETE FROM journal_sizes WHERE sandbox = ?",
    ] {
        c.prepare_cached(sql)?.execute([id.to_string()])?;
    }
    Ok(())
}

/// An entry that cannot be read hides no other; it is logged.
fn decode(row: &SqlRow<'_>) -> rusqlite::Result<Option<JournalEntry>> {
    let sequence: i64 = row.get(0)?;
    let text: String = row.get(1)?;
    match serde_json::from_str::<JournalEntry>(&text) {
        Ok(mut entry) => {
            entry.sequence = sequence.unsigned_abs();
            Ok(Some(entry))
        }
        Err(error) => {
            tracing::warn!(sequence, %error, "a journal entry cannot be read");
            Ok(None)
        }
    }
}

pub(crate) fn after(
    c: &Connection,
    id: SandboxId,
    after: u64,
    limit: u32,
) -> Result<Vec<JournalEntry>, StoreError> {
    let mut statement = c.prepare_cached(
        "SELECT sequence, entry FROM journal WHERE sandbox = ? AND sequence > ? \
         ORDER BY sequence LIMIT ?",
    )?;
    let rows = statement.query_map(params![id.to_string(), signed(after), limit], decode)?;
    Ok(rows
        .filter_map(Result::transpose)
        .collect::<Result<_, _>>()?)
}

pub(crate) fn tail(
    c: &Connection,
    id: SandboxId,
    limit: u32,
) -> Result<Vec<JournalEntry>, StoreError> {
    let mut statement = c.prepare_cached(
        "SELECT sequence, entry FROM journal WHERE sandbox = ? ORDER BY sequence DESC LIMIT ?",
    )?;
    let rows = statement.query_map(params![id.to_string(), limit], decode)?;
    let mut entries: Vec<_> = rows
        .filter_map(Result::transpose)
        .collect::<Result<_, _>>()?;
    entries.reverse();
    Ok(entries)
}

#[cfg(feature = "test-util")]
pub(crate) fn tear(c: &Connection, id: SandboxId) -> Result<(), StoreError> {
    c.execute(
        "UPDATE journal SET entry = substr(entry, 1, length(entry) / 2) WHERE sequence = \
         (SELECT max(sequence) FROM journal WHERE sandbox = ?)",
        [id.to_string()],
    )?;
    Ok(())
}
