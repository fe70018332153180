//! Why something about roles is refused.

use std::fmt;

/// A refusal, in Cassandra's words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RoleError {
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

/// What could not be saved.
impl From<String> for RoleError {
    fn from(text: String) -> RoleError {
        RoleError::Failed(text)
    }
}

/// `Err(RoleError::Invalid(format!(..)))`
macro_rules! invalid {
    ($($argument:tt)*) => { Err($crate::roles::RoleError::Invalid(format!($($argument)*))) };
}

/// `Err(RoleError::Unauthorized(format!(..)))`
macro_rules! unauthorized {
    ($($argument:tt)*) => { Err($crate::roles::RoleError::Unauthorized(format!($($argument)*))) };
}

pub(super) use {invalid, unauthorized};
