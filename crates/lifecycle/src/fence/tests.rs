//! The real fence on a simulated engine, an in-memory store and a paused clock.

mod bad_input;
mod commands;
mod edges;
mod harness;
mod losses;
mod metrics;
mod observations;
mod races;
mod removals;
mod requests;
mod restores;
mod s1_s2;
mod words;
