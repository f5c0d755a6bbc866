//! The real supervisor between a sandbox of our own and the real session service: over a Unix socket, over TCP.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

mod binary;
mod gateway;
mod link;
mod manners;
mod pair;
mod relays;
mod sandbox;
mod sessions;
mod tls;
