//! The promises of a listener: who is let in, who is not, and that it ends.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::Request;
use axum::routing::get;
use openshell_core::Timestamp;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
};
use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_rustls::TlsConnector;
use tokio_util::sync::CancellationToken;

use super::health::{Readiness, health_router};
use super::*;

/// Nothing here takes this long; a test that does has failed.
const DEADLINE: Duration = Duration::from_secs(20);

struct Authority {
    params: CertificateParams,
    key: KeyPair,
    pem: String,
}

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::default();
        params
            .distinguished_name
            .push(DnType::CommonName, "test CA");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        Self { params, key, pem }
    }

    /// Certificate and key, PEM.
    fn leaf(&self, name: &str, usage: ExtendedKeyUsagePurpose, expired: bool) -> (String, String) {
        let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.extended_key_usages = vec![usage];
        if expired {
            params.not_before = rcgen::date_time_ymd(2001, 1, 1);
            params.not_after = rcgen::date_time_ymd(2002, 1, 1);
        }
        let key = KeyPair::generate().unwrap();
        let issuer = Issuer::from_params(&self.params, &self.key);
        let pem = params.signed_by(&key, &issuer).unwrap().pem();
        (pem, key.serialize_pem())
    }

    fn client(&self, name: &str) -> (String, String) {
        self.leaf(name, ExtendedKeyUsagePurpose::ClientAuth, false)
    }
}

struct Server {
    address: SocketAddr,
    shutdown: CancellationToken,
    task: JoinHandle<()>,
}

fn routes() -> Router {
    let who = async |request: Request| match request.extensions().get::<PeerIdentity>() {
        Some(identity) => format!("<{}>", identity.subject),
        None => "<nobody>".to_owned(),
    };
    let never = async || std::future::pending::<&str>().await;
    Router::new()
        .route("/who", get(who))
        .route("/never", get(never))
}

async fn server(ca: Option<&Authority>, config: ServeConfig) -> Server {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let tls = ca.map(|ca| {
        let (chain, key) = ca.leaf("server", ExtendedKeyUsagePurpose::ServerAuth, false);
        server_config(&chain, &key, &ca.pem).unwrap()
    });
    let shutdown = CancellationToken::new();
    let task = tokio::spawn(serve(listener, tls, routes(), config, shutdown.clone()));
    Server {
        address,
        shutdown,
        task,
    }
}

async fn ask<S: AsyncRead + AsyncWrite + Unpin>(
    stream: &mut S,
    path: &str,
) -> std::io::Result<String> {
    let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

/// Asks `/who` over TLS, with or without a certificate.
async fn who(
    server: &Server,
    ca: &Authority,
    client: Option<(String, String)>,
) -> std::io::Result<String> {
    let mut roots = RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_slice(ca.pem.as_bytes()).unwrap())
        .unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots);
    let config = match client {
        None => builder.with_no_client_auth(),
        Some((chain, key)) => builder
            .with_client_auth_cert(
                vec![CertificateDer::from_pem_slice(chain.as_bytes()).unwrap()],
                PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap(),
            )
            .unwrap(),
    };
    let stream = TcpStream::connect(server.address).await?;
    let mut stream = TlsConnector::from(Arc::new(config))
        .connect(ServerName::try_from("localhost").unwrap(), stream)
        .await?;
    let answer = tokio::time::timeout(DEADLINE, ask(&mut stream, "/who")).await;
    answer.expect("an answer, or an error, in time")
}

#[tokio::test]
async fn a_verified_client_certificate_names_its_holder() {
    let ca = Authority::new();
    let server = server(Some(&ca), ServeConfig::default()).await;
    let answer = who(&server, &ca, Some(ca.client("alice"))).await.unwrap();
    assert!(answer.contains("<alice>"), "{answer}");
}

#[tokio::test]
async fn a_client_without_a_certificate_is_let_in_as_nobody() {
    let ca = Authority::new();
    let server = server(Some(&ca), ServeConfig::default()).await;
    let answer = who(&server, &ca, None).await.unwrap();
    assert!(answer.contains("<nobody>"), "{answer}");
}

#[tokio::test]
async fn foreign_expired_and_misused_certificates_are_refused() {
    let (ca, foreign) = (Authority::new(), Authority::new());
    let server = server(Some(&ca), ServeConfig::default()).await;
    let expired = ca.leaf("alice", ExtendedKeyUsagePurpose::ClientAuth, true);
    let misused = ca.leaf("server", ExtendedKeyUsagePurpose::ServerAuth, false);
    for (what, client) in [
        ("foreign", foreign.client("alice")),
        ("expired", expired),
        ("of a server", misused),
    ] {
        let answer = who(&server, &ca, Some(client)).await;
        assert!(answer.is_err(), "{what}: {answer:?}");
    }
}

#[tokio::test]
async fn a_peer_that_says_nothing_is_dropped_after_the_handshake_deadline() {
    let ca = Authority::new();
    let config = ServeConfig {
        handshake: Duration::from_millis(50),
        ..ServeConfig::default()
    };
    let server = server(Some(&ca), config).await;
    let mut silent = TcpStream::connect(server.address).await.unwrap();
    let mut byte = [0];
    let read = tokio::time::timeout(DEADLINE, silent.read(&mut byte)).await;
    assert_eq!(read.expect("it is closed").unwrap_or(0), 0);
}

#[tokio::test]
async fn connections_beyond_the_bound_wait_for_a_place() {
    let config = ServeConfig {
        max_connections: 1,
        ..ServeConfig::default()
    };
    let server = server(None, config).await;
    let mut holder = TcpStream::connect(server.address).await.unwrap();
    holder
        .write_all(b"GET /never HTTP/1.1\r\nhost: x\r\n\r\n")
        .await
        .unwrap();
    let mut second = TcpStream::connect(server.address).await.unwrap();
    let mut asked = Box::pin(ask(&mut second, "/who"));
    let early = tokio::time::timeout(Duration::from_millis(100), asked.as_mut()).await;
    assert!(early.is_err(), "answered although there is no place");
    drop(holder);
    let answer = tokio::time::timeout(DEADLINE, asked).await.unwrap();
    assert!(answer.unwrap().contains("<nobody>"));
}

#[tokio::test]
async fn a_shutdown_ends_in_time_although_a_request_never_does() {
    let config = ServeConfig {
        drain: Duration::from_millis(100),
        ..ServeConfig::default()
    };
    let server = server(None, config).await;
    let mut stuck = TcpStream::connect(server.address).await.unwrap();
    stuck
        .write_all(b"GET /never HTTP/1.1\r\nhost: x\r\n\r\n")
        .await
        .unwrap();
    // An answer on another connection shows that the first one has been accepted.
    let mut other = TcpStream::connect(server.address).await.unwrap();
    ask(&mut other, "/who").await.unwrap();

    let began = Instant::now();
    server.shutdown.cancel();
    tokio::time::timeout(DEADLINE, server.task)
        .await
        .unwrap()
        .unwrap();
    assert!(began.elapsed() < Duration::from_secs(5));
    assert!(TcpStream::connect(server.address).await.is_err());
}

fn time(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

#[test]
fn readiness_keeps_since_when_something_is_wrong() {
    let readiness = Readiness::new(&["store", "engine"], time(1));
    assert!(!readiness.ready(), "not ready before the first look");
    assert!(readiness.set("store", Ok("writable".to_owned()), time(2)));
    assert!(readiness.set("engine", Ok("docker".to_owned()), time(2)));
    assert!(readiness.ready());
    assert!(readiness.set("engine", Err("refused".to_owned()), time(3)));
    assert!(!readiness.set("engine", Err("still refused".to_owned()), time(4)));
    let engine = readiness.components().remove(1);
    assert_eq!((engine.ok, engine.since), (false, time(3)));
    assert_eq!(engine.message, "still refused");
}

#[tokio::test]
async fn probes_say_what_is_wrong_and_since_when() {
    let readiness = Readiness::new(&["store", "engine"], time(0));
    readiness.set("store", Ok("writable".to_owned()), time(1));
    readiness.set("engine", Err("no docker".to_owned()), time(2));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let shutdown = CancellationToken::new();
    let task = tokio::spawn(serve(
        listener,
        None,
        health_router(readiness.clone()),
        ServeConfig::default(),
        shutdown.clone(),
    ));
    let get = async |path: &str| {
        let mut stream = TcpStream::connect(address).await.unwrap();
        ask(&mut stream, path).await.unwrap()
    };
    assert!(get("/healthz").await.starts_with("HTTP/1.1 200"));
    let not_ready = get("/readyz").await;
    assert!(not_ready.starts_with("HTTP/1.1 503"), "{not_ready}");
    assert!(
        not_ready.contains("engine: failed since 1970-01-01T00:00:00Z: no docker"),
        "{not_ready}"
    );
    assert!(!not_ready.contains("writable"), "{not_ready}");
    assert!(get("/readyz?verbose").await.contains("writable"));
    readiness.set("engine", Ok("docker 20".to_owned()), time(3));
    assert!(get("/readyz").await.starts_with("HTTP/1.1 200"));
    shutdown.cancel();
    task.await.unwrap();
}
