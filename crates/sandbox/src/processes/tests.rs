//! States, and who is told of an end.

use super::*;

#[test]
fn states_are_read_behind_any_name() {
    assert_eq!(state_in("7 (a) T b) S 1"), Some(State::Runs));
    assert_eq!(state_in("7 (x) T 1"), Some(State::Stopped));
    assert_eq!(state_in("7 (x) Z 1"), Some(State::Dead));
    assert_eq!(state_in("7"), None);
}

#[test]
fn a_start_in_progress_is_not_reaped_away_from_its_waiter() {
    let registry = Registry::new();
    let (pid, mut ended) = registry
        .start(false, || {
            let child = std::process::Command::new("/bin/false").spawn()?;
            // Would take the lock that `start` holds.
            registry.reap();
            Ok::<i32, std::io::Error>(i32::try_from(child.id()).unwrap())
        })
        .unwrap();
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(10);
    let result = loop {
        registry.reap();
        match ended.try_recv() {
            Ok(result) => break result,
            Err(_) if std::time::Instant::now() < deadline => std::thread::yield_now(),
            Err(e) => panic!("{e}"),
        }
    };
    assert_eq!(result, Ended { code: 1, signal: 0 });
    // Its number is nobody's now.
    assert!(!registry.signal(pid, Signal::KILL, false));
}
