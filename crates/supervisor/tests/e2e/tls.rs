//! The session over TLS: the given CA is the only one that is trusted.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use openshell_api::session::SessionConfig;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, SanType};
use tonic::transport::Identity;

use crate::gateway::Gateway;
use crate::pair::World;

/// A CA's certificate, and a server for 127.0.0.1 that it vouches for.
fn authority() -> (String, Identity) {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let ca = params.self_signed(&key).unwrap();
    let issuer = Issuer::new(params, key);
    let server_key = KeyPair::generate().unwrap();
    let mut server = CertificateParams::default();
    server.subject_alt_names = vec![SanType::IpAddress(IpAddr::V4(Ipv4Addr::LOCALHOST))];
    let certificate = server.signed_by(&server_key, &issuer).unwrap();
    (
        ca.pem(),
        Identity::from_pem(certificate.pem(), server_key.serialize_pem()),
    )
}

#[tokio::test]
async fn a_gateway_that_the_given_ca_vouches_for_is_trusted() {
    let world = World::new();
    let (ca, identity) = authority();
    let gateway = Gateway::start_as(&world, SessionConfig::default(), Some(identity)).await;
    let mut bootstrap = world.bootstrap(&gateway.endpoint());
    bootstrap.gateway_ca_pem = ca;
    let _supervisor = world.supervise(bootstrap);
    let mut sandbox = world.sandbox();
    sandbox.dial(&world.socket()).await;
    gateway.fence.seen("MainStarted").await;
}

#[tokio::test]
async fn a_gateway_of_another_ca_is_not_told_anything() {
    let world = World::new();
    let (_, identity) = authority();
    let (other_ca, _) = authority();
    let gateway = Gateway::start_as(&world, SessionConfig::default(), Some(identity)).await;
    let mut bootstrap = world.bootstrap(&gateway.endpoint());
    bootstrap.gateway_ca_pem = other_ca;
    let supervisor = world.supervise(bootstrap);
    let mut sandbox = world.sandbox();
    sandbox.dial(&world.socket()).await;
    sandbox
        .sees("it is attached", |s| !s.attached.is_empty())
        .await;
    // Long enough for several tries.
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert!(supervisor.running());
    assert!(gateway.fence.told().is_empty());
}
