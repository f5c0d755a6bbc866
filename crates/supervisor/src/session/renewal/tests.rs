//! When a token is renewed.

use std::time::Duration;

use openshell_core::token::{Audience, Claims, Signer};
use openshell_core::{Generation, SandboxId};

use super::{claims, due};

fn of(iat: i64, exp: i64) -> Claims {
    Claims {
        iss: "openshell-gateway:test".to_owned(),
        aud: Audience::Gateway,
        sandbox_id: SandboxId::random(),
        generation: Generation(1),
        iat,
        exp,
        jti: "a".to_owned(),
    }
}

#[test]
fn a_token_is_renewed_after_two_thirds_of_its_life_and_at_once_if_that_is_past() {
    let token = of(1000, 1900);
    assert_eq!(due(&token, 1000), Some(Duration::from_secs(600)));
    assert_eq!(due(&token, 1599), Some(Duration::from_secs(1)));
    assert_eq!(due(&token, 5000), Some(Duration::ZERO));
}

#[test]
fn a_token_that_ends_with_its_run_is_not_renewed() {
    assert_eq!(due(&of(1000, 0), 5000), None);
}

#[test]
fn the_claims_are_those_of_the_token_and_junk_has_none() {
    let signer = Signer::from_pkcs8(&Signer::generate_pkcs8().unwrap()).unwrap();
    let expected = of(1, 2);
    assert_eq!(claims(&signer.sign(&expected).unwrap()), Some(expected));
    for junk in ["", "a.b.c", "a", "a.e30.c"] {
        assert_eq!(claims(junk), None);
    }
}
