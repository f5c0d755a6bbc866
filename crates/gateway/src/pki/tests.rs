//! The promises of certificates: all or nothing, private, valid, and registered without taking anything away.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use openshell_core::Timestamp;
use openshell_core::token::{Audience, Claims, verify};

use super::register::{Registered, Registration, register};
use super::*;

fn now() -> Timestamp {
    "2026-11-29T12:00:00Z".parse().unwrap()
}

fn years(count: i64) -> Timestamp {
    now() + jiff::SignedDuration::from_hours(count * 8766)
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

fn new_set() -> (tempfile::TempDir, std::path::PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let set = dir.path().join("state/tls");
    let made = ensure(&set, &["gateway.example".to_owned()], "someone", now()).unwrap();
    assert_eq!(made, Made::New);
    (dir, set)
}

#[test]
fn a_new_set_is_complete_and_private() {
    let (dir, set) = new_set();
    for name in SET {
        assert_eq!(mode(&set.join(name)), 0o600, "{name}");
    }
    for name in ["", "server", "client", "jwt"] {
        assert_eq!(mode(&set.join(name)), 0o700, "{name}");
    }
    let left: Vec<_> = fs::read_dir(dir.path().join("state")).unwrap().collect();
    assert_eq!(left.len(), 1, "drafts are left: {left:?}");
}

#[test]
fn a_set_that_is_there_is_not_touched() {
    let (_dir, set) = new_set();
    let before = fs::read(set.join("ca.key")).unwrap();
    assert_eq!(ensure(&set, &[], "other", years(1)).unwrap(), Made::Already);
    assert_eq!(fs::read(set.join("ca.key")).unwrap(), before);
}

#[test]
fn a_part_of_a_set_is_refused_and_what_is_missing_is_named() {
    let (_dir, set) = new_set();
    fs::remove_file(set.join("server/tls.key")).unwrap();
    fs::remove_file(set.join("ca.key")).unwrap();
    let error = ensure(&set, &[], "x", now()).unwrap_err().to_string();
    assert!(error.contains("ca.key, server/tls.key"), "{error}");
    assert!(!set.join("ca.key").exists(), "nothing is completed");
}

#[test]
fn a_set_goes_into_a_directory_that_holds_other_things() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("notes.txt"), "mine").unwrap();
    assert_eq!(ensure(dir.path(), &[], "x", now()).unwrap(), Made::New);
    assert_eq!(
        fs::read_to_string(dir.path().join("notes.txt")).unwrap(),
        "mine"
    );
    assert_eq!(ensure(dir.path(), &[], "x", now()).unwrap(), Made::Already);
}

#[test]
fn the_mode_of_a_directory_that_was_there_is_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let shared = dir.path().join("shared");
    fs::create_dir(&shared).unwrap();
    fs::set_permissions(&shared, fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(shared.join("notes.txt"), "mine").unwrap();
    ensure(&shared, &[], "x", now()).unwrap();
    assert_eq!(mode(&shared), 0o755);
    assert_eq!(mode(&shared.join("server")), 0o700);
    assert_eq!(mode(&shared.join("ca.key")), 0o600);
}

#[test]
fn the_server_answers_to_its_usual_names_and_the_configured_ones() {
    let (_dir, set) = new_set();
    let identity = load_own(&set, now()).unwrap();
    let (_, block) = x509_parser::pem::parse_x509_pem(identity.chain_pem.as_bytes()).unwrap();
    let certificate = block.parse_x509().unwrap();
    let names = format!(
        "{:?}",
        certificate
            .subject_alternative_name()
            .unwrap()
            .unwrap()
            .value
    );
    for name in [
        "localhost",
        "host.docker.internal",
        "gateway.example",
        "[127, 0, 0, 1]",
    ] {
        assert!(names.contains(name), "{name} in {names}");
    }
}

#[test]
fn an_expired_certificate_is_refused_with_its_date_and_the_way_out() {
    let (_dir, set) = new_set();
    let error = load_own(&set, years(11)).unwrap_err().to_string();
    assert!(error.contains("expired at 2036-11-2"), "{error}");
    assert!(error.contains("start again"), "{error}");
    let error = load_own(&set, years(-1)).unwrap_err().to_string();
    assert!(error.contains("not valid before"), "{error}");
}

#[test]
fn what_is_not_a_certificate_or_a_key_is_refused_by_name() {
    let (_dir, set) = new_set();
    fs::write(set.join("server/tls.key"), "rubbish").unwrap();
    let error = load_own(&set, now()).unwrap_err().to_string();
    assert!(error.contains("server/tls.key"), "{error}");
    fs::write(set.join("jwt/signing.pem"), "rubbish").unwrap();
    let error = signer(&set).unwrap_err().to_string();
    assert!(error.contains("jwt/signing.pem"), "{error}");
    fs::remove_file(set.join("ca.crt")).unwrap();
    let error = load_own(&set, now()).unwrap_err().to_string();
    assert!(error.contains("cannot be read"), "{error}");
}

#[test]
fn the_signing_key_signs_what_its_public_half_verifies() {
    let (_dir, set) = new_set();
    let signer = signer(&set).unwrap();
    let claims = Claims {
        iss: "openshell-gateway:test".to_owned(),
        aud: Audience::Gateway,
        sandbox_id: openshell_core::SandboxId::random(),
        generation: openshell_core::Generation(1),
        iat: now().as_second(),
        exp: 0,
        jti: "1".to_owned(),
    };
    let token = signer.sign(&claims).unwrap();
    assert_eq!(
        verify(signer.public_key(), &token, Audience::Gateway, now()).unwrap(),
        claims
    );
}

fn registration<'a>(home: &'a Path, state: &'a Path, set: Option<&'a Path>) -> Registration<'a> {
    Registration {
        config_dir: home,
        name: "local",
        endpoint: "https://127.0.0.1:17670",
        port: 17670,
        state_dir: state,
        certificates: set,
    }
}

#[test]
fn a_gateway_registers_itself_in_the_layout_that_clients_read() {
    let (dir, set) = new_set();
    let home = dir.path().join("config/openshell");
    let entry = registration(&home, dir.path(), Some(&set));
    assert_eq!(
        register(entry).unwrap(),
        Registered::Written { active: true }
    );
    assert_eq!(register(entry).unwrap(), Registered::Unchanged);

    let gateway = home.join("gateways/local");
    let metadata: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(gateway.join("metadata.json")).unwrap()).unwrap();
    assert_eq!(metadata["gateway_endpoint"], "https://127.0.0.1:17670");
    assert_eq!(metadata["auth_mode"], "mtls");
    for (copy, original) in [
        ("ca.crt", "ca.crt"),
        ("tls.crt", "client/tls.crt"),
        ("tls.key", "client/tls.key"),
    ] {
        let copy = gateway.join("mtls").join(copy);
        assert_eq!(
            fs::read(&copy).unwrap(),
            fs::read(set.join(original)).unwrap()
        );
        assert_eq!(mode(&copy), 0o600);
    }
    assert_eq!(
        fs::read_to_string(home.join("active_gateway"))
            .unwrap()
            .trim(),
        "local"
    );
}

#[test]
fn another_choice_of_the_active_gateway_is_never_overwritten() {
    let (dir, set) = new_set();
    let home = dir.path().join("openshell");
    fs::create_dir_all(&home).unwrap();
    fs::write(home.join("active_gateway"), "elsewhere\n").unwrap();
    let written = register(registration(&home, dir.path(), Some(&set))).unwrap();
    assert_eq!(written, Registered::Written { active: false });
    assert_eq!(
        fs::read_to_string(home.join("active_gateway")).unwrap(),
        "elsewhere\n"
    );
}

#[test]
fn an_entry_that_somebody_else_made_is_left_alone() {
    let (dir, set) = new_set();
    let home = dir.path().join("openshell");
    let metadata = home.join("gateways/local/metadata.json");
    fs::create_dir_all(metadata.parent().unwrap()).unwrap();
    fs::write(
        &metadata,
        r#"{"gateway_endpoint":"https://far.example:443"}"#,
    )
    .unwrap();
    let answer = register(registration(&home, dir.path(), Some(&set))).unwrap();
    assert_eq!(answer, Registered::NotOurs);
    assert!(fs::read_to_string(&metadata).unwrap().contains("far"));
    assert!(!home.join("active_gateway").exists());
}

#[test]
fn a_new_set_or_endpoint_is_registered_again() {
    let (dir, set) = new_set();
    let home = dir.path().join("openshell");
    register(registration(&home, dir.path(), Some(&set))).unwrap();
    fs::remove_dir_all(&set).unwrap();
    ensure(&set, &[], "x", now()).unwrap();
    assert_eq!(
        register(registration(&home, dir.path(), Some(&set))).unwrap(),
        Registered::Written { active: true }
    );
    assert_eq!(
        register(registration(&home, dir.path(), None)).unwrap(),
        Registered::Written { active: true }
    );
    assert!(!home.join("gateways/local/mtls/tls.key").exists());
}
