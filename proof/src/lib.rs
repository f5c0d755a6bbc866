//! `openshell-proof`: how we know that the life of a sandbox stays right. The production machine is explored
//! exhaustively in a small world ([`model`]); the whole fence is simulated in a troubled one ([`sim`]); and each check must find the same planted [`faults`].

pub mod faults;
pub mod model;
pub mod say;
pub mod sim;
