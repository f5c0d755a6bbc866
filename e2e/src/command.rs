//! Running other programs: bounded in time, with their whole output, and with errors that say what was run.

use std::fmt::Write as _;
use std::io::Write as _;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use rustix::process::{Pid, Signal};

/// No command of the harness takes longer, unless it says so.
pub const DEFAULT_LIMIT: Duration = Duration::from_secs(120);

/// How a program ended, and what it said.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The command line, for messages.
    pub line: String,
    /// Its exit code; 128+n for a signal.
    pub code: i32,
    /// What it wrote to stdout.
    pub stdout: Vec<u8>,
    /// What it wrote to stderr.
    pub stderr: Vec<u8>,
}

impl Outcome {
    /// Stdout as text, without the final line end.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).trim_end().to_owned()
    }

    /// Stderr as text.
    pub fn errors(&self) -> String {
        String::from_utf8_lossy(&self.stderr).trim_end().to_owned()
    }

    /// Stdout as JSON.
    ///
    /// # Errors
    /// When it is none.
    pub fn json(&self) -> Result<serde_json::Value> {
        serde_json::from_slice(&self.stdout)
            .with_context(|| format!("`{}` printed no JSON: {}", self.line, self.text()))
    }

    /// Turns anything but exit code 0 into an error with everything that was said.
    ///
    /// # Errors
    /// When the exit code is not 0.
    pub fn success(self) -> Result<Self> {
        if self.code == 0 {
            return Ok(self);
        }
        bail!(
            "`{}` ended with {}\n{}{}",
            self.line,
            self.code,
            self.text(),
            self.errors()
        )
    }
}

/// The command line as a person would type it.
pub fn line(command: &Command) -> String {
    let mut text = String::new();
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    for (index, word) in words.enumerate() {
        let word = word.to_string_lossy();
        if index > 0 {
            text.push(' ');
        }
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,@+%".contains(c);
        if !word.is_empty() && word.chars().all(plain) {
            text.push_str(&word);
        } else {
            // Writing to a string does not fail.
            let _ = write!(text, "'{}'", word.replace('\'', r"'\''"));
        }
    }
    text
}

/// Runs a program to its end and gives what it said, whatever its exit code.
///
/// # Errors
/// When it cannot be started, or does not end in time (it is killed then).
pub fn run(command: &mut Command) -> Result<Outcome> {
    run_with(command, &[], DEFAULT_LIMIT)
}

/// As [`run`], and fails unless the exit code is 0.
///
/// # Errors
/// See [`run`] and [`Outcome::success`].
pub fn ok(command: &mut Command) -> Result<Outcome> {
    run(command)?.success()
}

/// As [`run`], with bytes for stdin and a limit of its own.
///
/// # Errors
/// See [`run`].
pub fn run_with(command: &mut Command, stdin: &[u8], limit: Duration) -> Result<Outcome> {
    let text = line(command);
    command
        .stdin(if stdin.is_empty() {
            Stdio::null()
        } else {
            Stdio::piped()
        })
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command
        .spawn()
        .with_context(|| format!("`{text}` could not be started"))?;
    let pid = Pid::from_child(&child);
    let pipe = child.stdin.take();
    let (ended, watch) = mpsc::channel::<()>();
    std::thread::scope(|scope| {
        let watchdog = scope.spawn(move || {
            let late = watch.recv_timeout(limit) == Err(mpsc::RecvTimeoutError::Timeout);
            if late {
                // The child has not been waited for, so the id is still its own.
                let _ = rustix::process::kill_process(pid, Signal::KILL);
            }
            late
        });
        if let Some(mut pipe) = pipe {
            scope.spawn(move || {
                // A program need not read all that it is offered.
                let _ = pipe.write_all(stdin);
            });
        }
        let output = child.wait_with_output();
        drop(ended);
        let late = watchdog.join().unwrap_or(false);
        let output = output.with_context(|| format!("`{text}` could not be waited for"))?;
        if late {
            bail!(
                "`{text}` did not end within {} s\n{}{}",
                limit.as_secs(),
                String::from_utf8_lossy(&output.stdout),
                String::from_utf8_lossy(&output.stderr)
            );
        }
        Ok(Outcome {
            line: text.clone(),
            code: exit_code(output.status),
            stdout: output.stdout,
            stderr: output.stderr,
        })
    })
}

/// The exit code as a shell has it.
pub fn exit_code(status: std::process::ExitStatus) -> i32 {
    use std::os::unix::process::ExitStatusExt as _;
    status
        .code()
        .unwrap_or_else(|| 128 + status.signal().unwrap_or(0))
}
