//! Where a forward may lead.

use super::*;

fn open(host: &str, port: u32) -> ForwardOpen {
    ForwardOpen {
        host: host.to_owned(),
        port,
    }
}

#[test]
fn a_forward_leads_to_this_host_only() {
    for host in ["", "localhost", "127.0.0.1", "127.8.8.8", "::1"] {
        assert!(targets(&open(host, 80)).is_ok(), "{host}");
    }
    for host in [
        "192.0.2.1",
        "0.0.0.0",
        "::",
        "example.com",
        "169.254.169.254",
    ] {
        assert!(targets(&open(host, 80)).is_err(), "{host}");
    }
    for port in [0, 65536, u32::MAX] {
        assert!(targets(&open("localhost", port)).is_err(), "{port}");
    }
}
