//! What the store promises about its files: modes, the lock, foreign and newer files, damage.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]
mod common;

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use common::record;
use openshell_store::{Store, StoreError};

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

fn open_error(path: &Path) -> StoreError {
    Store::open(path).err().unwrap()
}

#[tokio::test]
async fn files_are_0600_in_a_0700_directory() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("made/store.db");
    let store = Store::open(&path).unwrap();
    store.put_sandbox(&record("a"), vec![], None).await.unwrap();
    assert_eq!(mode(path.parent().unwrap()), 0o700);
    let files: Vec<_> = std::fs::read_dir(path.parent().unwrap())
        .unwrap()
        .map(|f| f.unwrap().path())
        .collect();
    // The database, its write-ahead log and index, the lock.
    assert_eq!(files.len(), 4, "{files:?}");
    for file in files {
        assert_eq!(mode(&file), 0o600, "{}", file.display());
    }
}

#[tokio::test]
async fn what_was_answered_is_there_after_the_store_is_opened_again() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("s.db");
    let r = record("a");
    let store = Store::open(&path).unwrap();
    store.put_sandbox(&r, vec![], None).await.unwrap();
    drop(store);
    let store = Store::open(&path).unwrap();
    store.check().await.unwrap();
    assert_eq!(
        store.sandbox(r.meta.id).await.unwrap().unwrap().meta,
        r.meta
    );
}

#[test]
fn a_second_gateway_is_refused_with_the_pid_of_the_first() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("s.db");
    let _first = Store::open(&path).unwrap();
    match open_error(&path) {
        StoreError::Locked { pid, .. } => assert_eq!(pid, std::process::id()),
        e => panic!("{e}"),
    }
}

#[test]
fn a_newer_schema_is_refused_and_left_as_it_is() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("s.db");
    drop(Store::open(&path).unwrap());
    let raw = rusqlite::Connection::open(&path).unwrap();
    raw.pragma_update(None, "user_version", 99).unwrap();
    drop(raw);
    match open_error(&path) {
        StoreError::FromTheFuture { found: 99, .. } => {}
        e => panic!("{e}"),
    }
}

#[test]
fn another_programs_database_and_a_damaged_file_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let foreign = directory.path().join("foreign.db");
    let raw = rusqlite::Connection::open(&foreign).unwrap();
    raw.execute_batch("CREATE TABLE t (x)").unwrap();
    drop(raw);
    assert!(open_error(&foreign).to_string().contains("another program"));
    let damaged = directory.path().join("damaged.db");
    std::fs::write(
        &damaged,
        "not a database at all, but long enough".repeat(50),
    )
    .unwrap();
    let message = open_error(&damaged).to_string();
    assert!(message.contains("not a database"), "{message}");
    assert!(message.contains("damaged.db"), "{message}");
}

#[tokio::test]
async fn a_record_that_cannot_be_read_is_reported_beside_the_others_and_left_untouched() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("s.db");
    let (good, bad) = (record("good"), record("bad"));
    let store = Store::open(&path).unwrap();
    store.put_sandbox(&good, vec![], None).await.unwrap();
    store.put_sandbox(&bad, vec![], None).await.unwrap();
    drop(store);
    let raw = rusqlite::Connection::open(&path).unwrap();
    let changed = raw
        .execute(
            "UPDATE sandboxes SET record = replace(record, '\"provisioning\"', '\"dreaming\"') WHERE name = 'bad'",
            [],
        )
        .unwrap();
    assert_eq!(changed, 1);
    drop(raw);
    let store = Store::open(&path).unwrap();
    let (records, errors) = store.sandboxes().await.unwrap();
    assert_eq!(records.len(), 1);
    assert_eq!(records[0].meta.name, good.meta.name);
    let message = errors[0].to_string();
    assert!(
        message.contains("bad") && message.contains("dreaming"),
        "{message}"
    );
    assert!(store.sandbox(bad.meta.id).await.is_err());
    drop(store);
    let raw = rusqlite::Connection::open(&path).unwrap();
    let kept: String = raw
        .query_row("SELECT record FROM sandboxes WHERE name = 'bad'", [], |r| {
            r.get(0)
        })
        .unwrap();
    assert!(kept.contains("dreaming"));
}
