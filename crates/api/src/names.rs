//! Names for sandboxes whose users gave none: `calm-otter-3f2a`.

use openshell_core::SandboxName;

const ADJECTIVES: [&str; 32] = [
    "able", "airy", "apt", "brave", "brisk", "calm", "clear", "cosy", "deft", "eager", "early",
    "fair", "fleet", "fond", "fresh", "glad", "grand", "keen", "kind", "light", "lucid", "merry",
    "mild", "neat", "noble", "quick", "quiet", "rapid", "sage", "sunny", "swift", "warm",
];
const NOUNS: [&str; 32] = [
    "acorn", "badger", "beacon", "birch", "brook", "cedar", "comet", "crane", "dune", "ember",
    "falcon", "fern", "finch", "fjord", "grove", "harbor", "heron", "lark", "lynx", "maple",
    "meadow", "otter", "pebble", "pine", "plover", "raven", "reef", "robin", "spruce", "tern",
    "willow", "wren",
];

/// A name from random bits.
pub(crate) fn random() -> SandboxName {
    from_bits(uuid::Uuid::new_v4().as_u64_pair().1)
}

/// The name of a request that may come again: the same for the same id (FNV-1a).
pub(crate) fn of_request(id: &str) -> SandboxName {
    let bits = id.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    from_bits(bits)
}

fn from_bits(bits: u64) -> SandboxName {
    let pick = |words: &[&'static str; 32], shift: u32| words[(bits >> shift) as usize % 32];
    let name = format!(
        "{}-{}-{:04x}",
        pick(&ADJECTIVES, 16),
        pick(&NOUNS, 24),
        bits as u16
    );
    SandboxName::new(name).expect("at most 16 characters of a-z, 0-9 and '-', none at an edge")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_generated_name_is_a_name_and_a_request_has_one_only() {
        for shift in 0..64 {
            from_bits(1 << shift);
            from_bits(!(1 << shift));
        }
        assert_eq!(of_request("a"), of_request("a"));
        assert_ne!(of_request("a"), of_request("b"));
        assert_ne!(random(), random());
    }
}
