//! Names that people choose: 1–40 characters of `[a-z0-9-]`, no dash at either end.

use std::fmt;

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// The longest name, in characters.
pub const MAX_NAME: usize = 40;

/// Why a name was refused; the message is for its author.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum NameError {
    /// Nothing was given.
    #[error("the name is empty; use 1 to {MAX_NAME} characters of a-z, 0-9 and '-'")]
    Empty,
    /// More than [`MAX_NAME`] characters.
    #[error("the name has {0} characters; at most {MAX_NAME} are allowed")]
    TooLong(usize),
    /// A character outside `[a-z0-9-]`.
    #[error("the name contains {0:?}; only a-z, 0-9 and '-' are allowed")]
    BadCharacter(char),
    /// A dash at either end.
    #[error("the name starts or ends with '-'")]
    EdgeDash,
}

fn check(s: &str) -> Result<(), NameError> {
    if s.is_empty() {
        return Err(NameError::Empty);
    }
    if let Some(c) = s
        .chars()
        .find(|c| !matches!(c, 'a'..='z' | '0'..='9' | '-'))
    {
        return Err(NameError::BadCharacter(c));
    }
    if s.len() > MAX_NAME {
        return Err(NameError::TooLong(s.len()));
    }
    if s.starts_with('-') || s.ends_with('-') {
        return Err(NameError::EdgeDash);
    }
    Ok(())
}

macro_rules! name_type {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(String);

        impl $name {
            /// Checks and takes a name.
            pub fn new(s: impl Into<String>) -> Result<Self, NameError> {
                let s = s.into();
                check(&s)?;
                Ok(Self(s))
            }

            /// The name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl TryFrom<String> for $name {
            type Error = NameError;

            fn try_from(s: String) -> Result<Self, NameError> {
                Self::new(s)
            }
        }

        impl From<$name> for String {
            fn from(n: $name) -> String {
                n.0
            }
        }

        impl std::str::FromStr for $name {
            type Err = NameError;

            fn from_str(s: &str) -> Result<Self, NameError> {
                Self::new(s)
            }
        }
    };
}

name_type!(
    /// A sandbox's name, unique in its workspace while the sandbox exists.
    SandboxName
);
name_type!(
    /// A workspace's name.
    WorkspaceName
);

impl WorkspaceName {
    /// The workspace that always exists.
    pub fn default_workspace() -> Self {
        Self("default".to_owned())
    }
}

#[cfg(test)]
mod tests;
