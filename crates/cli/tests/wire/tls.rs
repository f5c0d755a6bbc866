//! Certificates: the right ones, foreign ones, expired ones, none.

use std::path::{Path, PathBuf};

use openshell_proto::api::SandboxPhase as P;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tonic::transport::{Certificate, Identity, ServerTlsConfig};

use super::fake::Fake;
use super::run::{Done, command, done};

struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    fn issue(&self, until: i32) -> (String, String) {
        let mut params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
        params.not_before = rcgen::date_time_ymd(2001, 1, 1);
        params.not_after = rcgen::date_time_ymd(until, 1, 1);
        let key = KeyPair::generate().unwrap();
        let cert = params.signed_by(&key, &self.0).unwrap();
        (cert.pem(), key.serialize_pem())
    }

    fn gateway(&self) -> Fake {
        let (cert, key) = self.issue(4000);
        let tls = ServerTlsConfig::new()
            .identity(Identity::from_pem(cert, key))
            .client_ca_root(Certificate::from_pem(self.0.pem()));
        Fake::serve(Some(tls)).with("demo", P::Ready)
    }
}

/// Registers the gateway with these and runs a command against it.
fn run(fake: &Fake, ca: &Authority, (cert, key): &(String, String), args: &[&str]) -> Done {
    let dir = fake.dir.path();
    let write = |name: &str, text: &str| -> PathBuf {
        let path = dir.join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let (ca, cert, key) = (write("a", &ca.0.pem()), write("b", cert), write("c", key));
    let text = |p: &Path| p.to_str().unwrap().to_owned();
    let add = [
        "gateway",
        "add",
        &fake.endpoint,
        "--name",
        "tls",
        "--ca",
        &text(&ca),
        "--cert",
        &text(&cert),
        "--key",
        &text(&key),
    ];
    let added = done(command(dir, &add).output().unwrap());
    assert_eq!(added.code, 0, "{added:?}");
    done(command(dir, args).output().unwrap())
}

#[test]
fn with_its_certificates_a_registered_gateway_is_used() {
    let ours = Authority::new();
    let fake = ours.gateway();
    let done = run(
        &fake,
        &ours,
        &ours.issue(4000),
        &["sandbox", "exec", "demo", "--", "exit", "9"],
    );
    assert_eq!(done.code, 9, "{done:?}");
}

#[test]
fn a_gateway_that_our_authority_did_not_sign_is_refused() {
    let (ours, foreign) = (Authority::new(), Authority::new());
    let fake = ours.gateway();
    let done = run(&fake, &foreign, &ours.issue(4000), &["sandbox", "list"]);
    assert_eq!(done.code, 6, "{done:?}");
    assert!(
        done.stderr.contains("not signed by the authority"),
        "{done:?}"
    );
}

#[test]
fn a_foreign_client_certificate_is_refused_in_words() {
    let (ours, foreign) = (Authority::new(), Authority::new());
    let fake = ours.gateway();
    let done = run(&fake, &ours, &foreign.issue(4000), &["sandbox", "list"]);
    assert_eq!(done.code, 6, "{done:?}");
    assert!(done.stderr.contains("client certificate"), "{done:?}");
}

#[test]
fn an_expired_client_certificate_is_told_as_that_by_command_and_doctor() {
    let ours = Authority::new();
    let fake = ours.gateway();
    let done = run(&fake, &ours, &ours.issue(2002), &["sandbox", "list"]);
    assert_eq!(done.code, 6, "{done:?}");
    assert!(done.stderr.contains("expired"), "{done:?}");
    let doctor = super::run::done(command(fake.dir.path(), &["doctor"]).output().unwrap());
    assert_eq!(doctor.code, 1);
    assert!(
        doctor.stdout.contains("expired on 2002-01-01"),
        "{doctor:?}"
    );
}

#[test]
fn plaintext_to_a_tls_gateway_is_unreachable_not_a_riddle() {
    let fake = Authority::new().gateway();
    let plain = fake.endpoint.replace("https", "http");
    let done = done(
        command(
            fake.dir.path(),
            &["sandbox", "list", "--gateway-endpoint", &plain],
        )
        .output()
        .unwrap(),
    );
    assert_eq!(done.code, 5, "{done:?}");
}
