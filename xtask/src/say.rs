//! What a task tells the person who runs it.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "the output of a task is its purpose"
)]

use std::time::Duration;

/// A headline.
pub(crate) fn step(text: &str) {
    println!("\n\u{2500}\u{2500} {text}");
}

/// A line of its own.
pub(crate) fn line(text: &str) {
    println!("{text}");
}

/// A command that is about to be run.
pub(crate) fn command(text: &str) {
    println!("\n$ {text}");
}

/// What something took.
pub(crate) fn took(what: &str, time: Duration) {
    println!("   {what}: {:.1} s", time.as_secs_f32());
}

/// Why a task did not do what it is for.
pub(crate) fn error(error: &anyhow::Error) {
    eprintln!("error: {error:#}");
}
