//! `openshell-policy`: what a sandbox may do. Pure: a decision is a function of the policy and the question.
//!
//! There are no network policies yet, so the answer to every connection and every name is no; what asks does not
//! change when policies come.

mod egress;

pub use egress::{Decision, Destination, connection, name};
