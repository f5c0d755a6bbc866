//! The properties that a sandbox must confirm as enforced before it may be Ready. Both the supervisor and the
//! gateway hold a measured posture against this list.

/// By name, as the sandbox runtime reports them.
pub const REQUIRED: [&str; 5] = [
    "filesystem_confinement",
    "egress_interception",
    "request_attribution",
    "privilege_floor",
    "network_isolation",
];

/// What is missing from a measured posture, given as (name, enforced): every required property that is absent,
/// and everything reported as not enforced. Empty means that all is confirmed.
pub fn missing<'a>(properties: impl IntoIterator<Item = (&'a str, bool)>) -> Vec<String> {
    let mut absent: Vec<&str> = REQUIRED.to_vec();
    let mut missing = Vec::new();
    for (name, enforced) in properties {
        absent.retain(|required| *required != name);
        if !enforced {
            missing.push(name.to_owned());
        }
    }
    missing.extend(absent.into_iter().map(str::to_owned));
    missing
}

#[cfg(test)]
mod tests;
