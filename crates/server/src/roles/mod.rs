//! Roles, their passwords and their permissions, as Cassandra has them.
//!
//! Reading order: [`model`] (who there is and what each may do), [`resource`] (what permissions are
//! about), [`keeper`] (the current state, and how it lasts), [`password`] and [`gate`] (logins), [`access`] (what a
//! statement needs), [`execute`] and [`list`] (statements about roles), [`persist`].
mod access;
mod error;
mod execute;
mod gate;
mod keeper;
mod list;
mod model;
mod password;
mod persist;
mod resource;
#[cfg(test)]
mod tests;

pub(crate) use access::{ensure_statement, ensure_table};
pub(crate) use error::RoleError;
pub(crate) use execute::{Performer, execute};
pub(crate) use gate::LoginGate;
pub(crate) use keeper::{DEFAULT_SUPERUSER, LoginError, RoleKeeper};
pub(crate) use resource::Target;
