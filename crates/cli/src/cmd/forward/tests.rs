//! Ports, and the files that remember forwards.

use super::*;

#[test]
fn a_port_may_name_another_one_in_the_sandbox() {
    assert_eq!(
        parse_ports("8080"),
        Ok(Ports {
            local: 8080,
            remote: 8080
        })
    );
    assert_eq!(
        parse_ports("8080:80"),
        Ok(Ports {
            local: 8080,
            remote: 80
        })
    );
    for bad in ["", "0", "x", "80:", ":80", "70000", "1:2:3"] {
        assert!(parse_ports(bad).is_err(), "{bad}");
    }
}

fn record(port: u16) -> Record {
    Record {
        workspace: "default".into(),
        sandbox: "demo".into(),
        bind_address: "127.0.0.1".into(),
        port,
        remote_port: 80,
        pid: 0,
        started: 0,
    }
}

#[test]
fn a_forward_is_remembered_as_long_as_it_runs() {
    let dir = tempfile::tempdir().unwrap();
    let state = State::at(dir.path().join("forwards"));
    let registered = state.register(record(8080)).unwrap();
    assert!(state.find(8080).unwrap().is_alive());
    assert_eq!(state.all().len(), 1);
    drop(registered);
    assert!(state.all().is_empty());
}

#[test]
fn a_process_that_only_has_the_same_number_is_never_ended() {
    let dir = tempfile::tempdir().unwrap();
    let state = State::at(dir.path().to_owned());
    let registered = state.register(record(8080)).unwrap();
    let mut other = state.find(8080).unwrap();
    other.started += 1;
    assert!(!other.is_alive());
    assert!(
        !other.end().unwrap(),
        "this very test process would have been ended"
    );
    drop(registered);
}
