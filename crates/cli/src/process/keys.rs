//! The detach keys: Ctrl-P Ctrl-Q, found in a stream of keystrokes.

const CTRL_P: u8 = 0x10;
const CTRL_Q: u8 = 0x11;

/// Looks for the two keys. A Ctrl-P is held back until the next key shows what it was.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct DetachKeys {
    held: bool,
}

impl DetachKeys {
    /// What to pass on of these bytes, and whether the keys were among them.
    pub(super) fn feed(&mut self, bytes: &[u8]) -> (Vec<u8>, bool) {
        let mut pass = Vec::with_capacity(bytes.len() + 1);
        for &byte in bytes {
            let held = std::mem::take(&mut self.held);
            match byte {
                CTRL_Q if held => return (pass, true),
                CTRL_P if !held => self.held = true,
                byte => {
                    if held {
                        pass.push(CTRL_P);
                    }
                    pass.push(byte);
                }
            }
        }
        (pass, false)
    }
}
