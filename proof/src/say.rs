//! What a check tells the person who runs it.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "the output of a check is its purpose"
)]

/// A line of its own.
pub fn line(text: &str) {
    println!("{text}");
}

/// Why a check could not be made.
pub fn error(error: &anyhow::Error) {
    eprintln!("error: {error:#}");
}
