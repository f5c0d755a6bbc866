//! What a token proves, and what it does not.

use super::*;

fn claims(aud: Audience, iat: i64, exp: i64) -> Claims {
    Claims {
        iss: "openshell-gateway:test".into(),
        aud,
        sandbox_id: SandboxId::from_uuid(uuid::Uuid::nil()),
        generation: Generation(3),
        iat,
        exp,
        jti: "1".into(),
    }
}

fn signer() -> Signer {
    Signer::from_pkcs8(&Signer::generate_pkcs8().unwrap()).unwrap()
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

#[test]
fn a_token_is_good_for_its_audience_only() {
    let s = signer();
    let c = claims(Audience::Gateway, 100, 0);
    let t = s.sign(&c).unwrap();
    assert_eq!(
        verify(s.public_key(), &t, Audience::Gateway, at(100)),
        Ok(c)
    );
    assert_eq!(
        verify(s.public_key(), &t, Audience::Sandbox, at(100)),
        Err(TokenError::WrongAudience)
    );
}

#[test]
fn a_token_of_a_foreign_key_or_with_one_bit_changed_is_refused() {
    let s = signer();
    let t = s.sign(&claims(Audience::Sandbox, 100, 0)).unwrap();
    assert_eq!(
        verify(signer().public_key(), &t, Audience::Sandbox, at(100)),
        Err(TokenError::BadSignature)
    );
    for i in 0..t.len() {
        let mut b = t.clone().into_bytes();
        b[i] ^= 1;
        if let Ok(t2) = String::from_utf8(b) {
            assert!(
                verify(s.public_key(), &t2, Audience::Sandbox, at(100)).is_err(),
                "byte {i}"
            );
        }
    }
}

#[test]
fn a_token_ends_when_it_says() {
    let s = signer();
    let t = s.sign(&claims(Audience::Gateway, 100, 200)).unwrap();
    assert!(verify(s.public_key(), &t, Audience::Gateway, at(229)).is_ok());
    assert_eq!(
        verify(s.public_key(), &t, Audience::Gateway, at(231)),
        Err(TokenError::Expired)
    );
    assert_eq!(
        verify(s.public_key(), &t, Audience::Gateway, at(69)),
        Err(TokenError::NotYetValid)
    );
}

#[test]
fn a_link_proof_needs_the_secret_and_every_part() {
    let p = link_proof(b"secret", b"nonce", "instance", "token");
    assert!(verify_link_proof(
        b"secret", b"nonce", "instance", "token", &p
    ));
    assert!(!verify_link_proof(
        b"other", b"nonce", "instance", "token", &p
    ));
    assert!(!verify_link_proof(
        b"secret", b"nonce2", "instance", "token", &p
    ));
    assert!(!verify_link_proof(
        b"secret", b"nonce", "instanc", "token", &p
    ));
    assert!(!verify_link_proof(
        b"secret", b"nonce", "instance", "token2", &p
    ));
}
