//! Where the runtime's binaries are found.

use std::fs;

use super::*;

#[test]
fn runtimes_are_found_in_libexec_then_beside_the_gateway_or_where_one_says() {
    let dir = tempfile::tempdir().unwrap();
    let exe = dir.path().join("bin/openshell-gateway");
    let put = |dir: &Path| {
        fs::create_dir_all(dir).unwrap();
        for name in ["openshell-sandbox", "openshell-supervisor"] {
            fs::write(dir.join(name), "").unwrap();
        }
    };
    let error = runtimes(None, &exe).unwrap_err().to_string();
    assert!(error.contains("libexec/openshell or "), "{error}");
    assert!(error.contains("--runtime-dir"), "{error}");

    put(&dir.path().join("bin"));
    let found = runtimes(None, &exe).unwrap();
    assert_eq!(found.sandbox, dir.path().join("bin/openshell-sandbox"));

    let libexec = dir.path().join("libexec/openshell");
    put(&libexec);
    assert_eq!(
        runtimes(None, &exe).unwrap().supervisor,
        libexec.join("openshell-supervisor")
    );

    let other = dir.path().join("other");
    assert!(runtimes(Some(&other), &exe).is_err());
    put(&other);
    assert_eq!(
        runtimes(Some(&other), &exe).unwrap().sandbox,
        other.join("openshell-sandbox")
    );
}
