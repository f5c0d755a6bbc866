//! `openshell-api`: the public API, supervisor sessions, health and metrics, on the fence and the store.

pub mod auth;
pub mod serve;
pub mod session;
mod status;
