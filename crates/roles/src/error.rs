//! Why something about roles is refused.

use std::fmt;

/// A refusal, in Cassandra's words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RoleError {
    /// The statement contradicts what there is.
    Invalid(String),
    /// Not for this role.
    Unauthorized(String),
    /// It could not be made to last.
    Failed(String),
}

impl fmt::Display for RoleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RoleError::Invalid(text) | RoleError::Unauthorized(text) | RoleError::Failed(text) => {
                f.write_str(text)
            }
        }
    }
}

impl std::error::Error for RoleError {}

/// `Err(RoleError::Invalid(format!(..)))`
macro_rules! invalid {
    ($($argument:tt)*) => { Err($crate::RoleError::Invalid(format!($($argument)*))) };
}

/// `Err(RoleError::Unauthorized(format!(..)))`
macro_rules! unauthorized {
    ($($argument:tt)*) => { Err($crate::RoleError::Unauthorized(format!($($argument)*))) };
}

pub(crate) use {invalid, unauthorized};
