//! Choices that a seed decides, so that a run can be had again.

/// xorshift64.
#[derive(Clone, Debug)]
pub struct Choices(u64);

impl Choices {
    /// Those of a seed.
    pub fn new(seed: u64) -> Self {
        let mut choices = Self(seed | 1);
        // The first few values still look like the seed.
        for _ in 0..16 {
            choices.below(2);
        }
        choices
    }

    /// A number below this one.
    pub const fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % n
    }

    /// One of so many.
    pub fn index(&mut self, n: usize) -> usize {
        usize::try_from(self.below(n as u64)).unwrap_or(0)
    }

    /// One of these; there must be one.
    pub fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.index(all.len())]
    }
}
