//! Tests of the rules about addresses: tables of cases.

use super::*;

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

const OPEN: Leave<'_> = Leave {
    exact: false,
    allowed: &[],
    gateway_host: false,
};

#[test]
fn some_addresses_are_never_reached_whatever_a_policy_says() {
    let everything = [
        Network {
            base: ip("0.0.0.0"),
            prefix: 0,
        },
        Network {
            base: ip("::"),
            prefix: 0,
        },
    ];
    for (address, kind) in [
        ("127.0.0.1", Never::Loopback),
        ("127.255.255.254", Never::Loopback),
        ("::1", Never::Loopback),
        ("169.254.0.1", Never::LinkLocal),
        ("169.254.169.254", Never::Metadata),
        ("100.100.100.200", Never::Metadata),
        ("168.63.129.16", Never::Metadata),
        ("192.0.0.192", Never::Metadata),
        ("fd00:ec2::254", Never::Metadata),
        ("fe80::1", Never::LinkLocal),
        ("febf::1", Never::LinkLocal),
        ("fec0::1", Never::Reserved),
        ("0.0.0.0", Never::Unspecified),
        ("0.1.2.3", Never::Unspecified),
        ("::", Never::Unspecified),
        ("224.0.0.1", Never::Multicast),
        ("239.255.255.255", Never::Multicast),
        ("ff02::1", Never::Multicast),
        ("240.0.0.1", Never::Reserved),
        ("255.255.255.255", Never::Reserved),
        ("::ffff:127.0.0.1", Never::Mapped),
        ("::ffff:8.8.8.8", Never::Mapped),
        ("::ffff:169.254.169.254", Never::Mapped),
        ("::7f00:1", Never::Mapped),
        ("::ffff:0:7f00:1", Never::Mapped),
        ("64:ff9b::7f00:1", Never::Mapped),
        ("64:ff9b:1::a00:1", Never::Mapped),
        ("2002:7f00:1::", Never::Mapped),
        ("2001::1", Never::Mapped),
    ] {
        let leave = Leave {
            exact: true,
            allowed: &everything,
            gateway_host: false,
        };
        for leave in [OPEN, leave] {
            assert_eq!(
                admit(ip(address), leave),
                Err(Refusal::Never(ip(address), kind)),
                "{address}"
            );
        }
    }
}

#[test]
fn private_addresses_need_an_exact_host_or_a_network_that_allows_them() {
    for address in [
        "10.0.0.1",
        "172.16.0.1",
        "172.31.255.255",
        "192.168.1.1",
        "100.64.0.1",
        "100.127.255.255",
        "192.0.0.1",
        "192.0.2.1",
        "198.18.0.1",
        "198.19.255.255",
        "198.51.100.1",
        "203.0.113.1",
        "fc00::1",
        "fdff::1",
        "2001:db8::1",
    ] {
        let address = ip(address);
        assert_eq!(admit(address, OPEN), Err(Refusal::Private(address)));
        assert_eq!(
            admit(
                address,
                Leave {
                    exact: true,
                    ..OPEN
                }
            ),
            Ok(())
        );
        let own = [Network {
            base: address,
            prefix: width(address),
        }];
        assert_eq!(
            admit(
                address,
                Leave {
                    allowed: &own,
                    ..OPEN
                }
            ),
            Ok(())
        );
    }
    for address in [
        "8.8.8.8",
        "172.32.0.1",
        "100.63.255.255",
        "100.128.0.1",
        "198.20.0.1",
        "2606:4700::1",
    ] {
        assert_eq!(admit(ip(address), OPEN), Ok(()), "{address}");
    }
}

#[test]
fn allowed_ips_leave_nothing_else() {
    let allowed = [Network::parse("10.0.0.0/8").unwrap()];
    let leave = Leave {
        exact: true,
        allowed: &allowed,
        gateway_host: false,
    };
    assert_eq!(admit(ip("10.9.9.9"), leave), Ok(()));
    for other in ["11.0.0.1", "8.8.8.8", "192.168.0.1", "2606:4700::1"] {
        assert_eq!(admit(ip(other), leave), Err(Refusal::NotAllowed(ip(other))));
    }
}

#[test]
fn the_machine_of_the_gateway_is_reached_on_its_loopback_and_never_on_its_link() {
    let leave = Leave {
        gateway_host: true,
        ..OPEN
    };
    assert_eq!(admit(ip("127.0.0.1"), leave), Ok(()));
    assert_eq!(admit(ip("::1"), leave), Ok(()));
    for address in ["169.254.169.254", "0.0.0.0", "::ffff:127.0.0.1"] {
        assert!(admit(ip(address), leave).is_err(), "{address}");
    }
}

#[test]
fn a_network_contains_what_its_prefix_says() {
    for (network, address, inside) in [
        ("10.0.0.0/8", "10.255.255.255", true),
        ("10.0.0.0/8", "11.0.0.0", false),
        ("10.1.2.3", "10.1.2.3", true),
        ("10.1.2.3", "10.1.2.4", false),
        ("0.0.0.0/0", "8.8.8.8", true),
        ("0.0.0.0/0", "::1", false),
        ("192.168.0.0/31", "192.168.0.1", true),
        ("2001:db8::/32", "2001:db8:ffff::1", true),
        ("2001:db8::/32", "2001:db9::1", false),
        ("::/0", "10.0.0.1", false),
    ] {
        let network = Network::parse(network).unwrap();
        assert_eq!(network.contains(ip(address)), inside, "{network} {address}");
        assert_eq!(Network::parse(&network.to_string()), Ok(network));
    }
}

#[test]
fn what_is_no_network_or_could_never_be_reached_is_refused() {
    for text in [
        "",
        "/8",
        "10.0.0.0/",
        "10.0.0.0/33",
        "10.0.0.0/-1",
        "10.0.0.0/+8",
        "10.0.0.0/999",
        "10.0.0.1/8",
        "::/129",
        "example.com",
        "10.0.0",
        "127.0.0.0/8",
        "127.0.0.1",
        "::1",
        "169.254.0.0/24",
        "169.254.169.254",
        "fe80::/10",
        "0.0.0.0",
        "0.0.0.0/8",
        "::ffff:0:0/96",
        "::ffff:10.0.0.1",
        "224.0.0.0/4",
        "64:ff9b::/96",
        "10.0.0.0/8/8",
    ] {
        assert!(Network::parse(text).is_err(), "{text}");
    }
}
