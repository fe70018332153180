//! Who may come in and what each may do, as far as threads and a disk are needed for it; the rest is the room `roles`.
//!
//! Reading order: [`keeper`] (the current roles, and how they last), [`gate`] (which password is checked next).
mod gate;
mod keeper;

pub(crate) use gate::LoginGate;
pub(crate) use keeper::{RoleKeeper, SharedRoles, fresh_salt};
