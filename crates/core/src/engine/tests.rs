//! Where engines are looked for.

use super::*;

fn set(pairs: &[(&str, &str)]) -> impl Fn(&str) -> Option<String> {
    move |name| {
        let found = pairs.iter().find(|(known, _)| *known == name);
        found.map(|(_, value)| (*value).to_owned())
    }
}

fn nothing(_: &Path) -> bool {
    false
}

#[test]
fn docker_host_names_a_unix_socket_or_is_refused_with_what_to_write() {
    for unset in [set(&[]), set(&[("DOCKER_HOST", "")])] {
        let sockets = Sockets::docker(unset).unwrap();
        assert_eq!(
            sockets.candidates(),
            [PathBuf::from("/var/run/docker.sock")]
        );
        assert!(!sockets.chosen());
    }
    let named = set(&[("DOCKER_HOST", "unix:///run/user/7/docker.sock")]);
    assert_eq!(
        Sockets::docker(named).unwrap(),
        Sockets::at("/run/user/7/docker.sock")
    );
    for host in [
        "tcp://1.2.3.4:2375",
        "ssh://me@there",
        "unix://relative",
        "/a/path",
    ] {
        let refused = Sockets::docker(|_| Some(host.to_owned())).unwrap_err();
        assert!(refused.to_string().contains("unix:///"), "{refused}");
    }
}

#[test]
fn podman_is_the_users_before_the_machines() {
    let session = set(&[("XDG_RUNTIME_DIR", "/run/me")]);
    let sockets = Sockets::podman(session, 7).unwrap();
    let expected = [
        "/run/me/podman/podman.sock",
        "/run/user/7/podman/podman.sock",
        "/run/podman/podman.sock",
    ];
    assert_eq!(sockets.candidates(), expected.map(PathBuf::from));
    assert_eq!(sockets.pick(nothing), Path::new(expected[0]));
    for there in expected {
        assert_eq!(
            sockets.pick(|path| path == Path::new(there)),
            Path::new(there)
        );
    }
    // A session directory that is the usual one is not looked at twice.
    let usual = set(&[("XDG_RUNTIME_DIR", "/run/user/7")]);
    assert_eq!(Sockets::podman(usual, 7).unwrap().candidates().len(), 2);
}

#[test]
fn the_superusers_podman_is_the_machines_where_none_is_there() {
    let sockets = Sockets::podman(set(&[]), 0).unwrap();
    assert_eq!(sockets.pick(nothing), Path::new("/run/podman/podman.sock"));
}

#[test]
fn a_variable_names_podmans_socket_as_a_path_or_an_address() {
    for value in ["/x/p.sock", "unix:///x/p.sock"] {
        let pairs = [("OPENSHELL_PODMAN_SOCKET", value)];
        let sockets = Sockets::podman(set(&pairs), 7).unwrap();
        assert_eq!(sockets, Sockets::at("/x/p.sock"));
    }
    let refused = Sockets::podman(|_| Some("tcp://1.2.3.4:1".to_owned()), 7).unwrap_err();
    assert!(
        refused.to_string().contains("OPENSHELL_PODMAN_SOCKET"),
        "{refused}"
    );
}
