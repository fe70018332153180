//! Roles, their passwords and their permissions, as Cassandra has them: one immutable value, and functions over it.
//!
//! It must not know clocks, sockets, files or threads: what is random is handed in, a statement about roles turns
//! [`Roles`] into other ones, and whoever keeps them makes them last.
//!
//! Reading order: [`model`] (who there is and what each may do), [`resource`] (what permissions are about),
//! [`login`] and [`password`], [`access`] (what a statement needs), [`execute`] and [`list`] (statements about roles),
//! [`persist`].
mod access;
mod error;
mod execute;
mod list;
mod login;
mod model;
pub mod password;
pub mod persist;
mod resource;
#[cfg(test)]
mod tests;

pub use access::Access;
pub use error::RoleError;
pub use execute::{Done, Performer, Salt, execute};
pub use list::Listing;
pub use login::{DEFAULT_SUPERUSER, LoginError, admit};
pub use model::{Role, Roles};
pub use resource::Target;
