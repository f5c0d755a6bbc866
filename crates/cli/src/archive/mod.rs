//! Files to and from a sandbox, as tar: packing what is ours, and unpacking what a sandbox made, which is
//! not to be trusted.

mod bridge;
mod pack;
mod unpack;

pub(crate) use bridge::{ChunkReader, ChunkWriter};
pub(crate) use pack::pack;
pub(crate) use unpack::{Unpacked, unpack};

#[cfg(test)]
mod tests;
