//! Who may speak to a gateway: a client certificate of its own authority, valid now and made for clients.

use std::path::{Path, PathBuf};
use std::time::Instant;

use openshell_e2e::command::{self, Outcome};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, date_time_ymd,
};

use crate::world::{IDLE, World, cli};

/// Where the CLI keeps what it shows to this gateway.
fn register(world: &World) -> PathBuf {
    let settings = world.gateway.settings();
    let gateways = settings.config_home.join("openshell/gateways");
    gateways.join(&settings.name).join("mtls")
}

/// The gateway's own set.
fn own(world: &World) -> PathBuf {
    world.gateway.settings().directory.join("state/tls")
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The gateway's authority, to sign with.
fn authority(world: &World) -> Issuer<'static, KeyPair> {
    let pem = read(&own(world).join("ca.crt"));
    let (_, pem) = x509_parser::pem::parse_x509_pem(pem.as_bytes()).expect("PEM");
    let certificate = pem.parse_x509().expect("a certificate");
    let common = certificate.subject().iter_common_name().next();
    let common = common.expect("a name").as_str().expect("text").to_owned();
    let key = KeyPair::from_pem(&read(&own(world).join("ca.key"))).expect("a key");
    Issuer::new(authority_params(&common), key)
}

fn authority_params(common: &str) -> CertificateParams {
    let mut name = DistinguishedName::new();
    name.push(DnType::OrganizationName, "OpenShell");
    name.push(DnType::CommonName, common);
    let mut params = CertificateParams::default();
    params.distinguished_name = name;
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params
}

/// Somebody else's authority, which calls itself what ours does.
fn stranger() -> Issuer<'static, KeyPair> {
    let key = KeyPair::generate().expect("a key");
    Issuer::new(authority_params("OpenShell gateway CA"), key)
}

/// A leaf and its key, in PEM form; valid until the first day of a year.
fn leaf(
    issuer: &Issuer<'_, KeyPair>,
    usage: ExtendedKeyUsagePurpose,
    until: i32,
) -> (String, String) {
    let mut params = CertificateParams::default();
    let mut name = DistinguishedName::new();
    name.push(DnType::OrganizationName, "OpenShell");
    name.push(DnType::CommonName, "local");
    params.distinguished_name = name;
    params.extended_key_usages = vec![usage];
    params.not_before = date_time_ymd(2020, 1, 1);
    params.not_after = date_time_ymd(until, 1, 1);
    let key = KeyPair::generate().expect("a key");
    let certificate = params.signed_by(&key, issuer).expect("a certificate");
    (certificate.pem(), key.serialize_pem())
}

/// Has the CLI show this certificate and ask for the list and for a new sandbox.
fn asks_with(world: &World, certificate: &str, key: &str) -> [Outcome; 2] {
    let directory = register(world);
    std::fs::write(directory.join("tls.crt"), certificate).expect("a file");
    std::fs::write(directory.join("tls.key"), key).expect("a file");
    [
        &["sandbox", "list"] as &[&str],
        &[
            "sandbox", "create", "--name", "new", "--detach", "--", "sleep", "1000",
        ],
    ]
    .map(|words| command::run(&mut cli(world, words)).expect("it ends"))
}

#[test]
fn only_a_valid_client_certificate_of_the_gateways_own_authority_is_let_in() {
    use ExtendedKeyUsagePurpose::{ClientAuth, ServerAuth};
    let world = World::new("certificates");
    world.create("box", &[], IDLE);
    let kept = ["tls.crt", "tls.key"].map(|name| read(&register(&world).join(name)));
    let ours = authority(&world);
    // The authority is rebuilt well enough: what it signs is let in while it is valid.
    let (certificate, key) = leaf(&ours, ClientAuth, 2090);
    let [list, create] = asks_with(&world, &certificate, &key);
    assert_eq!((list.code, create.code), (0, 0), "{}", list.errors());
    world.delete("new");

    let expired = leaf(&ours, ClientAuth, 2021);
    let foreign = leaf(&stranger(), ClientAuth, 2090);
    let for_servers = leaf(&ours, ServerAuth, 2090);
    let keyless = (certificate.clone(), foreign.1.clone());
    // What the gateway refuses is a refusal (6); what is unusable here is not even shown to it (1).
    for (what, (certificate, key), code, words) in [
        ("expired", expired, 6, "expired"),
        ("foreign", foreign, 6, "does not trust the authority"),
        (
            "a server's",
            for_servers,
            6,
            "refused our client certificate",
        ),
        ("another's key", keyless, 6, "key"),
        ("no certificate", ("nonsense".to_owned(), key), 6, "cert"),
    ] {
        let started = Instant::now();
        for outcome in asks_with(&world, &certificate, &key) {
            let said = outcome.errors();
            assert_eq!(outcome.code, code, "{what}: {said}");
            assert!(said.contains(words), "{what}: {said}");
        }
        assert!(started.elapsed().as_secs() < 20, "{what} took long");
    }
    for (name, text) in ["tls.crt", "tls.key"].iter().zip(kept) {
        std::fs::write(register(&world).join(name), text).expect("a file");
    }
    assert_eq!(
        world.ok(&["sandbox", "list", "-o", "name"]).text(),
        "box",
        "somebody was let in"
    );
    world.delete("box");
    world.nothing_is_left();
}

#[test]
fn a_gateway_of_another_authority_is_not_believed() {
    let world = World::new("impostor");
    let file = register(&world).join("ca.crt");
    let ours = read(&file);
    let key = KeyPair::generate().expect("a key");
    let other = authority_params("OpenShell gateway CA").self_signed(&key);
    std::fs::write(&file, other.expect("a certificate").pem()).expect("a file");
    let outcome = world.run(&["sandbox", "list"]);
    assert_eq!(outcome.code, 6, "{}", outcome.errors());
    assert!(
        outcome.errors().contains("certificate"),
        "{}",
        outcome.errors()
    );
    std::fs::write(&file, ours).expect("a file");
    world.nothing_is_left();
}
