//! Batches: one transaction, each call's own result; a broken transaction keeps nothing.

use super::*;

type Answer = oneshot::Receiver<Result<usize, StoreError>>;

fn call(
    work: impl FnOnce(&Connection) -> Result<usize, StoreError> + Send + 'static,
) -> (Box<dyn Job>, Answer) {
    let (reply, answer) = oneshot::channel();
    let job = Call {
        writes: true,
        work: Some(work),
        result: None,
        reply,
    };
    (Box::new(job), answer)
}

fn insert(x: &'static str) -> (Box<dyn Job>, Answer) {
    call(move |c| Ok(c.execute("INSERT INTO t VALUES (?)", [x])?))
}

fn table() -> Connection {
    let c = Connection::open_in_memory().unwrap();
    c.execute_batch("CREATE TABLE t (x TEXT UNIQUE)").unwrap();
    c
}

fn count(c: &Connection) -> i64 {
    c.query_row("SELECT count(*) FROM t", [], |r| r.get(0))
        .unwrap()
}

#[test]
fn one_call_of_a_batch_fails_without_the_others() {
    let c = table();
    let (a, mut first) = insert("a");
    let (b, mut twice) = call(|c| {
        c.execute("INSERT INTO t VALUES ('b')", [])?;
        Ok(c.execute("INSERT INTO t VALUES ('a')", [])?)
    });
    let (d, mut last) = insert("d");
    run_batch(&c, vec![a, b, d]);
    assert!(first.try_recv().unwrap().is_ok());
    assert!(twice.try_recv().unwrap().is_err());
    assert!(last.try_recv().unwrap().is_ok());
    assert_eq!(count(&c), 2);
}

#[test]
fn a_full_disk_fails_the_batch_in_words_and_keeps_nothing_of_it() {
    let c = table();
    c.execute_batch("PRAGMA max_page_count = 8").unwrap();
    let (a, mut small) = insert("a");
    let (b, mut large) = call(|c| Ok(c.execute("INSERT INTO t VALUES (zeroblob(1000000))", [])?));
    run_batch(&c, vec![a, b]);
    let message = large.try_recv().unwrap().unwrap_err().to_string();
    assert!(message.contains("the disk is full"), "{message}");
    let kept = small.try_recv().unwrap().is_ok();
    assert_eq!(count(&c), i64::from(kept));
    let (d, mut after) = insert("d");
    run_batch(&c, vec![d]);
    assert!(after.try_recv().unwrap().is_ok());
}

#[test]
fn a_store_that_cannot_be_written_says_so() {
    let c = table();
    c.execute_batch("PRAGMA query_only = ON").unwrap();
    let (a, mut answer) = insert("a");
    run_batch(&c, vec![a]);
    let message = answer.try_recv().unwrap().unwrap_err().to_string();
    assert!(message.contains("read-only"), "{message}");
}
