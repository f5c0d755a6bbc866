//! The real fence on a simulated engine, an in-memory store and a paused clock.

mod commands;
mod harness;
mod losses;
mod races;
mod restores;
