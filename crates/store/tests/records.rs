//! What the store promises about records, requests, the journal and objects.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]
mod common;

use common::{entry, record};
use openshell_core::{Phase, SandboxId, Timestamp};
use openshell_store::{Object, ObjectKind, RequestKey, Store, StoreError};

#[tokio::test]
async fn a_record_comes_back_as_it_was_written_with_its_new_version() {
    let store = Store::in_memory().unwrap();
    let mut r = record("a");
    assert_eq!(store.put_sandbox(&r, vec![], None).await.unwrap(), 1);
    r.resource_version = 1;
    assert_eq!(store.sandbox(r.meta.id).await.unwrap().unwrap(), r);
    r.life.phase = Phase::Ready;
    assert_eq!(store.put_sandbox(&r, vec![], None).await.unwrap(), 2);
    r.resource_version = 2;
    assert_eq!(store.sandboxes().await.unwrap().0, [r]);
}

#[tokio::test]
async fn l1_a_write_on_an_old_version_changes_nothing_and_tells_the_present_one() {
    let store = Store::in_memory().unwrap();
    let mut r = record("a");
    store.put_sandbox(&r, vec![], None).await.unwrap();
    r.resource_version = 1;
    store.put_sandbox(&r, vec![], None).await.unwrap();
    r.life.phase = Phase::Error;
    let e = store
        .put_sandbox(&r, vec![entry(r.meta.id, "lost")], None)
        .await;
    assert!(matches!(
        e,
        Err(StoreError::Conflict {
            expected: 1,
            current: 2
        })
    ));
    assert!(store.journal(r.meta.id, 0, 10).await.unwrap().is_empty());
    let stored = store.sandbox(r.meta.id).await.unwrap().unwrap();
    assert_eq!(stored.life.phase, Phase::Provisioning);
    assert!(matches!(
        store.remove_sandbox(r.meta.id, 1).await,
        Err(StoreError::Conflict { .. })
    ));
}

#[tokio::test]
async fn a_name_is_taken_once_in_its_workspace_and_free_again_after_delete() {
    let store = Store::in_memory().unwrap();
    let (first, second) = (record("a"), record("a"));
    store.put_sandbox(&first, vec![], None).await.unwrap();
    assert!(matches!(
        store.put_sandbox(&second, vec![], None).await,
        Err(StoreError::Exists {
            kind: "sandbox",
            ..
        })
    ));
    let mut elsewhere = record("a");
    elsewhere.meta.workspace = "other".parse().unwrap();
    store.put_sandbox(&elsewhere, vec![], None).await.unwrap();
    store.remove_sandbox(first.meta.id, 1).await.unwrap();
    store.put_sandbox(&second, vec![], None).await.unwrap();
}

#[tokio::test]
async fn a_request_is_remembered_with_the_write_and_refused_the_second_time() {
    let store = Store::in_memory().unwrap();
    let key = RequestKey {
        scope: "user/CreateSandbox".to_owned(),
        id: "1".to_owned(),
        digest: "d".to_owned(),
    };
    let (a, b) = (record("a"), record("b"));
    store
        .put_sandbox(&a, vec![], Some(key.clone()))
        .await
        .unwrap();
    assert_eq!(
        store.request(&key.scope, "1").await.unwrap(),
        Some((a.meta.id, "d".to_owned()))
    );
    assert!(matches!(
        store.put_sandbox(&b, vec![], Some(key.clone())).await,
        Err(StoreError::RequestSeen(id)) if id == "1"
    ));
    // All of the refused write is undone.
    assert!(store.sandbox(b.meta.id).await.unwrap().is_none());
    assert_eq!(store.request(&key.scope, "2").await.unwrap(), None);
}

#[tokio::test]
async fn the_journal_is_ordered_pages_forward_and_goes_with_its_sandbox() {
    let store = Store::in_memory().unwrap();
    let r = record("a");
    let id = r.meta.id;
    store
        .put_sandbox(&r, vec![entry(id, "one"), entry(id, "two")], None)
        .await
        .unwrap();
    store
        .append_journal(vec![entry(id, "three")])
        .await
        .unwrap();
    let all = store.journal(id, 0, 10).await.unwrap();
    let inputs: Vec<_> = all.iter().map(|e| e.input.as_str()).collect();
    assert_eq!(inputs, ["one", "two", "three"]);
    assert!(all.windows(2).all(|w| w[0].sequence < w[1].sequence));
    let rest = store.journal(id, all[0].sequence, 1).await.unwrap();
    assert_eq!(rest[0].input, "two");
    let tail = store.journal_tail(id, 2).await.unwrap();
    assert_eq!(tail[0].input, "two");
    store.remove_sandbox(id, 1).await.unwrap();
    assert!(store.journal(id, 0, 10).await.unwrap().is_empty());
}

#[tokio::test]
async fn l13_a_late_entry_of_a_deleted_sandbox_leaves_no_row() {
    let store = Store::in_memory().unwrap();
    let id = SandboxId::random();
    store.append_journal(vec![entry(id, "late")]).await.unwrap();
    assert!(store.journal(id, 0, 10).await.unwrap().is_empty());
}

#[tokio::test]
async fn the_journal_keeps_about_the_newest_ten_thousand_of_each_sandbox() {
    let store = Store::in_memory().unwrap();
    let (a, b) = (record("a"), record("b"));
    store.put_sandbox(&a, vec![], None).await.unwrap();
    store
        .put_sandbox(&b, vec![entry(b.meta.id, "kept")], None)
        .await
        .unwrap();
    for _ in 0..11 {
        let batch = (0..1000).map(|_| entry(a.meta.id, "x")).collect();
        store.append_journal(batch).await.unwrap();
    }
    store
        .append_journal(vec![entry(a.meta.id, "newest")])
        .await
        .unwrap();
    let kept = store.journal(a.meta.id, 0, 20_000).await.unwrap();
    assert!((10_000..=10_256).contains(&kept.len()), "{}", kept.len());
    assert_eq!(kept.last().unwrap().input, "newest");
    assert_eq!(store.journal(b.meta.id, 0, 10).await.unwrap().len(), 1);
}

#[tokio::test]
async fn objects_are_compared_by_version_and_listed_by_name() {
    let store = Store::in_memory().unwrap();
    let mut o = Object {
        kind: ObjectKind::Template,
        workspace: "default".to_owned(),
        name: "b".to_owned(),
        resource_version: 0,
        created: Timestamp::UNIX_EPOCH,
        payload: vec![1, 2, 0],
    };
    assert_eq!(store.put_object(&o).await.unwrap(), 1);
    assert!(matches!(
        store.put_object(&o).await,
        Err(StoreError::Exists {
            kind: "template",
            ..
        })
    ));
    o.name = "a".to_owned();
    store.put_object(&o).await.unwrap();
    o.resource_version = 7;
    assert!(matches!(
        store.put_object(&o).await,
        Err(StoreError::Conflict {
            expected: 7,
            current: 1
        })
    ));
    o.resource_version = 1;
    assert_eq!(store.put_object(&o).await.unwrap(), 2);
    let kind = ObjectKind::Template;
    let names: Vec<_> = store.objects(kind, Some("default")).await.unwrap();
    assert_eq!(
        names.iter().map(|o| &*o.name).collect::<Vec<_>>(),
        ["a", "b"]
    );
    assert!(store.objects(kind, Some("x")).await.unwrap().is_empty());
    assert!(
        store
            .object(ObjectKind::Workspace, "default", "a")
            .await
            .unwrap()
            .is_none()
    );
    assert!(store.remove_object(kind, "default", "a").await.unwrap());
    assert!(!store.remove_object(kind, "default", "a").await.unwrap());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_twenty_creates_of_one_name_at_once_exactly_one_succeeds() {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::open(&directory.path().join("s.db")).unwrap();
    let tasks: Vec<_> = (0..20)
        .map(|_| {
            let store = store.clone();
            tokio::spawn(async move { store.put_sandbox(&record("a"), vec![], None).await })
        })
        .collect();
    let mut won = 0;
    for task in tasks {
        match task.await.unwrap() {
            Ok(_) => won += 1,
            Err(e) => assert!(matches!(e, StoreError::Exists { .. }), "{e}"),
        }
    }
    assert_eq!(won, 1);
}
