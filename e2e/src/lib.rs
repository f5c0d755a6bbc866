//! The harness: a private engine, images made from scratch, a gateway from release binaries, a census of what is
//! left. It knows the product only from outside: command lines, the engine's own words, files.

pub mod census;
pub mod choices;
pub mod command;
pub mod each;
pub mod engine;
pub mod gateway;
pub mod host;
pub mod image;
pub mod podman;
mod processes;
pub mod relay;
pub mod ticks;
pub mod wait;
