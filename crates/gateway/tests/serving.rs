//! A gateway that serves: who is let in, what it says of itself, and how it ends.

#![expect(clippy::unwrap_used, reason = "a test: what fails here fails the test")]
#[expect(dead_code, reason = "shared with the other tests")]
mod support;

use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::time::{Duration, Instant};

use openshell_proto::openshell::v1::{GetCurrentUserRequest, HealthRequest};
use rustix::process::Signal;
use support::{DEADLINE, Gateway, Home, free_address, page, stderr};
use tonic::Code;

/// The certificates that the gateway registered for the local CLI.
fn registered(home: &Home) -> std::path::PathBuf {
    home.registry().join("gateways/openshell/mtls")
}

#[tokio::test]
async fn a_first_start_makes_everything_and_answers_over_mutual_tls() {
    let home = Home::new();
    let gateway = home.start(&[]);
    let mtls = registered(&home);
    let mut client = gateway.client(&mtls, Some(&mtls)).await.unwrap();
    client.health(HealthRequest::default()).await.unwrap();
    let user = client
        .get_current_user(GetCurrentUserRequest::default())
        .await
        .unwrap();
    assert!(format!("{user:?}").contains("tester"), "{user:?}");

    let active = std::fs::read_to_string(home.registry().join("active_gateway")).unwrap();
    assert_eq!(active.trim(), "openshell");
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&home.state()), 0o700);
    assert_eq!(mode(&home.state().join("openshell.db")), 0o600);
}

#[tokio::test]
async fn without_a_certificate_only_health_is_answered() {
    let home = Home::new();
    let gateway = home.start(&[]);
    let mut client = gateway.client(&registered(&home), None).await.unwrap();
    client.health(HealthRequest::default()).await.unwrap();
    let refused = client
        .get_current_user(GetCurrentUserRequest::default())
        .await
        .unwrap_err();
    assert_eq!(refused.code(), Code::Unauthenticated);
}

#[tokio::test]
async fn a_certificate_of_another_gateway_is_refused() {
    let (home, other) = (Home::new(), Home::new());
    let gateway = home.start(&[]);
    let made = other.run(&["generate-certs"]);
    assert!(made.status.success(), "{}", stderr(&made));
    let foreign = other.state().join("tls/client");
    let refused = match gateway.client(&registered(&home), Some(&foreign)).await {
        Ok(mut client) => client.health(HealthRequest::default()).await.is_err(),
        Err(_) => true,
    };
    assert!(refused);
    // And a client that trusts another gateway does not talk to this one.
    assert!(
        gateway
            .client(&other.state().join("tls"), None)
            .await
            .is_err()
    );
}

#[tokio::test]
async fn plaintext_on_loopback_serves_everyone_on_this_machine() {
    let home = Home::new();
    let gateway = home.start(&["--disable-tls"]);
    assert!(gateway.endpoint.starts_with("http://127.0.0.1:"));
    let mut client = openshell_proto::openshell::v1::open_shell_client::OpenShellClient::connect(
        gateway.endpoint.clone(),
    )
    .await
    .unwrap();
    client
        .get_current_user(GetCurrentUserRequest::default())
        .await
        .unwrap();
}

#[tokio::test]
async fn term_ends_it_in_time_although_a_client_stays() {
    let home = Home::new();
    let mut gateway = home.start(&[]);
    let mtls = registered(&home);
    let mut client = gateway.client(&mtls, Some(&mtls)).await.unwrap();
    client.health(HealthRequest::default()).await.unwrap();
    gateway.signal(Signal::HUP);
    gateway.wait_for_line("HUP ignored");
    gateway.signal(Signal::TERM);
    let (status, took) = gateway.wait();
    assert_eq!(status.code(), Some(0));
    assert!(took < Duration::from_secs(5), "it took {took:?}");
    // The same state serves again, and its registration stands.
    drop(client);
    let again = home.start(&[]);
    let mut client = again.client(&mtls, Some(&mtls)).await.unwrap();
    client.health(HealthRequest::default()).await.unwrap();
}

#[test]
fn a_second_gateway_on_the_same_state_is_refused_with_the_holders_pid() {
    let home = Home::new();
    let first = home.start(&[]);
    let second = home.run(&["--bind-address", "127.0.0.1:0"]);
    assert_eq!(second.status.code(), Some(1));
    let expected = format!("process {}", first.pid());
    assert!(stderr(&second).contains(&expected), "{}", stderr(&second));
}

#[test]
fn a_port_in_use_is_refused_with_its_holder() {
    let (home, other) = (Home::new(), Home::new());
    let first = home.start(&[]);
    let address = first.address().to_string();
    let second = other.run(&["--bind-address", &address]);
    assert_eq!(second.status.code(), Some(1));
    let text = stderr(&second);
    assert!(text.contains(&format!("{address} is in use")), "{text}");
    assert!(
        text.contains(&format!("(process {})", first.pid())),
        "{text}"
    );
}

#[test]
fn it_serves_without_an_engine_and_readiness_says_what_is_missing() {
    let home = Home::new();
    let health = free_address();
    let gateway = home.start(&[
        "--health-bind-address",
        &health.to_string(),
        "--metrics-bind-address",
        &health.to_string(),
    ]);
    let began = Instant::now();
    let not_ready = loop {
        let text = page(health, "/readyz?verbose");
        if !text.contains("not looked at yet") {
            break text;
        }
        assert!(began.elapsed() < DEADLINE, "{text}");
        std::thread::park_timeout(Duration::from_millis(20));
    };
    assert!(not_ready.starts_with("HTTP/1.1 503"), "{not_ready}");
    assert!(not_ready.contains("engine: failed since"), "{not_ready}");
    assert!(not_ready.contains("no-engine.sock"), "{not_ready}");
    assert!(not_ready.contains("store: ok since"), "{not_ready}");
    assert!(page(health, "/healthz").starts_with("HTTP/1.1 200"));
    let metrics = page(health, "/metrics");
    assert!(
        metrics.contains(r#"openshell_component_up{component="store"} 1"#),
        "{metrics}"
    );
    drop(gateway);
}

#[test]
fn the_service_manager_is_told_when_it_serves_and_when_it_ends() {
    let home = Home::new();
    let socket = home.path().join("notify.sock");
    let manager = UnixDatagram::bind(&socket).unwrap();
    manager.set_read_timeout(Some(DEADLINE)).unwrap();
    let mut command = home.command(&["--bind-address", "127.0.0.1:0"]);
    command.env("NOTIFY_SOCKET", &socket);
    let mut gateway = Gateway::start(command);
    let hear = || {
        let mut buffer = [0; 1024];
        let length = manager.recv(&mut buffer).unwrap();
        String::from_utf8_lossy(&buffer[..length]).into_owned()
    };
    assert!(hear().contains("READY=1"));
    gateway.signal(Signal::INT);
    assert!(hear().contains("STOPPING=1"));
    assert_eq!(gateway.wait().0.code(), Some(0));
}

#[test]
fn damaged_certificates_are_named_with_the_way_out() {
    let home = Home::new();
    drop(home.start(&[]));
    let key = home.state().join("tls/server/tls.key");
    std::fs::write(&key, "rubbish").unwrap();
    let output = home.run(&["--bind-address", "127.0.0.1:0"]);
    assert_eq!(output.status.code(), Some(1));
    let text = stderr(&output);
    assert!(text.contains("server/tls.key is not usable"), "{text}");

    std::fs::remove_file(&key).unwrap();
    let output = home.run(&["--bind-address", "127.0.0.1:0"]);
    assert!(
        stderr(&output).contains("missing: server/tls.key"),
        "{}",
        stderr(&output)
    );
}
