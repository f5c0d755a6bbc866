//! Credentials as `docker login` leaves them.

use super::*;

fn auth(text: &str) -> (tempfile::NamedTempFile, RegistryAuth) {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), text).unwrap();
    let config_file = Some(file.path().to_owned());
    (file, RegistryAuth { config_file })
}

#[tokio::test]
async fn entries_are_found_under_every_spelling_of_the_registry() {
    let secret = STANDARD.encode("me:pa:ss");
    let (_file, auth) = auth(&format!(
        r#"{{"auths":{{"https://index.docker.io/v1/":{{"auth":"{secret}"}},"https://ghcr.io/v1/":{{"auth":"{secret}"}},
            "localhost:5000":{{"username":"u","password":"p"}},"token.example":{{"identitytoken":"t"}},"empty.example":{{}}}}}}"#
    ));
    for registry in ["docker.io", "ghcr.io"] {
        let found = auth.find(registry).await.unwrap().unwrap();
        assert_eq!(
            (found.username.as_str(), found.password.as_str()),
            ("me", "pa:ss")
        );
        assert!(!format!("{found:?}").contains("pa:ss"));
    }
    let local = auth.find("localhost:5000").await.unwrap().unwrap();
    assert_eq!(
        (local.username.as_str(), local.password.as_str()),
        ("u", "p")
    );
    let token = auth.find("token.example").await.unwrap().unwrap();
    assert_eq!(token.identity_token.as_deref(), Some("t"));
    assert_eq!(auth.find("empty.example").await.unwrap(), None);
    assert_eq!(auth.find("quay.io").await.unwrap(), None);
}

#[tokio::test]
async fn a_missing_file_is_anonymous_and_a_broken_one_is_an_error() {
    let none = RegistryAuth {
        config_file: Some("/nowhere/config.json".into()),
    };
    assert_eq!(none.find("docker.io").await.unwrap(), None);
    assert_eq!(
        RegistryAuth::default().find("docker.io").await.unwrap(),
        None
    );
    for text in [
        "{",
        r#"{"auths":{"docker.io":{"auth":"%%%"}}}"#,
        r#"{"credsStore":"../evil"}"#,
    ] {
        let (_file, auth) = auth(text);
        let error = auth.find("docker.io").await.unwrap_err();
        assert_eq!(error.kind, DriverErrorKind::ImagePull, "{text}");
    }
}

#[tokio::test]
async fn a_helper_that_is_not_installed_means_the_file_or_nobody() {
    let secret = STANDARD.encode("me:pass");
    let (_file, auth) = auth(&format!(
        r#"{{"credsStore":"not-installed-here","auths":{{"ghcr.io":{{"auth":"{secret}"}}}}}}"#
    ));
    assert_eq!(auth.find("ghcr.io").await.unwrap().unwrap().username, "me");
    assert_eq!(auth.find("quay.io").await.unwrap(), None);
}
