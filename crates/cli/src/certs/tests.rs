//! Certificates in words.

use super::*;

fn certificate(from: (i32, u8), until: (i32, u8)) -> String {
    let mut params = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    params.not_before = rcgen::date_time_ymd(from.0, from.1, 1);
    params.not_after = rcgen::date_time_ymd(until.0, until.1, 1);
    let key = rcgen::KeyPair::generate().unwrap();
    params.self_signed(&key).unwrap().pem()
}

#[test]
fn an_expired_certificate_is_told_with_its_date() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("tls.crt");
    fs::write(&path, certificate((2001, 1), (2002, 1))).unwrap();
    let why = invalid_now(&path).unwrap();
    assert!(why.contains("expired on 2002-01-01"), "{why}");
}

#[test]
fn a_certificate_of_the_future_points_at_the_clock() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("tls.crt");
    fs::write(&path, certificate((4000, 1), (4001, 1))).unwrap();
    assert!(invalid_now(&path).unwrap().contains("clock"));
}

#[test]
fn a_valid_certificate_is_not_complained_about_and_a_foreign_file_is() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("tls.crt");
    fs::write(&path, certificate((2001, 1), (4000, 1))).unwrap();
    assert_eq!(invalid_now(&path), None);
    fs::write(&path, "hello").unwrap();
    assert!(invalid_now(&path).unwrap().contains("PEM"));
    assert!(
        invalid_now(&dir.path().join("none"))
            .unwrap()
            .contains("No such file")
    );
}
