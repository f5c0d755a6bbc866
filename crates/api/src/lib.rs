//! `openshell-api`: the public API, supervisor sessions, health and metrics, on the fence and the store.

pub mod auth;
mod convert;
mod names;
mod paging;
mod router;
mod selector;
pub mod serve;
mod service;
pub mod session;
mod status;
mod stream;
mod validate;

pub use router::router;
pub use service::{Api, ApiConfig};
