//! The commands, one module for each noun.

pub(crate) mod doctor;
mod each;
pub(crate) mod forward;
pub(crate) mod gateway;
pub(crate) mod logs;
pub(crate) mod policy;
pub(crate) mod sandbox;
pub(crate) mod shell;
pub(crate) mod status;
pub(crate) mod workspace;
