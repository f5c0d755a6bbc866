//! Sockets that appear late, and peers that are somebody else.

use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::net::UnixListener;
use tokio::time::timeout;

use super::*;

fn me() -> u32 {
    rustix::process::getuid().as_raw()
}

#[tokio::test]
async fn a_socket_that_appears_later_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("1.sock");
    let dialer = Dialer::new(socket.clone(), me());
    let appear = async {
        tokio::task::yield_now().await;
        let listener = UnixListener::bind(&socket).unwrap();
        listener.accept().await.unwrap()
    };
    let both = async { tokio::join!(dialer.dial(|_| ()), appear) };
    timeout(Duration::from_secs(5), both).await.unwrap();
}

#[tokio::test]
async fn a_listener_of_another_user_is_not_the_supervisor() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("1.sock");
    let _listener = UnixListener::bind(&socket).unwrap();
    let notes = AtomicUsize::new(0);
    let dialer = Dialer::new(socket, me() + 1);
    let dial = dialer.dial(|note| {
        assert!(note.contains("uid"), "{note}");
        notes.fetch_add(1, Ordering::Relaxed);
    });
    assert!(timeout(Duration::from_millis(300), dial).await.is_err());
    assert_eq!(notes.load(Ordering::Relaxed), 1);
}
