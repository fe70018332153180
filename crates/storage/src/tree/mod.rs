//! What storage keeps in and beside a table's tree: how keys look, how far each set was applied, what is deleted,
//! and how what is dead goes.
//!
//! Reading order: [`keys`], [`progress`] with [`answers`], [`store`], [`deletions`], [`layers`] and [`covering`]; [`purge`] and [`sweep`] for what is dead.

pub(crate) mod answers;
pub(crate) mod covering;
pub(crate) mod deletions;
pub(crate) mod guards;
pub(crate) mod keys;
pub(crate) mod layers;
pub(crate) mod progress;
pub(crate) mod purge;
pub(crate) mod store;
pub(crate) mod sweep;
