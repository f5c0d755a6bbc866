//! The registry's files are those that published clients read.

use super::*;

fn fixture() -> (tempfile::TempDir, Registry) {
    let dir = tempfile::tempdir().unwrap();
    let registry = Registry::at(
        dir.path().join("user/openshell"),
        dir.path().join("etc/openshell"),
    );
    (dir, registry)
}

fn metadata(endpoint: &str) -> Metadata {
    Metadata {
        name: "local".into(),
        gateway_endpoint: endpoint.into(),
        auth_mode: Some("mtls".into()),
        other: BTreeMap::new(),
    }
}

fn source(dir: &Path) -> TlsFiles {
    let files = TlsFiles {
        ca: dir.join("a"),
        cert: dir.join("b"),
        key: dir.join("c"),
    };
    for f in [&files.ca, &files.cert, &files.key] {
        fs::write(f, f.file_name().unwrap().as_encoded_bytes()).unwrap();
    }
    files
}

#[test]
fn an_added_gateway_lies_where_published_clients_look_with_private_files() {
    let (dir, registry) = fixture();
    let tls = source(dir.path());
    registry
        .add("local", &metadata("https://127.0.0.1:17670"), Some(&tls))
        .unwrap();
    registry.select("local").unwrap();

    let root = dir.path().join("user/openshell");
    assert_eq!(
        fs::read_to_string(root.join("active_gateway")).unwrap(),
        "local"
    );
    let at = root.join("gateways/local");
    let json: Value = serde_json::from_slice(&fs::read(at.join("metadata.json")).unwrap()).unwrap();
    assert_eq!(json["gateway_endpoint"], "https://127.0.0.1:17670");
    for file in [
        "mtls/ca.crt",
        "mtls/tls.crt",
        "mtls/tls.key",
        "metadata.json",
    ] {
        let mode = fs::metadata(at.join(file)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{file}");
    }
    assert_eq!(
        fs::metadata(&at).unwrap().permissions().mode() & 0o777,
        0o700
    );
}

#[test]
fn a_name_that_leads_elsewhere_is_refused() {
    let (_dir, registry) = fixture();
    for name in ["", "..", ".hidden", "a/b", "../x", "a b", "ä"] {
        assert_eq!(
            registry.load(name).unwrap_err().exit,
            Exit::Usage,
            "{name:?}"
        );
    }
}

#[test]
fn a_second_gateway_of_the_same_name_changes_nothing() {
    let (_dir, registry) = fixture();
    registry
        .add("local", &metadata("http://127.0.0.1:1"), None)
        .unwrap();
    let error = registry
        .add("local", &metadata("http://127.0.0.1:2"), None)
        .unwrap_err();
    assert_eq!(error.exit, Exit::Conflict);
    assert_eq!(
        registry.load("local").unwrap().metadata.gateway_endpoint,
        "http://127.0.0.1:1"
    );
}

#[test]
fn a_failed_add_leaves_nothing() {
    let (dir, registry) = fixture();
    let tls = TlsFiles {
        key: dir.path().join("missing"),
        ..source(dir.path())
    };
    let error = registry
        .add("local", &metadata("https://127.0.0.1:1"), Some(&tls))
        .unwrap_err();
    assert!(error.what.contains("missing"), "{error}");
    assert!(!dir.path().join("user/openshell/gateways/local").exists());
}

#[test]
fn a_machine_wide_gateway_is_found_but_not_removed() {
    let (dir, registry) = fixture();
    let at = dir.path().join("etc/openshell/gateways/shared");
    fs::create_dir_all(&at).unwrap();
    fs::write(
        at.join("metadata.json"),
        r#"{"gateway_endpoint":"http://127.0.0.1:9","later":1}"#,
    )
    .unwrap();
    fs::write(dir.path().join("etc/openshell/active_gateway"), "shared\n").unwrap();
    assert_eq!(registry.active().as_deref(), Some("shared"));
    assert_eq!(registry.list().0.len(), 1);
    assert_eq!(registry.load("shared").unwrap().metadata.other["later"], 1);
    assert_eq!(registry.remove("shared").unwrap_err().exit, Exit::Denied);
}

#[test]
fn removing_the_active_gateway_leaves_none_active() {
    let (_dir, registry) = fixture();
    registry
        .add("local", &metadata("http://127.0.0.1:1"), None)
        .unwrap();
    registry.select("local").unwrap();
    registry.remove("local").unwrap();
    assert_eq!(registry.active(), None);
    assert!(registry.load("local").unwrap_err().exit == Exit::NotFound);
}

#[test]
fn a_broken_registration_is_told_and_hides_no_other() {
    let (dir, registry) = fixture();
    registry
        .add("good", &metadata("http://127.0.0.1:1"), None)
        .unwrap();
    let at = dir.path().join("user/openshell/gateways/bad");
    fs::create_dir_all(&at).unwrap();
    fs::write(at.join("metadata.json"), "{").unwrap();
    let (entries, errors) = registry.list();
    assert_eq!(entries.len(), 1);
    assert!(errors[0].what.contains("bad"));
}
