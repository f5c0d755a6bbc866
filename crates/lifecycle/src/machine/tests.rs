//! The machine alone: every command in every phase, identity, order, and random inputs.

mod commands;
mod edges;
mod found;
mod identity;
mod kept;
mod losses;
mod overlaps;
mod parking;
mod play;
mod random;
mod rests;
mod resumed;
mod runs;
mod words;
