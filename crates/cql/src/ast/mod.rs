//! What a statement says, before anybody asks whether its tables exist.
//!
//! Reading order: `name` (identifiers), `raw_type`, `term` (values), `select`, `relation` (WHERE),
//! `dml`, `ddl`, `roles`, `describe`, and `statement`, which gathers them all.
//! Everything is owned, so that a prepared statement outlives its text.

mod ddl;
mod describe;
mod display;
mod dml;
mod name;
mod raw_type;
mod relation;
mod roles;
mod select;
mod statement;
mod term;

pub use ddl::*;
pub use describe::*;
pub use dml::*;
pub use name::*;
pub use raw_type::*;
pub use relation::*;
pub use roles::*;
pub use select::*;
pub use statement::*;
pub use term::*;
