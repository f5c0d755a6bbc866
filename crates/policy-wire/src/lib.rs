//! `openshell-policy-wire`: a policy as the wire contract has it, and back. Kept apart so that the policy itself knows
//! no messages and no runtime.

mod read;
mod write;

pub use read::from_wire;
pub use write::to_wire;

#[cfg(test)]
mod tests;
