//! The commands that do not serve.

#![expect(clippy::unwrap_used, reason = "a test: what fails here fails the test")]
#[expect(dead_code, reason = "shared with the other tests")]
mod support;

use support::{Home, stderr, stdout};

#[test]
fn generate_certs_makes_all_once_and_refuses_a_part() {
    let home = Home::new();
    let dir = home.path().join("certs");
    let arguments = [
        "generate-certs",
        "--output-dir",
        dir.to_str().unwrap(),
        "--server-san",
        "gateway.example",
        "--server-san",
        "10.1.2.3",
    ];
    let made = home.run(&arguments);
    assert!(made.status.success(), "{}", stderr(&made));
    let again = home.run(&arguments);
    assert!(again.status.success());
    assert!(
        stdout(&again).contains("nothing was changed"),
        "{}",
        stdout(&again)
    );

    std::fs::remove_file(dir.join("client/tls.key")).unwrap();
    let part = home.run(&arguments);
    assert_eq!(part.status.code(), Some(1));
    assert!(
        stderr(&part).contains("missing: client/tls.key"),
        "{}",
        stderr(&part)
    );
}

#[test]
fn config_check_names_an_unknown_key_and_the_nearest_and_touches_nothing() {
    let home = Home::new();
    let file = home.path().join("bad.toml");
    std::fs::write(
        &file,
        "[openshell]\nversion = 2\n[openshell.gateway]\nbind_adress = \"127.0.0.1:1\"\n",
    )
    .unwrap();
    let output = home.run(&["config", "check", "--path", file.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        stderr(&output).contains("did you mean `openshell.gateway.bind_address`?"),
        "{}",
        stderr(&output)
    );
    assert!(!home.state().exists());
    assert!(!home.registry().exists());

    let fine = home.run(&["config", "check"]);
    assert!(fine.status.success(), "{}", stderr(&fine));
    assert!(!home.state().exists());
}

#[test]
fn config_show_says_where_each_value_comes_from() {
    let home = Home::new();
    let output = home
        .command(&["--log-level", "debug", "config", "show"])
        .env("OPENSHELL_GATEWAY_NAME", "mine")
        .output()
        .unwrap();
    let text = stdout(&output);
    let line = |key: &str| {
        text.lines()
            .find(|line| line.starts_with(key))
            .unwrap()
            .to_owned()
    };
    assert!(line("log_level").contains("# flag --log-level"), "{text}");
    assert!(line("name = \"mine\"").contains("# environment OPENSHELL_GATEWAY_NAME"));
    assert!(line("bind_address").ends_with("# default"));
}

#[test]
fn plaintext_on_another_address_than_loopback_is_refused() {
    let home = Home::new();
    let output = home.run(&["--disable-tls", "--bind-address", "0.0.0.0:0"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("loopback"), "{}", stderr(&output));
    assert!(!home.state().exists());
}

#[test]
fn missing_runtime_binaries_are_named_with_the_way_out() {
    let home = Home::new();
    let empty = home.path().join("empty");
    let output = home.run(&["--runtime-dir", empty.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
    let text = stderr(&output);
    assert!(
        text.contains("openshell-sandbox was not found in"),
        "{text}"
    );
    assert!(text.contains("--runtime-dir"), "{text}");
}

#[test]
fn wrong_usage_ends_with_2_and_the_version_with_0() {
    let home = Home::new();
    assert_eq!(home.run(&["--no-such-flag"]).status.code(), Some(2));
    let version = home.run(&["version"]);
    assert!(version.status.success());
    assert!(stdout(&version).contains(env!("CARGO_PKG_VERSION")));
}
