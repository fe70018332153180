//! Who may come in and what each may do, as far as threads and a disk are needed for it; the rest is the room `roles`.
//!
//! Reading order: [`keeper`] (the current roles, and how they last), [`gate`] (which password is checked next),
//! [`seats`] (how much a role may have at once).
mod gate;
mod keeper;
mod seats;

pub(crate) use gate::{LoginGate, Logins};
pub(crate) use keeper::{RoleKeeper, SharedRoles, fresh_salt};
pub(crate) use seats::{NoSeat, Seat, Seats, TooFast};
