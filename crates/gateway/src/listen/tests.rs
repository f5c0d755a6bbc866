//! Who holds a port.

use super::*;

#[tokio::test]
async fn a_port_in_use_names_its_holder_and_the_key_to_change() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let error = bind(address, "bind_address").await.unwrap_err().to_string();
    assert!(error.contains(&address.to_string()), "{error}");
    assert!(error.contains("choose another bind_address"), "{error}");
    if cfg!(target_os = "linux") {
        let us = format!("(process {})", std::process::id());
        assert!(error.contains(&us), "{error}");
    }
}

#[tokio::test]
async fn an_address_of_another_machine_is_refused_with_the_systems_words() {
    let error = bind("192.0.2.1:0".parse().unwrap(), "bind_address")
        .await
        .unwrap_err();
    assert!(matches!(error, ListenError::Failed { .. }), "{error}");
}
