//! Running a test runner and counting from its own words.

use std::io::BufReader;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result};
use openshell_e2e::command as run;

use crate::say;

/// Passed and failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
}

impl Tally {
    pub(crate) fn add(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
    }
}

/// Runs the command, shows its output line by line, and counts. A run that fails without a failed test (it did
/// not compile, it was killed) counts as one failure.
pub(crate) fn count(command: &mut Command) -> Result<Tally> {
    let text = run::line(command);
    say::command(&text);
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("`{text}` could not be started"))?;
    let pipes = (child.stdout.take(), child.stderr.take());
    let (stdout, stderr) = (pipes.0.context("no stdout")?, pipes.1.context("no stderr")?);
    let mut tally = std::thread::scope(|scope| {
        let other = scope.spawn(|| read(BufReader::new(stdout)));
        let mut tally = read(BufReader::new(stderr));
        tally.add(other.join().unwrap_or_default());
        tally
    });
    let status = child.wait()?;
    if !status.success() && tally.failed == 0 {
        tally.failed = 1;
    }
    Ok(tally)
}

fn read(lines: impl std::io::BufRead) -> Tally {
    let mut tally = Tally::default();
    for line in lines.split(b'\n').map_while(Result::ok) {
        let line = String::from_utf8_lossy(&line);
        say::line(&line);
        if let Some(counted) = parse(&line) {
            tally.add(counted);
        }
    }
    tally
}

/// A summary line of cargo-nextest, of `cargo test`, or of one of our own runners.
fn parse(line: &str) -> Option<Tally> {
    let ours = line.contains("tests run: ")
        || line.starts_with("test result: ")
        || line.starts_with("model: ")
        || line.starts_with("sim: ")
        || line.starts_with("sdk: ");
    if !ours {
        return None;
    }
    let before = |word: &str| -> u64 {
        let words: Vec<&str> = line
            .split([' ', ',', ';', ':'])
            .filter(|w| !w.is_empty())
            .collect();
        let at = words.iter().position(|candidate| *candidate == word);
        at.and_then(|at| words.get(at.checked_sub(1)?)?.parse().ok())
            .unwrap_or(0)
    };
    Some(Tally {
        passed: before("passed"),
        failed: before("failed") + before("timed"),
    })
}

#[cfg(test)]
mod tests;
