//! `openshell-policy`: what a sandbox may do. Pure: a decision is a function of the policy and the question.
//!
//! A file is read into a tree of nodes that know their places ([`node`]), held against the tables of keys ([`fields`],
//! [`shape`]), and becomes a [`Policy`] of types ([`read`]). A policy has one normal form and its hash ([`document`]).
//! It is compiled once for each revision ([`decide`]) and then answers questions.
//!
//! Nothing enforces policies yet: [`connection`] and [`name`] answer no to everything.

mod address;
mod decide;
pub mod document;
mod egress;
mod fields;
mod glob;
mod host;
mod http;
mod model;
mod node;
mod problem;
mod read;
mod schema;
mod shape;

pub use address::{Leave, Network, Never, Refusal, admit, is_private, never};
pub use decide::{
    Admitted, Cause, Connection, Engine, Inspection, Missing, Proposal, Request, Verdict,
};
pub use egress::{Decision, Destination, connection, name};
pub use glob::Glob;
pub use host::{GATEWAY_HOST, Host, HostPattern};
pub use http::{Method, RequestPath, Unclear};
pub use model::{
    Access, Compatibility, Endpoint, Enforcement, Filesystem, Identity, Policy, Preset, Process,
    Protocol, RequestPattern, Rule,
};
pub use node::LARGEST;
pub use problem::{Place, Problem, Problems};
pub use read::Checked;
pub use schema::schema;
