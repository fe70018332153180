//! Who may come in, once the password is known to be right.

use std::fmt;

use crate::model::Roles;

/// The superuser of a fresh node, and its password.
pub const DEFAULT_SUPERUSER: &str = "cassandra";

/// Why a login failed, in Cassandra's words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoginError {
    /// No such role, or not its password.
    Wrong { name: String },
    /// The role is not for connecting.
    NotPermitted { name: String },
    /// The password that everybody knows, and not from this machine.
    FirstPassword,
    /// Too many want to be checked.
    TooMany,
    /// The role has as many sessions as it may.
    TooManySessions { name: String, sessions_max: usize },
}

impl fmt::Display for LoginError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LoginError::Wrong { name } => {
                write!(f, "Provided username {name} and/or password are incorrect")
            }
            LoginError::NotPermitted { name } => write!(f, "{name} is not permitted to log in"),
            LoginError::FirstPassword => write!(
                f,
                "{DEFAULT_SUPERUSER} still has its first password, which works from the node's own machine only: change it there with ALTER ROLE {DEFAULT_SUPERUSER} WITH PASSWORD = '...'"
            ),
            LoginError::TooMany => f.write_str("too many logins wait to be checked; try again"),
            LoginError::TooManySessions { name, sessions_max } => write!(
                f,
                "{name} has {sessions_max} sessions on this node already, which is all that limits.sessions_per_role allows: close one, or have the limit raised"
            ),
        }
    }
}

/// Whether a role whose password is right may come in.
pub fn admit(
    roles: &Roles,
    name: &str,
    password: &str,
    is_loopback: bool,
) -> Result<(), LoginError> {
    if name == DEFAULT_SUPERUSER && password == DEFAULT_SUPERUSER && !is_loopback {
        return Err(LoginError::FirstPassword);
    }
    match roles.get(name) {
        Some(role) if role.can_login => Ok(()),
        Some(_) | None => Err(LoginError::NotPermitted { name: name.to_owned() }),
    }
}
