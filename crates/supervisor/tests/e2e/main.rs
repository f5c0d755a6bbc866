//! The real supervisor between a sandbox of our own and the real session service: over a Unix socket, over TCP.

mod gateway;
mod link;
mod pair;
mod relays;
mod sandbox;
mod sessions;
