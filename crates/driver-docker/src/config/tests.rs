//! Where the engine is.

use super::*;

#[test]
fn docker_host_names_a_unix_socket_or_is_refused_with_what_to_write() {
    assert_eq!(socket_of(None).unwrap(), PathBuf::from(DEFAULT_SOCKET));
    assert_eq!(socket_of(Some("")).unwrap(), PathBuf::from(DEFAULT_SOCKET));
    assert_eq!(
        socket_of(Some("unix:///run/user/7/docker.sock")).unwrap(),
        PathBuf::from("/run/user/7/docker.sock")
    );
    for host in [
        "tcp://1.2.3.4:2375",
        "ssh://me@there",
        "unix://relative",
        "/a/path",
    ] {
        let error = socket_of(Some(host)).unwrap_err();
        assert!(error.message.contains("unix:///"), "{error}");
    }
}

#[test]
fn a_configured_socket_wins() {
    let config = DockerConfig {
        socket_path: Some("/x/y.sock".into()),
    };
    assert_eq!(config.socket().unwrap(), PathBuf::from("/x/y.sock"));
}
