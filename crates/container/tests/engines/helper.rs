//! Stands in for both runtime halves in the tests of the driver: reads its bootstrap, as they do, then does
//! what the link secret says (`run`, or `exit:N`). Exits with 90 and more if anything is not as promised.

use std::io::Read;
use std::process::exit;
use std::time::Duration;

fn main() {
    let supervisor = std::env::args()
        .next()
        .is_some_and(|name| name.ends_with("supervisor"));
    let mut bootstrap = String::new();
    if std::io::stdin().read_to_string(&mut bootstrap).is_err() || bootstrap.is_empty() {
        exit(90)
    }
    println!("the stand-in begins");
    if supervisor {
        // Listens where the sandbox dials, and can write nowhere else.
        if std::os::unix::net::UnixListener::bind("/.openshell/link/test.sock").is_err() {
            exit(92)
        }
        if std::fs::write("/written", b"x").is_ok() {
            exit(93)
        }
    } else {
        if std::fs::write("/sandbox/started", b"yes").is_err() {
            exit(94)
        }
        if std::fs::write("/.openshell/bin/openshell-sandbox", b"x").is_ok() {
            exit(95)
        }
        // Programs ask 127.0.0.1 then, or are pointed to the runtime's other address.
        let resolver = std::fs::read_to_string("/etc/resolv.conf").unwrap_or_default();
        if !["", "nameserver 127.0.0.53\n"].contains(&resolver.as_str()) {
            exit(96)
        }
        let Ok(interfaces) = std::fs::read_to_string("/proc/net/dev") else {
            exit(97)
        };
        // Two lines of headings, and `lo`.
        if interfaces.lines().count() != 3 || !interfaces.contains(" lo:") {
            exit(98)
        }
    }
    let order = bootstrap
        .split("\"link_secret\":\"")
        .nth(1)
        .and_then(|rest| rest.split('"').next())
        .unwrap_or_default();
    if let Some(code) = order.strip_prefix("exit:") {
        exit(code.parse().unwrap_or(99))
    }
    // PID 1 without a handler: the kernel lets TERM pass by.
    loop {
        std::thread::sleep(Duration::from_secs(3600));
    }
}
