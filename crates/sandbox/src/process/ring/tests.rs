//! Replay, bounds, and who waits for whom.

use super::*;

fn bytes(n: usize) -> Bytes {
    Bytes::from(vec![b'x'; n])
}

async fn all(ring: &Ring, replay: bool) -> (usize, u64) {
    let mut follower = ring.follow(replay);
    let (mut read, mut missed) = (0, 0);
    while let Some(next) = follower.next().await {
        match next {
            Next::Chunk(_, chunk) => read += chunk.len(),
            Next::Missed(n) => missed += n,
        }
    }
    (read, missed)
}

#[tokio::test]
async fn a_late_follower_reads_what_is_kept_and_no_more_than_the_bound() {
    let ring = Ring::new(100);
    for _ in 0..30 {
        ring.write(Source::Stdout, bytes(10)).await;
    }
    ring.close();
    assert_eq!(all(&ring, true).await, (100, 0));
    assert_eq!(all(&ring, false).await, (0, 0));
}

#[tokio::test]
async fn a_follower_that_reads_loses_nothing() {
    let ring = Ring::new(100);
    let write = async {
        for _ in 0..1000 {
            ring.write(Source::Stdout, bytes(7)).await;
        }
        ring.close();
    };
    let ((read, missed), ()) = tokio::join!(all(&ring, true), write);
    assert_eq!((read, missed), (7000, 0));
}

#[tokio::test(start_paused = true)]
async fn a_follower_that_does_not_read_is_left_behind_and_told_so() {
    let ring = Ring::new(100);
    let mut idle = ring.follow(true);
    for _ in 0..30 {
        ring.write(Source::Stderr, bytes(10)).await;
    }
    assert_eq!(idle.next().await, Some(Next::Missed(200)));
    assert_eq!(
        idle.next().await,
        Some(Next::Chunk(Source::Stderr, bytes(10)))
    );
}

#[tokio::test]
async fn who_leaves_is_forgotten() {
    let ring = Ring::new(100);
    let (one, ()) = tokio::join!(async { ring.follow(true) }, ring.followed());
    assert_eq!(ring.followers(), 1);
    drop(one);
    ring.all_gone().await;
    ring.followed().await;
}
