//! The real program against a gateway of cardboard: what goes over the wire, what comes out, and how it ends.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod exec;
mod fake;
mod files;
mod forward;
mod lifecycle;
mod offline;
mod policy;
mod run;
mod tls;
