//! Who may call what.

use super::*;
use axum::body::Body;
use openshell_core::token::Signer;
use openshell_core::{Generation, SandboxId};

struct Gateway {
    signer: Signer,
    config: AuthConfig,
}

const NOW: i64 = 1_000_000;

impl Gateway {
    fn new() -> Self {
        let signer = Signer::from_pkcs8(&Signer::generate_pkcs8().unwrap()).unwrap();
        let config = AuthConfig {
            public_key: signer.public_key().to_vec(),
            allow_unauthenticated_users: false,
        };
        Self { signer, config }
    }

    fn token(&self, aud: Audience, exp: i64) -> String {
        let claims = Claims {
            iss: "openshell-gateway:test".to_owned(),
            aud,
            sandbox_id: SandboxId::random(),
            generation: Generation(1),
            iat: NOW - 100,
            exp,
            jti: "1".to_owned(),
        };
        self.signer.sign(&claims).unwrap()
    }

    fn ask(&self, request: &Request) -> Result<Caller, Code> {
        decide(&self.config, request, Timestamp::from_second(NOW).unwrap()).map_err(|e| e.code())
    }
}

fn call(path: &str) -> Request {
    Request::builder().uri(path).body(Body::empty()).unwrap()
}

fn with_token(path: &str, token: &str) -> Request {
    let mut request = call(path);
    let value = format!("Bearer {token}").parse().unwrap();
    request.headers_mut().insert("authorization", value);
    request
}

fn with_certificate(path: &str) -> Request {
    let mut request = call(path);
    request.extensions_mut().insert(PeerIdentity {
        subject: "ada".to_owned(),
    });
    request
}

const LIST: &str = "/openshell.v1.OpenShell/ListSandboxes";
const SESSION: &str = "/openshell.supervisor.v1.SupervisorGateway/Session";

#[test]
fn health_is_open_and_everything_else_needs_credentials() {
    let g = Gateway::new();
    assert_eq!(g.ask(&call(HEALTH)), Ok(Caller::Anonymous));
    for path in [
        LIST,
        SESSION,
        "/openshell.plus.v1.OpenShellPlus/GetLife",
        "/x",
    ] {
        assert_eq!(g.ask(&call(path)), Err(Code::Unauthenticated), "{path}");
    }
}

#[test]
fn a_certificate_makes_a_user_who_is_no_supervisor() {
    let g = Gateway::new();
    assert!(matches!(
        g.ask(&with_certificate(LIST)),
        Ok(Caller::User { subject, .. }) if subject == "ada"
    ));
    assert_eq!(
        g.ask(&with_certificate(SESSION)),
        Err(Code::PermissionDenied)
    );
}

#[test]
fn a_runs_token_opens_its_session_and_nothing_else() {
    let g = Gateway::new();
    let token = g.token(Audience::Gateway, 0);
    assert!(matches!(
        g.ask(&with_token(SESSION, &token)),
        Ok(Caller::Supervisor(_))
    ));
    assert_eq!(
        g.ask(&with_token(LIST, &token)),
        Err(Code::PermissionDenied)
    );
}

#[test]
fn expired_foreign_and_malformed_tokens_are_refused_even_beside_a_certificate() {
    let g = Gateway::new();
    let bad = [
        g.token(Audience::Gateway, NOW - 60),
        g.token(Audience::Sandbox, 0),
        Gateway::new().token(Audience::Gateway, 0),
        "nonsense".to_owned(),
        String::new(),
    ];
    for token in bad {
        let mut request = with_token(SESSION, &token);
        request.extensions_mut().insert(PeerIdentity {
            subject: "ada".to_owned(),
        });
        assert_eq!(g.ask(&request), Err(Code::Unauthenticated), "{token}");
    }
}

#[test]
fn without_tls_everybody_is_a_user_only_where_that_is_allowed() {
    let mut g = Gateway::new();
    g.config.allow_unauthenticated_users = true;
    assert!(matches!(g.ask(&call(LIST)), Ok(Caller::User { .. })));
    assert_eq!(g.ask(&call(SESSION)), Err(Code::PermissionDenied));
}
