//! The gateway's configuration: flag > `OPENSHELL_*` environment > file > default.
//!
//! [`model`] says what there is, [`load`] gathers it with where each value came from, [`validate`] says what is
//! wrong with it as a whole, [`show`] prints it.

mod load;
mod model;
mod show;
mod suggest;
mod unset;
mod validate;

pub(crate) use load::{Flags, Loaded, load};
pub(crate) use model::{
    Config, Driver, DriverKind, Drivers, Lifecycle, LogFormat, LogLevel, OnShutdown, PullPolicy,
    Restore,
};
pub(crate) use show::{as_json, as_toml};

use thiserror::Error;

/// Why a configuration cannot be used. The gateway has not touched anything yet.
#[derive(Debug, PartialEq, Eq, Error)]
pub(crate) enum ConfigError {
    /// The named file cannot be read.
    #[error("{path} cannot be read: {why}")]
    Unreadable {
        /// The file.
        path: String,
        /// The system's words.
        why: String,
    },
    /// Not TOML.
    #[error("{path} is not valid TOML: {why}")]
    Syntax {
        /// The file.
        path: String,
        /// The parser's words, with line and column.
        why: String,
    },
    /// `[openshell] version` is missing or of another time.
    #[error("{path}: {why}")]
    Version {
        /// The file.
        path: String,
        /// What it says, what it must say.
        why: String,
    },
    /// A key that does not exist.
    #[error("{path}: unknown key `{key}`{hint}")]
    UnknownKey {
        /// The file.
        path: String,
        /// Dotted.
        key: String,
        /// The nearest known one.
        hint: String,
    },
    /// A value of the wrong kind.
    #[error("`{key}` from {source_name}: {why}")]
    Value {
        /// Dotted.
        key: String,
        /// A flag, a variable, a file.
        source_name: String,
        /// What is expected.
        why: String,
    },
    /// Each value is well formed, but together they make no sense. One line each.
    #[error("{}", .0.join("\n"))]
    Invalid(Vec<String>),
}

#[cfg(test)]
mod tests;
