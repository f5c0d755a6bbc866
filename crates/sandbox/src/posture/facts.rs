//! Reads what the kernel says of this process and of its network. Pure: text in, faults out.

/// Capability sets of `/proc/self/status`; each must be empty.
const SETS: [&str; 5] = ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"];

/// What is wrong with our privileges.
pub(super) fn privilege_faults(status: &str, uid: u32) -> Vec<String> {
    let field = |name: &str| {
        status
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
            .map(str::trim)
    };
    let mut faults = Vec::new();
    for set in SETS {
        match field(set).map(|v| u64::from_str_radix(v, 16)) {
            Some(Ok(0)) => {}
            Some(Ok(bits)) => faults.push(format!("{set} holds {bits:#x} where none is allowed")),
            _ => faults.push(format!("{set} cannot be read from /proc/self/status")),
        }
    }
    if field("NoNewPrivs") != Some("1") {
        faults.push("no-new-privileges is not set".to_owned());
    }
    if uid == 0 {
        faults.push("this is root".to_owned());
    }
    faults
}

/// What is wrong with our network: anything beside `lo`, any route that leaves it.
pub(super) fn network_faults(devices: &str, routes: &str, routes6: &str) -> Vec<String> {
    let mut faults = Vec::new();
    let names: Vec<&str> = devices
        .lines()
        .filter_map(|line| line.split_once(':'))
        .map(|(name, _)| name.trim())
        .collect();
    if !names.contains(&"lo") {
        faults.push("there is no lo".to_owned());
    }
    for name in names.iter().filter(|n| **n != "lo") {
        faults.push(format!("there is the interface {name}"));
    }
    let outside =
        |line: &&str, device: Option<&str>| device.is_some_and(|d| d != "lo") && !line.is_empty();
    let v4 = routes
        .lines()
        .skip(1)
        .filter(|l| outside(l, l.split_whitespace().next()))
        .count();
    let v6 = routes6
        .lines()
        .filter(|l| outside(l, l.split_whitespace().last()))
        .count();
    if v4 + v6 > 0 {
        faults.push(format!("{} routes lead out", v4 + v6));
    }
    faults
}
