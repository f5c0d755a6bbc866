//! What is a bootstrap and what is not.

use super::*;

fn text(key: &str) -> String {
    format!(
        r#"{{"sandbox_id":"0199c0de-0000-7000-8000-000000000001","generation":3,"gateway_public_key":"{key}",
            "link_secret":"{}","supervisor_uid":65532,"stop_grace_millis":10000}}"#,
        STANDARD.encode([7; 32])
    )
}

#[test]
fn it_is_unlinked_when_it_has_been_read() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("sandbox.json");
    std::fs::write(&path, text(&STANDARD.encode([1; 32]))).unwrap();
    let bootstrap = take(&path).unwrap();
    assert_eq!(bootstrap.generation, Generation(3));
    assert_eq!(bootstrap.stop_grace, Duration::from_secs(10));
    assert!(!path.exists());
    // Then it is asked for on standard input, where a terminal or nothing at all is.
    assert!(matches!(
        take(&path),
        Err(BootstrapError::Unreadable { .. } | BootstrapError::Nothing)
    ));
}

#[test]
fn a_malformed_one_is_refused_and_says_which_field() {
    assert!(decode(b"{}").is_err());
    let short = decode(text("AAAA").as_bytes()).err().unwrap().to_string();
    assert!(short.contains("gateway_public_key"), "{short}");
    let extra = text("AAAA").replacen('{', r#"{"more":1,"#, 1);
    assert!(decode(extra.as_bytes()).is_err());
}

#[test]
fn one_that_is_handed_over_twice_is_one() {
    let once = text(&STANDARD.encode([1; 32]));
    let twice = decode(format!("{once}{once}").as_bytes()).unwrap();
    assert_eq!(twice.generation, Generation(3));
    assert!(matches!(decode(b""), Err(BootstrapError::Nothing)));
}

#[test]
fn it_is_read_to_its_end_from_what_is_handed_over_and_not_waited_for_without_bound() {
    let pipe = || {
        let (ours, theirs) = std::io::pipe().unwrap();
        (File::from(std::os::fd::OwnedFd::from(ours)), theirs)
    };
    let long = Duration::from_secs(60);
    let (input, mut handed) = pipe();
    std::io::Write::write_all(&mut handed, b"what is ").unwrap();
    let reading = std::thread::spawn(move || from_input(input, long));
    std::io::Write::write_all(&mut handed, b"handed over").unwrap();
    drop(handed);
    assert_eq!(reading.join().unwrap().unwrap(), b"what is handed over");
    // Nothing comes, and no end of it.
    let (input, _handed) = pipe();
    let late = from_input(input, Duration::from_millis(20)).unwrap_err();
    assert_eq!(late.kind(), ErrorKind::TimedOut);
    // Nobody had anything to hand over.
    let (input, handed) = pipe();
    drop(handed);
    assert!(from_input(input, long).unwrap().is_empty());
    let (input, mut handed) = pipe();
    std::io::Write::write_all(&mut handed, &[b'x'; 20 * 1024]).unwrap();
    let large = from_input(input, long).unwrap_err();
    assert_eq!(large.kind(), ErrorKind::FileTooLarge);
}
