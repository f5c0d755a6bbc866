//! Which addresses are accepted.

use super::*;

#[test]
fn plaintext_is_accepted_on_loopback_only() {
    for good in [
        "https://gw.example:443",
        "http://127.0.0.1:17670",
        "http://[::1]:1",
        "http://localhost:1",
    ] {
        assert!(check_endpoint(good).is_ok(), "{good}");
    }
    for bad in [
        "",
        "127.0.0.1:17670",
        "http://10.0.0.1:1",
        "http://gw.example",
        "ftp://127.0.0.1",
        "https://",
        "x y",
    ] {
        assert_eq!(check_endpoint(bad).unwrap_err().exit, Exit::Usage, "{bad}");
    }
}
