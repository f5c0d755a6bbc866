//! Timed runs of commands.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use openshell_e2e::command as run;

/// How long each took.
#[derive(Default)]
pub(super) struct Samples(Vec<Duration>);

impl Samples {
    /// Runs a command, which must succeed, and keeps the time of the whole process if it counts.
    pub(super) fn time(&mut self, counted: bool, command: &mut Command) -> Result<()> {
        let text = run::line(command);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let started = Instant::now();
        let output = command
            .spawn()
            .and_then(std::process::Child::wait_with_output);
        let took = started.elapsed();
        let output = output.with_context(|| format!("`{text}` could not be run"))?;
        if !output.status.success() {
            bail!(
                "`{text}` failed: {}",
                String::from_utf8_lossy(&output.stderr)
            );
        }
        if counted {
            self.0.push(took);
        }
        Ok(())
    }

    /// The median, in milliseconds.
    pub(super) fn median(&self) -> f64 {
        median(self.0.iter().map(|time| time.as_secs_f64() * 1e3).collect())
    }
}

/// The middle value; of an even number, the mean of the two.
pub(super) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => f64::NAN,
        odd if odd % 2 == 1 => values[middle],
        _ => f64::midpoint(values[middle - 1], values[middle]),
    }
}
