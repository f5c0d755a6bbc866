//! Migration by stages, with stages of our own.

use super::*;

const TWO: &[&str] = &[
    "CREATE TABLE a (x INTEGER); INSERT INTO a VALUES (1);",
    "ALTER TABLE a ADD COLUMN y INTEGER DEFAULT 7;",
];

fn version(c: &Connection) -> i64 {
    c.query_row("PRAGMA user_version", [], |r| r.get(0))
        .unwrap()
}

#[test]
fn a_migration_leaves_a_private_backup_of_what_was_before_it() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("s.db");
    let mut c = Connection::open(&path).unwrap();
    migrate(&mut c, Some(&path), &TWO[..1]).unwrap();
    assert!(!backup_path(&path, 1).exists());
    migrate(&mut c, Some(&path), TWO).unwrap();
    assert_eq!(version(&c), 2);
    let y: i64 = c.query_row("SELECT y FROM a", [], |r| r.get(0)).unwrap();
    assert_eq!(y, 7);
    let copy = backup_path(&path, 1);
    use std::os::unix::fs::PermissionsExt as _;
    let mode = std::fs::metadata(&copy).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let old = Connection::open(&copy).unwrap();
    assert_eq!(version(&old), 1);
    assert!(old.query_row("SELECT y FROM a", [], |_| Ok(())).is_err());
}

#[test]
fn a_migration_that_fails_changes_nothing() {
    let mut c = Connection::open_in_memory().unwrap();
    let broken = [TWO[0], "CREATE TABLE b (x); SELECT * FROM nothing;"];
    assert!(migrate(&mut c, None, &broken).is_err());
    assert_eq!(version(&c), 1);
    assert!(c.query_row("SELECT x FROM b", [], |_| Ok(())).is_err());
}
