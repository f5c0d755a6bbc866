//! Time in the model: only the order of what happened counts, so moments are small numbers that are closed up
//! when one of them is forgotten; and equal situations at other times are one.

use openshell_core::Timestamp;

/// A moment, by its place in the order of all that are remembered.
pub(super) type Tick = u8;

/// Later than everything: since then a run has not lived long.
pub(super) const RECENTLY: i64 = BASE + 1_000_000;
/// Earlier than everything: since then a run has lived long.
pub(super) const LONG_AGO: i64 = BASE - 86_400;
/// Where the moment does not matter: long after `LONG_AGO`, before every tick.
pub(super) const SOME_TIME: i64 = BASE - 40_000;

const BASE: i64 = 1_767_225_600;
/// More than a moment apart.
const GAP: i64 = 2;

pub(super) fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap_or(Timestamp::UNIX_EPOCH)
}

pub(super) fn moment(tick: Tick) -> Timestamp {
    at(BASE + GAP * i64::from(tick))
}

/// The tick of a moment, if it is one.
pub(super) fn tick(time: Timestamp) -> Option<Tick> {
    let since = time.as_second() - BASE;
    (0..GAP * 64)
        .contains(&since)
        .then(|| u8::try_from(since / GAP).unwrap_or(u8::MAX))
}

/// Whether a run that has been up since then counts as one that has lived.
pub(super) fn is_long_ago(time: Timestamp) -> bool {
    time == at(LONG_AGO)
}

/// Which ticks are remembered.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Ticks(pub(super) u64);

impl Ticks {
    pub(super) fn add(&mut self, tick: Tick) {
        self.0 |= 1 << tick;
    }

    /// Without gaps from 0.
    pub(super) const fn closed(self) -> bool {
        self.0 & (self.0.wrapping_add(1)) == 0
    }

    pub(super) const fn count(self) -> u32 {
        self.0.count_ones()
    }

    /// Where a tick goes when the gaps are closed.
    pub(super) fn rank(self, tick: Tick) -> Tick {
        let below = self.0 & ((1_u64 << tick) - 1);
        u8::try_from(below.count_ones()).unwrap_or(u8::MAX)
    }
}
