//! A main process that notes the time ten times a second, and what its notes say about a gap in its life.

/// Where it notes the time, as seconds since boot: one clock for the host and for everything inside.
pub const TICKS: &str = "/sandbox/ticks";
/// Where it notes that it was started.
pub const BOOTS: &str = "/sandbox/boots";

/// The main process.
pub const MAIN: [&str; 3] = [
    "sh",
    "-c",
    "echo run >> /sandbox/boots; while :; do read now rest < /proc/uptime; echo $now >> /sandbox/ticks; usleep 100000; done",
];

/// What it has noted.
#[derive(Clone, Debug, Default)]
pub struct Ticks(Vec<f64>);

impl Ticks {
    /// From the file's text; a line that is being written does not count.
    pub fn parse(text: &str) -> Self {
        let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
        Self(whole.lines().filter_map(|line| line.parse().ok()).collect())
    }

    /// The longest time without a note, in seconds.
    pub fn largest_gap(&self) -> f64 {
        let gaps = self.0.windows(2).map(|pair| pair[1] - pair[0]);
        gaps.fold(0.0, f64::max)
    }

    /// The last note; 0 if there is none.
    pub fn last(&self) -> f64 {
        self.0.last().copied().unwrap_or(0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::Ticks;

    #[test]
    fn the_largest_gap_is_between_whole_notes() {
        let ticks = Ticks::parse("1.00\n1.10\n3.60\n3.70\n9");
        assert!((ticks.largest_gap() - 2.5).abs() < 1e-9);
        assert!((ticks.last() - 3.7).abs() < 1e-9);
        assert!(Ticks::parse("").largest_gap() < 1e-9);
    }
}
