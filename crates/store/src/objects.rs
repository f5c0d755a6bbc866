//! Templates and workspaces: named payloads that the store does not read.

use rusqlite::{Connection, OptionalExtension as _, Row as SqlRow, params};

use crate::records::signed;
use crate::{Object, ObjectKind, StoreError};

impl ObjectKind {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Template => "template",
            Self::Workspace => "workspace",
        }
    }
}

pub(crate) fn put(c: &Connection, object: &Object) -> Result<u64, StoreError> {
    let kind = object.kind.as_str();
    let (known, next) = (object.resource_version, object.resource_version + 1);
    let changed = if known == 0 {
        c.prepare_cached(
            "INSERT INTO objects (kind, workspace, name, version, created, payload) \
             VALUES (?, ?, ?, 1, ?, ?) ON CONFLICT DO NOTHING",
        )?
        .execute(params![
            kind,
            object.workspace,
            object.name,
            object.created.to_string(),
            object.payload
        ])?
    } else {
        c.prepare_cached(
            "UPDATE objects SET version = ?, payload = ? \
             WHERE kind = ? AND workspace = ? AND name = ? AND version = ?",
        )?
        .execute(params![
            signed(next),
            object.payload,
            kind,
            object.workspace,
            object.name,
            signed(known)
        ])?
    };
    match (changed, known) {
        (1, _) => Ok(next),
        (_, 0) => Err(StoreError::Exists {
            kind,
            name: object.name.clone(),
        }),
        _ => Err(StoreError::Conflict {
            expected: known,
            current: get(c, object.kind, &object.workspace, &object.name)?
                .map_or(0, |o| o.resource_version),
        }),
    }
}

const COLUMNS: &str = "SELECT workspace, name, version, created, payload FROM objects";

fn decode(
    kind: ObjectKind,
) -> impl Fn(&SqlRow<'_>) -> rusqlite::Result<Result<Object, StoreError>> {
    move |row| {
        let name: String = row.get(1)?;
        let version: i64 = row.get(2)?;
        let created: String = row.get(3)?;
        let (workspace, payload) = (row.get(0)?, row.get(4)?);
        Ok(match created.parse() {
            Ok(created) => Ok(Object {
                kind,
                workspace,
                name,
                resource_version: version.unsigned_abs(),
                created,
                payload,
            }),
            Err(e) => Err(StoreError::Corrupt {
                kind: kind.as_str(),
                detail: format!("{name}: {e}"),
            }),
        })
    }
}

pub(crate) fn get(
    c: &Connection,
    kind: ObjectKind,
    workspace: &str,
    name: &str,
) -> Result<Option<Object>, StoreError> {
    c.prepare_cached(&format!(
        "{COLUMNS} WHERE kind = ? AND workspace = ? AND name = ?"
    ))?
    .query_row(params![kind.as_str(), workspace, name], decode(kind))
    .optional()?
    .transpose()
}

pub(crate) fn all(
    c: &Connection,
    kind: ObjectKind,
    workspace: Option<&str>,
) -> Result<Vec<Object>, StoreError> {
    let mut statement = c.prepare_cached(&format!(
        "{COLUMNS} WHERE kind = ?1 AND (?2 IS NULL OR workspace = ?2) ORDER BY workspace, name"
    ))?;
    let rows = statement.query_map(params![kind.as_str(), workspace], decode(kind))?;
    rows.map(|row| row?).collect()
}

pub(crate) fn remove(
    c: &Connection,
    kind: ObjectKind,
    workspace: &str,
    name: &str,
) -> Result<bool, StoreError> {
    let changed = c
        .prepare_cached("DELETE FROM objects WHERE kind = ? AND workspace = ? AND name = ?")?
        .execute(params![kind.as_str(), workspace, name])?;
    Ok(changed == 1)
}
