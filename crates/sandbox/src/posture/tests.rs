//! Postures that are good and that are not.

use super::facts::{network_faults, privilege_faults};
use super::*;

const GOOD: &str = "Name:\tx\nCapInh:\t0000000000000000\nCapPrm:\t0000000000000000\nCapEff:\t0000000000000000\n\
    CapBnd:\t0000000000000000\nCapAmb:\t0000000000000000\nNoNewPrivs:\t1\nSeccomp:\t2\n";
const DEVICES: &str =
    "Inter-|   Receive |  Transmit\n face |bytes|bytes\n    lo:       0       0\n";
const NO_ROUTES: &str = "Iface\tDestination\tGateway\n";

#[test]
fn no_capability_and_no_new_privileges_is_the_floor() {
    assert!(privilege_faults(GOOD, 1000).is_empty());
    let bounding = GOOD.replace("CapBnd:\t0000000000000000", "CapBnd:\t00000000a80425fb");
    assert!(privilege_faults(&bounding, 1000)[0].contains("CapBnd"));
    let privileged = GOOD.replace("NoNewPrivs:\t1", "NoNewPrivs:\t0");
    assert!(privilege_faults(&privileged, 1000)[0].contains("no-new-privileges"));
    assert_eq!(privilege_faults(GOOD, 0).len(), 1);
    assert_eq!(privilege_faults("", 1000).len(), 6);
}

#[test]
fn only_lo_and_no_route_is_isolation() {
    let six = "00000000000000000000000000000001 80 0 00 0 00000000 00000002 00000000 80200001 lo\n";
    assert!(network_faults(DEVICES, NO_ROUTES, six).is_empty());
    let more = format!("{DEVICES}  eth0: 1 1\n");
    assert!(network_faults(&more, NO_ROUTES, six)[0].contains("eth0"));
    let routed = format!("{NO_ROUTES}eth0\t00000000\t0100A8C0\n");
    assert_eq!(network_faults(DEVICES, &routed, six), ["1 routes lead out"]);
    assert_eq!(network_faults("", "", ""), ["there is no lo"]);
}

#[test]
fn faults_name_the_property_and_what_is_missing() {
    let mut posture = Posture {
        properties: vec![Property::held(NETWORK, "only lo")],
        uid: 1,
        gid: 1,
        landlock_abi: 7,
    };
    assert_eq!(posture.faults(), "");
    posture.set(Property::missing(NETWORK, "there is the interface eth0"));
    assert_eq!(
        posture.faults(),
        "network_isolation: there is the interface eth0"
    );
}
