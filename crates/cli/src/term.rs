//! The terminal: whether there is one, its size, and raw mode that is always given back.

use std::io::{IsTerminal, stderr, stdin, stdout};

use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};

/// Whether a person sits at both ends: stdin and stdout are terminals.
pub(crate) fn is_interactive() -> bool {
    stdin().is_terminal() && stdout().is_terminal()
}

/// Whether a question can be asked and answered.
pub(crate) fn can_ask() -> bool {
    stdin().is_terminal() && stderr().is_terminal()
}

/// Columns and rows; 80 × 24 if nobody knows.
pub(crate) fn size() -> (u32, u32) {
    match tcgetwinsize(stdout()) {
        Ok(size) if size.ws_col > 0 && size.ws_row > 0 => (size.ws_col.into(), size.ws_row.into()),
        _ => (80, 24),
    }
}

/// Raw mode, until it is dropped: at a normal end, at an error, in a panic.
#[derive(Debug)]
pub(crate) struct RawMode {
    before: Termios,
}

impl RawMode {
    /// Sets raw mode; none if stdin is no terminal.
    pub(crate) fn enter() -> Option<Self> {
        let before = tcgetattr(stdin()).ok()?;
        let mut raw = before.clone();
        raw.make_raw();
        tcsetattr(stdin(), OptionalActions::Now, &raw).ok()?;
        Some(Self { before })
    }
}

impl Drop for RawMode {
    fn drop(&mut self) {
        // A terminal that has gone away needs nothing back.
        let _ = tcsetattr(stdin(), OptionalActions::Now, &self.before);
    }
}
