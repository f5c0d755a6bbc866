//! The promises of the configuration: precedence, unknown keys, origins, and the commented default file.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::load::{Source, default_tree, flatten, variable};
use super::model::{DriverKind, LogLevel};
use super::*;

fn nothing(_: &str) -> Option<OsString> {
    None
}

fn with_file(text: &str) -> Result<Loaded, ConfigError> {
    with_all(text, &[], &Flags::new())
}

fn with_all(text: &str, env: &[(&str, &str)], flags: &Flags) -> Result<Loaded, ConfigError> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("gateway.toml");
    std::fs::write(&path, text).unwrap();
    let env: BTreeMap<String, OsString> = env
        .iter()
        .map(|(key, value)| ((*key).to_owned(), OsString::from(value)))
        .collect();
    load(Some(&path), &[], |name| env.get(name).cloned(), flags)
}

fn message(result: Result<Loaded, ConfigError>) -> String {
    result.unwrap_err().to_string()
}

#[test]
fn nothing_given_means_the_defaults() {
    let loaded = load(None, &[], nothing, &Flags::new()).unwrap();
    assert_eq!(loaded.config, Config::default());
    assert!(loaded.sources.values().all(|s| *s == Source::Default));
}

#[test]
fn a_flag_outranks_the_environment_outranks_the_file_outranks_the_default() {
    let file = "[openshell]\nversion = 2\n[openshell.gateway]\nlog_level = \"warn\"\nname = \"f\"\nmax_connections = 7\n";
    let env = [
        ("OPENSHELL_LOG_LEVEL", "error"),
        ("OPENSHELL_GATEWAY_NAME", "e"),
    ];
    let flags = vec![("gateway.log_level", "debug".to_owned(), "--log-level")];
    let loaded = with_all(file, &env, &flags).unwrap();
    let gateway = &loaded.config.gateway;
    assert_eq!(gateway.log_level, LogLevel::Debug);
    assert_eq!(gateway.name, "e");
    assert_eq!(gateway.max_connections, 7);
    assert!(gateway.register);

    let from = |key: &str| loaded.sources[&format!("openshell.gateway.{key}")].to_string();
    assert_eq!(from("log_level"), "flag --log-level");
    assert_eq!(from("name"), "environment OPENSHELL_GATEWAY_NAME");
    assert!(from("max_connections").starts_with("file "));
    assert_eq!(from("register"), "default");
}

#[test]
fn the_first_usual_place_that_exists_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("second.toml");
    std::fs::write(&path, "[openshell]\nversion = 2\n").unwrap();
    let usual = [dir.path().join("first.toml"), path.clone()];
    let loaded = load(None, &usual, nothing, &Flags::new()).unwrap();
    assert_eq!(loaded.file, Some(path));
}

#[test]
fn a_file_that_was_asked_for_must_exist() {
    let error = load(
        Some(Path::new("/nowhere/gateway.toml")),
        &[],
        nothing,
        &Flags::new(),
    )
    .unwrap_err();
    assert!(error.to_string().contains("/nowhere/gateway.toml"));
}

#[test]
fn an_unknown_key_is_an_error_that_names_it_and_the_nearest() {
    let unknown = |body: &str| message(with_file(&format!("[openshell]\nversion = 2\n{body}")));
    let slip = unknown("[openshell.gateway]\nbind_adress = \"127.0.0.1:1\"\n");
    assert!(slip.contains("`openshell.gateway.bind_adress`"), "{slip}");
    assert!(
        slip.contains("did you mean `openshell.gateway.bind_address`?"),
        "{slip}"
    );

    let kebab = unknown("[openshell.gateway]\nlog-level = \"info\"\n");
    assert!(kebab.contains("`openshell.gateway.log_level`?"), "{kebab}");

    let elsewhere = unknown("[openshell.gateway]\nrestore = \"none\"\n");
    assert!(
        elsewhere.contains("`openshell.lifecycle.restore`?"),
        "{elsewhere}"
    );

    let table = unknown("[openshell.lifecyle]\nrestore = \"none\"\n");
    assert!(table.contains("`openshell.lifecycle.restore`?"), "{table}");

    let empty = unknown("[openshell.gatewya]\n");
    assert!(empty.contains("`openshell.gatewya`"), "{empty}");

    let nothing_near = unknown("[openshell.gateway]\nzzzzzzzzzzzz = 1\n");
    assert!(!nothing_near.contains("did you mean"), "{nothing_near}");
}

#[test]
fn a_file_must_be_of_version_2() {
    for (text, expected) in [
        ("", "version = 2"),
        ("[openshell.gateway]\nname = \"x\"\n", "version = 2"),
        ("[openshell]\nversion = 1\n", "no longer read"),
        ("[openshell]\nversion = 3\n", "newer gateway"),
        ("[openshell]\nversion = \"2\"\n", "must be the number"),
    ] {
        let error = message(with_file(text));
        assert!(error.contains(expected), "{text:?}: {error}");
    }
}

#[test]
fn what_is_not_toml_is_refused_with_its_line() {
    let error = message(with_file("[openshell]\nversion = = 2\n"));
    assert!(error.contains("not valid TOML"), "{error}");
    assert!(error.contains("line 2"), "{error}");
}

#[test]
fn a_value_of_the_wrong_kind_names_its_key_and_its_origin() {
    let file = "[openshell]\nversion = 2\n[openshell.gateway]\nbind_address = \"here\"\n";
    let error = message(with_file(file));
    assert!(error.contains("`openshell.gateway.bind_address` from file "));

    let env = [("OPENSHELL_DISABLE_TLS", "yes")];
    let error = message(with_all("[openshell]\nversion = 2\n", &env, &Flags::new()));
    assert!(
        error.contains("environment OPENSHELL_DISABLE_TLS"),
        "{error}"
    );
    assert!(error.contains("expected true or false"), "{error}");

    let flags = vec![("gateway.compute_driver", "dcoker".to_owned(), "--x")];
    let error = message(with_all("[openshell]\nversion = 2\n", &[], &flags));
    assert!(error.contains("docker, podman"), "{error}");

    let env = [("OPENSHELL_LIFECYCLE_STOP_GRACE_SECS", "-1")];
    let error = message(with_all("[openshell]\nversion = 2\n", &env, &Flags::new()));
    assert!(error.contains("not negative"), "{error}");
}

#[test]
fn plaintext_needs_a_loopback_address() {
    let flags = |address: &str| {
        vec![
            ("gateway.disable_tls", "true".to_owned(), "--disable-tls"),
            ("gateway.bind_address", address.to_owned(), "--bind-address"),
        ]
    };
    assert!(load(None, &[], nothing, &flags("127.0.0.1:1")).is_ok());
    assert!(load(None, &[], nothing, &flags("[::1]:1")).is_ok());
    let error = message(load(None, &[], nothing, &flags("0.0.0.0:1")));
    assert!(error.contains("loopback"), "{error}");
}

#[test]
fn all_that_is_wrong_is_said_at_once() {
    let file = "[openshell]\nversion = 2\n[openshell.gateway]\nname = \"\"\n\
                tls = { cert_path = \"/a\" }\n[openshell.lifecycle]\nshutdown_grace_secs = 0\n\
                [openshell.drivers.podman]\nsandbox_label = \"A\"\n";
    let error = message(with_file(file));
    for part in [
        "name",
        "drivers.podman.sandbox_label",
        "belong together",
        "shutdown_grace_secs",
    ] {
        assert!(error.contains(part), "{part}: {error}");
    }
}

#[test]
fn every_key_has_a_variable_of_its_own() {
    let mut seen = BTreeMap::new();
    for key in flatten(&default_tree()).into_keys() {
        if let Some(other) = seen.insert(variable(&key), key.clone()) {
            panic!("{key} and {other} share {}", variable(&key));
        }
    }
    assert_eq!(
        variable("openshell.drivers.docker.socket_path"),
        "OPENSHELL_DRIVERS_DOCKER_SOCKET_PATH"
    );
}

#[test]
fn lists_in_variables_are_separated_by_commas() {
    let env = [("OPENSHELL_SERVER_SAN", "a.example, 10.0.0.1")];
    let loaded = with_all("[openshell]\nversion = 2\n", &env, &Flags::new()).unwrap();
    assert_eq!(loaded.config.gateway.server_sans, ["a.example", "10.0.0.1"]);
}

#[test]
fn what_is_shown_can_be_read_again() {
    let flags = vec![("gateway.state_dir", "/a\"b\\c".to_owned(), "--state-dir")];
    let loaded = load(None, &[], nothing, &flags).unwrap();
    let again = with_file(&as_toml(&loaded)).unwrap();
    assert_eq!(again.config, loaded.config);
    assert_eq!(
        again.config.gateway.state_dir,
        Some(PathBuf::from("/a\"b\\c"))
    );
    let json = as_json(&loaded);
    assert_eq!(
        json["openshell.gateway.state_dir"]["source"],
        "flag --state-dir"
    );
    assert_eq!(json["openshell.lifecycle.restore"]["value"], "intent");
}

#[test]
fn an_unset_driver_is_not_the_default_driver() {
    let loaded = load(None, &[], nothing, &Flags::new()).unwrap();
    assert_eq!(loaded.config.gateway.compute_driver, None);
    let flags = vec![("gateway.compute_driver", "docker".to_owned(), "--x")];
    let loaded = load(None, &[], nothing, &flags).unwrap();
    assert_eq!(
        loaded.config.gateway.compute_driver,
        Some(DriverKind::Docker)
    );
}

/// The file users copy: every key is in it, commented out, with its true default.
#[test]
fn the_commented_file_lists_every_key_with_its_default() {
    let text = include_str!("../../../../config/gateway.toml");
    let as_it_is = with_file(text).unwrap();
    assert_eq!(as_it_is.config, Config::default());

    // A commented value is `#key = …`; prose is `# …`.
    let uncommented: String = text
        .lines()
        .map(|line| match line.strip_prefix('#') {
            Some(rest) if rest.starts_with(|c: char| c.is_ascii_lowercase()) => rest,
            _ => line,
        })
        .map(|line| format!("{line}\n"))
        .collect();
    let loaded = with_file(&uncommented).unwrap();
    assert_eq!(loaded.config, Config::default());
    for key in flatten(&default_tree()).keys() {
        assert!(
            matches!(loaded.sources[key], Source::File(_)),
            "{key} is not in config/gateway.toml"
        );
    }
}
